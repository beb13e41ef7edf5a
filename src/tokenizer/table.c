#include "tokenizer/table.h"

#include <stdlib.h>
#include <string.h>

bool table_init(Table *t, size_t count) {
    size_t n_slots = 8;
    while (n_slots / 4 * 3 < count + 1) n_slots *= 2;
    t->slots = calloc(n_slots, sizeof *t->slots);
    if (!t->slots) return false;
    t->n_slots = n_slots;
    t->key = hash_key();
    return true;
}

void table_close(Table *t) {
    free(t->slots);
    *t = (Table){0};
}

/* The slot that holds the string, or the free one where it belongs. */
static TableSlot *find(const Table *t, const char *s, size_t n, uint32_t hash) {
    for (size_t i = hash & (t->n_slots - 1);; i = (i + 1) & (t->n_slots - 1)) {
        TableSlot *slot = &t->slots[i];
        if (!slot->s) return slot;
        if (slot->hash == hash && slot->n == n && memcmp(slot->s, s, n) == 0) return slot;
    }
}

bool table_put(Table *t, const char *s, size_t n, int value) {
    return table_put_at(t, s, n, (uint32_t)hash_bytes(t->key, s, n), value);
}

bool table_put_at(Table *t, const char *s, size_t n, uint32_t hash, int value) {
    TableSlot *slot = find(t, s, n, hash);
    if (slot->s) return false;
    *slot = (TableSlot){s, (uint32_t)n, hash, value};
    return true;
}

int table_get(const Table *t, const char *s, size_t n) {
    return t->n_slots ? table_find(t, s, n, (uint32_t)hash_bytes(t->key, s, n)) : -1;
}

uint32_t table_hash(const Table *t, const char *s, size_t n) {
    uint32_t hash = (uint32_t)hash_bytes(t->key, s, n);
    __builtin_prefetch(&t->slots[hash & (t->n_slots - 1)]);
    return hash;
}

void table_prefetch(const Table *t, uint32_t hash) { __builtin_prefetch(t->slots[hash & (t->n_slots - 1)].s); }

int table_find(const Table *t, const char *s, size_t n, uint32_t hash) {
    const TableSlot *slot = find(t, s, n, hash);
    return slot->s ? slot->value : -1;
}
