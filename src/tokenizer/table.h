/* table - hash table from counted strings, which a stranger may have chosen, to numbers. The strings stay the caller's.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

typedef struct {
    const char *s;    /* NULL: the slot is free */
    uint32_t n, hash; /* n: bytes */
    int value;
} TableSlot;

typedef struct {
    TableSlot *slots; /* [n_slots] a power of two, at most three quarters full */
    size_t n_slots;
    HashKey key;
} Table;

/* table_init - room for `count` strings. False when out of memory. */
bool table_init(Table *t, size_t count);
void table_close(Table *t);

/* table_put - false, and nothing changes, when the string is there already. value >= 0. */
bool table_put(Table *t, const char *s, size_t n, int value);
/* table_get - the string's value, or -1. A zeroed Table is an empty one. */
int table_get(const Table *t, const char *s, size_t n);

/* The same in steps, for who has many strings at once: a large table lies in memory, and each step asks for what the
 * next one reads. table_hash - the string's hash; its slot is prefetched. table_prefetch - the string in that slot.
 * table_find - as table_get. table_put_at - as table_put. The table must not be empty. */
uint32_t table_hash(const Table *t, const char *s, size_t n);
void table_prefetch(const Table *t, uint32_t hash);
int table_find(const Table *t, const char *s, size_t n, uint32_t hash);
bool table_put_at(Table *t, const char *s, size_t n, uint32_t hash, int value);
