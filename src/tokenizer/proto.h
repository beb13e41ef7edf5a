/* proto - walks the fields of a protobuf message. Source: protobuf's encoding,
 * protobuf.dev/programming-guides/encoding. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* A message or a field of one: [at, end) of the file. */
typedef struct {
    const unsigned char *at, *end;
} Span;

typedef struct {
    unsigned number;
    unsigned wire; /* 0 varint, 1 eight bytes, 2 a length and bytes, 5 four bytes */
    uint64_t varint;
    Span bytes; /* wires 1, 2, 5 */
} ProtoField;

/* proto_next - the next field of *s; false at the end, and (*broken set) where no field can begin. */
bool proto_next(Span *s, ProtoField *f, bool *broken);
