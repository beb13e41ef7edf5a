/* vocab - the pieces of a vocabulary: text, kind, score, and the bytes that each one decodes to. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "tokenizer/table.h"

/* The numbers are those of GGUF's tokenizer.ggml.token_type. */
typedef enum {
    PIECE_NONE, /* an id that no token has */
    PIECE_NORMAL,
    PIECE_UNKNOWN,
    PIECE_CONTROL, /* <s>, <|im_start|>: adds no text */
    PIECE_USER,    /* an added token that is text: always found whole */
    PIECE_UNUSED,
    PIECE_BYTE, /* <0x0A> */
} PieceKind;

typedef struct {
    const char *text; /* as the vocabulary file shows it; not NUL-terminated */
    uint32_t n;       /* bytes of text */
    uint32_t n_decoded;
    const char *decoded; /* the raw bytes of the token */
    float score;         /* score BPE only: the highest merges first */
    uint8_t kind;        /* PieceKind */
    bool marked;         /* user-defined, but looks like a special token: no text merges into it */
    bool outside;        /* tokenizer.json: only an added token, which the model does not know */
} Piece;

typedef enum {
    SPELL_PLAIN,         /* the text is the bytes (llama2.c) */
    SPELL_METASPACE,     /* "▁" stands for a space (sentencepiece) */
    SPELL_BYTE_ALPHABET, /* each byte is one printable character (GPT-2) */
    SPELL_LATER,         /* the reader sets the decoded bytes itself */
} Spelling;

typedef struct {
    Piece *pieces; /* [n] */
    int n;
    Table ids;        /* text -> id of every piece that has one; of equal texts the first */
    int byte_id[256]; /* after vocab_find_bytes: the token of a byte; else that of <0xNN>; -1: none */
    size_t max_bytes; /* of the longest text */
    char *decoded;    /* the storage behind Piece.decoded */
} Vocab;

/* vocab_init - n pieces of PIECE_NONE; the reader fills pieces[].{text, n, score, kind}. */
int vocab_init(Vocab *v, int n, const char *file, Error *e);

/* vocab_finish - builds ids, byte_id and the decoded bytes. Refuses two normal pieces of the same text
 * and a byte piece that is not <0xNN>. `file` is for messages. */
int vocab_finish(Vocab *v, Spelling spelling, const char *file, Error *e);
void vocab_close(Vocab *v);
/* vocab_find_bytes - sets byte_id to the tokens that are one letter of GPT-2's alphabet. */
void vocab_find_bytes(Vocab *v);

/* vocab_find - the id of the model's piece with this text, or -1. */
static inline int vocab_find(const Vocab *v, const char *text, size_t n) {
    int id = table_get(&v->ids, text, n);
    return id >= 0 && v->pieces[id].outside ? -1 : id;
}

/* byte_letter - how GPT-2's alphabet shows a byte: printable ones as themselves, the others from
 * U+0100 on, as UTF-8. Returns its length (1 or 2). */
size_t byte_letter(unsigned char byte, char letter[2]);

/* letters_to_bytes - the bytes that text in GPT-2's alphabet stands for, into out (n bytes of room; it may be text
 * itself); their number, or SIZE_MAX when a letter is not in it. */
size_t letters_to_bytes(const char *text, size_t n, char *out);
