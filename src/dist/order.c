#include "dist/order.h"

#include <stdlib.h>
#include <string.h>

/* An order and the tokens of its pass go as one message, which a batch of 64 K tokens does not outgrow. */
enum { MAX_TOKENS = 1 << 16 };
typedef struct {
    Order order;
    int tokens[MAX_TOKENS];
} Message;

void order_send(Comm *c, const Order *o, const int *tokens) {
    if (!c || c->size == 1 || c->rank) return;
    static Message m; /* of the one communicator there is; one thread sends */
    m.order = *o;
    size_t n = o->kind == ORDER_PASS ? (size_t)o->n : 0;
    if (n) memcpy(m.tokens, tokens, n * sizeof *tokens);
    for (int i = 1; i < c->size; i++) comm_send(c, i, &m, offsetof(Message, tokens) + n * sizeof *tokens);
}

void order_receive(Comm *c, Order *o, int *tokens, int room) {
    static Message m;
    comm_receive(c, 0, &m, sizeof m, true);
    *o = m.order;
    if (o->kind != ORDER_PASS) return;
    if (o->n > room) o->n = room;
    memcpy(tokens, m.tokens, (size_t)o->n * sizeof *tokens);
}

typedef struct {
    int outcome;
    uint64_t hash;
    char text[sizeof((Error *)0)->text];
} Report;

int order_agree(Comm *c, int outcome, uint64_t hash, const char *what, Error *e) {
    if (!c || c->size == 1) return outcome;
    Report r = {.outcome = outcome, .hash = hash};
    if (c->rank) {
        memcpy(r.text, e->text, sizeof r.text);
        comm_send(c, 0, &r, sizeof r);
        return outcome;
    }
    for (int i = 1; i < c->size; i++) {
        comm_receive(c, i, &r, sizeof r, true);
        r.text[sizeof r.text - 1] = 0;
        if (outcome) continue; /* the first rank's message is the one worth reading, but all must be heard */
        if (r.outcome) outcome = fail(e, "rank %d: %.900s", i, r.text);
        else if (r.hash != hash)
            outcome = fail(e, "%s: rank %d: expected what rank 0 has (%016llx), found another (%016llx)", what, i,
                           (unsigned long long)hash, (unsigned long long)r.hash);
    }
    return outcome;
}
