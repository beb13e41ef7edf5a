#include "tokenizer/proto.h"

#include <stddef.h>

static bool take_varint(Span *s, uint64_t *x) {
    *x = 0;
    for (unsigned shift = 0; shift < 64 && s->at < s->end; shift += 7) {
        unsigned char byte = *s->at++;
        *x |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return true;
    }
    return false;
}

bool proto_next(Span *s, ProtoField *f, bool *broken) {
    uint64_t tag, n = 0;
    if (s->at == s->end) return false;
    *broken = true;
    if (!take_varint(s, &tag) || tag > UINT32_MAX || tag >> 3 == 0) return false;
    *f = (ProtoField){.number = (unsigned)(tag >> 3), .wire = (unsigned)(tag & 7)};
    switch (f->wire) {
    case 0:
        if (!take_varint(s, &f->varint)) return false;
        break;
    case 1: n = 8; break;
    case 2:
        if (!take_varint(s, &n)) return false;
        break;
    case 5: n = 4; break;
    default: return false; /* groups: no field of this format is one */
    }
    if (n > (size_t)(s->end - s->at)) return false;
    f->bytes = (Span){s->at, s->at + n};
    s->at += n;
    *broken = false;
    return true;
}
