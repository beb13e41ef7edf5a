/* jinja_lex - a template's text as tokens, whitespace control (trim_blocks, lstrip_blocks, "-", "+") applied.
 * Source: jinja2's lexer.py. */
#pragma once
#include "chat/value.h"

typedef enum {
    TOK_EOF,
    TOK_DATA,
    TOK_VARIABLE_BEGIN,
    TOK_VARIABLE_END,
    TOK_BLOCK_BEGIN,
    TOK_BLOCK_END,
    TOK_NAME,
    TOK_STRING,
    TOK_INTEGER,
    TOK_FLOAT,
    TOK_OPERATOR
} TokenKind;

typedef struct {
    TokenKind kind;
    int line, column;
    const char *name; /* TOK_NAME: interned. TOK_OPERATOR: "+", "//", ... */
    Value value;      /* TOK_DATA, TOK_STRING, TOK_INTEGER, TOK_FLOAT */
} Token;

/* jinja_lex - all tokens, the last TOK_EOF. source must stay valid. */
Token *jinja_lex(Jinja *j, const char *source, size_t n);
