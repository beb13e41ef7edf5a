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

/* json_int, json_number, json_bool - the key's value, or *out left alone when it is absent or null.
 * Fails on another type, and for json_int on a value that is no integer in [min, max]. */
int json_int(int *out, const cJSON *object, const char *key, int min, int max, const char *what, Error *e);
int json_number(double *out, const cJSON *object, const char *key, const char *what, Error *e);
int json_bool(bool *out, const cJSON *object, const char *key, const char *what, Error *e);
