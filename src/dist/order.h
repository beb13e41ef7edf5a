/* order - what rank 0 tells the other ranks to do next. Rank 0 runs the mode; the others do the same steps on their
 * part of the model (src/gen/follow.c). */
#pragma once
#include "dist/comm.h"

typedef enum { ORDER_MODEL, ORDER_STATE, ORDER_PASS, ORDER_LOGITS, ORDER_CLOSE, ORDER_STOP } OrderKind;

typedef struct {
    OrderKind kind;
    int n, pos, seq_len; /* ORDER_PASS: as in model_pass; its tokens follow */
    int row;             /* ORDER_LOGITS: which, and n from there on; ORDER_PASS: how many are wanted */
    int n_ctx, n_batch, n_logits, kv_type; /* ORDER_STATE; ORDER_LOGITS: the n_logits largest of a rank, 0: all */
    bool deterministic, scalar;            /* ... scalar: the reference kernels */
    bool watched;                          /* ORDER_PASS, ORDER_LOGITS: a tap is set on rank 0 */
    uint64_t flags;                        /* ORDER_MODEL: hash of the command line and of the program's version */
} Order;

/* order_send - rank 0 tells all others; of any other rank, or of one alone, it does nothing. tokens  [o->n] for a pass
 */
void order_send(Comm *c, const Order *o, const int *tokens);

/* order_receive - waits for the next order. tokens  [room] those of a pass; o->n is cut at room. */
void order_receive(Comm *c, Order *o, int *tokens, int room);

/* order_agree - all ranks call it once a step that may fail is done: it fails on rank 0 with the first rank's message
 * when it failed on any, and when `hash`, which stands for what the rank read, differs from rank 0's. The others always
 * get their own outcome back. `what` names the thing hashed. */
int order_agree(Comm *c, int outcome, uint64_t hash, const char *what, Error *e);
