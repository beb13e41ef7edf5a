/* json - JSON from strangers, over cJSON: text in, one tree out, with the checks that every reader
 * here needs (UTF-8, nesting depth, no duplicate keys, nothing after the value). */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* json_parse - `what` is the file's name in messages. NULL on failure. Free with cJSON_Delete. */
cJSON *json_parse(const char *text, size_t size, const char *what, Error *e);
cJSON *json_read(const char *path, Error *e);

/* json_bytes - C strings end at a NUL, so \u0000 within a JSON string is kept as the bytes C0 80 (an overlong form,
 * which no text from outside can hold). Puts NULs in their place in s[n]; returns the new length. */
size_t json_bytes(char *s, size_t n);

/* json_int, json_number, json_bool - the key's value, or *out left alone when it is absent or null.
 * Fails on another type, and for json_int on a value that is no integer in [min, max]. */
int json_int(int *out, const cJSON *object, const char *key, int min, int max, const char *what, Error *e);
int json_number(double *out, const cJSON *object, const char *key, const char *what, Error *e);
int json_bool(bool *out, const cJSON *object, const char *key, const char *what, Error *e);
