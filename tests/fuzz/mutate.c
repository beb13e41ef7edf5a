/* mutate - libFuzzer's custom mutator: knows where the parts of each format are and changes one of them, so that the
 * mutant gets past the first check of its reader. Numbers become extreme, texts hostile, names equal, types others;
 * parts are copied, dropped, exchanged and nested; lengths and counts follow, mostly. Half of the time libFuzzer's own
 * mutations are made. replay.c makes some mutants of each seed, too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

/* ---- A buffer with room, and dice ------------------------------------------------------------------ */

typedef struct {
    uint8_t *data;
    size_t n, room;
} Buffer;

static uint64_t dice;

static size_t below(size_t n) { /* splitmix64 */
    uint64_t z = dice += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return n ? (size_t)((z ^ z >> 31) % n) : 0;
}

/* Replaces `old` bytes at `at`; false when the result has no room. */
static bool replace(Buffer *b, size_t at, size_t old, const void *text, size_t n) {
    if (at + old > b->n || b->n - old + n > b->room) return false;
    uint8_t *copy = malloc(n + 1); /* text may be inside of the buffer */
    if (!copy) abort();
    memcpy(copy, text, n);
    memmove(b->data + at + n, b->data + at + old, b->n - at - old);
    memcpy(b->data + at, copy, n);
    b->n = b->n - old + n;
    free(copy);
    return true;
}

static uint64_t number_at(const Buffer *b, size_t at, size_t n) {
    uint64_t x = 0;
    if (at + n <= b->n) memcpy(&x, b->data + at, n);
    return x;
}

static void put_number(Buffer *b, size_t at, size_t n, uint64_t x) {
    if (at + n <= b->n) memcpy(b->data + at, &x, n);
}

static const uint64_t extreme[] = {0,
                                   1,
                                   2,
                                   3,
                                   31,
                                   0x7f,
                                   0xff,
                                   0x7fff,
                                   0xffff,
                                   0x7fffffff,
                                   0x80000000,
                                   0xffffffff,
                                   0x100000000,
                                   0x3fffffffffffffff,
                                   0x7fffffffffffffff,
                                   0x8000000000000000,
                                   0xffffffffffffffff,
                                   0x7f800000 /* inf */,
                                   0x7fc00000 /* nan */,
                                   0x7ff0000000000000,
                                   0x00000001 /* subnormal */};
static uint64_t pick_extreme(void) { return extreme[below(sizeof extreme / sizeof *extreme)]; }

/* Texts that a name or value may turn into. */
static const char *const hostile[] = {
    "",
    "\x1b]0;t\x07",
    ("\xc2\x9b"
     "31m"),
    "\xff\xfe",
    "\xe2\x80\xae",
    "../../../../etc/passwd",
    "/dev/zero",
    "a\nrun: fine",
    "%s%n%1$s",
    "\xed\xa0\x80",
    "\xc0\x80",
    "\xf0\x9f\x98\x80",
    "<0x00>",
    "<s>",
    "\xe2\x96\x81",
    "llama",
    "(a*)*(a*)*b",
    "{%for i in range(9999)%}x{%endfor%}",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
static const char *pick_hostile(void) { return hostile[below(sizeof hostile / sizeof *hostile)]; }

/* ---- Parts --------------------------------------------------------------------------------------- */

typedef enum {
    PART_NUMBER, /* binary, 1 to 8 bytes */
    PART_TEXT,   /* with a length of `prefix` bytes before it */
    PART_RECORD, /* can be copied, dropped and exchanged; counted by the u64 at `count`, if that is not 0 */
    PART_KEY,    /* JSON: with its quotes */
    PART_VALUE,  /* JSON */
    PART_MEMBER, /* JSON: an element, or key and value */
} PartKind;

typedef struct {
    PartKind kind;
    size_t at, n, prefix, count;
} Part;

enum { MAX_PARTS = 4096 };
typedef struct {
    Part parts[MAX_PARTS];
    size_t n;
} Parts;

static void add(Parts *p, PartKind kind, size_t at, size_t n, size_t prefix, size_t count) {
    if (p->n < MAX_PARTS) p->parts[p->n++] = (Part){kind, at, n, prefix, count};
}

static const Part *pick_part(const Parts *p, unsigned kinds) {
    for (int i = 0; i < 64 && p->n; i++) {
        const Part *part = &p->parts[below(p->n)];
        if (kinds >> part->kind & 1) return part;
    }
    return NULL;
}

/* ---- GGUF ---------------------------------------------------------------------------------------- */

static const uint8_t gguf_size[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

static size_t gguf_text(const Buffer *b, Parts *p, size_t at) {
    uint64_t n = number_at(b, at, 8);
    add(p, PART_NUMBER, at, 8, 0, 0);
    if (at + 8 > b->n || n > b->n - at - 8) return b->n;
    add(p, PART_TEXT, at + 8, (size_t)n, 8, 0);
    return at + 8 + (size_t)n;
}

static size_t gguf_value(const Buffer *b, Parts *p, size_t at, uint64_t type) {
    if (type == 8) return gguf_text(b, p, at);
    if (type == 9) {
        uint64_t of = number_at(b, at, 4), n = number_at(b, at + 4, 8);
        add(p, PART_NUMBER, at, 4, 0, 0);
        add(p, PART_NUMBER, at + 4, 8, 0, 0);
        at += 12;
        for (uint64_t i = 0; i < n && at < b->n && of != 9; i++) at = gguf_value(b, p, at, of);
        return at;
    }
    size_t n = type < sizeof gguf_size ? gguf_size[type] : 0;
    add(p, PART_NUMBER, at, n, 0, 0);
    return n ? at + n : b->n;
}

static void gguf_parts(const Buffer *b, Parts *p) {
    enum { TENSORS = 8, KEYS = 16, FIRST = 24 };
    uint64_t tensors = number_at(b, TENSORS, 8), keys = number_at(b, KEYS, 8);
    size_t at = FIRST;
    add(p, PART_NUMBER, 4, 4, 0, 0);
    add(p, PART_NUMBER, TENSORS, 8, 0, 0);
    add(p, PART_NUMBER, KEYS, 8, 0, 0);
    for (uint64_t i = 0; i < keys && at < b->n; i++) {
        size_t begin = at;
        at = gguf_text(b, p, at);
        add(p, PART_NUMBER, at, 4, 0, 0);
        at = gguf_value(b, p, at + 4, number_at(b, at, 4));
        if (at <= b->n) add(p, PART_RECORD, begin, at - begin, 0, KEYS);
    }
    for (uint64_t i = 0; i < tensors && at < b->n; i++) {
        size_t begin = at;
        at = gguf_text(b, p, at);
        uint64_t dims = number_at(b, at, 4);
        add(p, PART_NUMBER, at, 4, 0, 0);
        for (uint64_t d = 0; d < dims && d < 8; d++) add(p, PART_NUMBER, at + 4 + 8 * d, 8, 0, 0);
        at += 4 + 8 * (dims < 8 ? (size_t)dims : 8);
        add(p, PART_NUMBER, at, 4, 0, 0);
        add(p, PART_NUMBER, at + 4, 8, 0, 0);
        at += 12;
        if (at <= b->n) add(p, PART_RECORD, begin, at - begin, 0, TENSORS);
    }
}

/* ---- Protocol buffers ---------------------------------------------------------------------------- */

static size_t varint(const Buffer *b, size_t at, uint64_t *x) {
    *x = 0;
    for (int shift = 0; at < b->n && shift < 63; shift += 7) {
        *x |= (uint64_t)(b->data[at] & 0x7f) << shift;
        if (!(b->data[at++] & 0x80)) break;
    }
    return at;
}

static void proto_parts(const Buffer *b, Parts *p, size_t at, size_t end, int depth) {
    while (at < end) {
        uint64_t tag, n = 0;
        size_t begin = at, body;
        body = at = varint(b, at, &tag);
        if ((tag & 7) == 0) at = varint(b, at, &n);
        else if ((tag & 7) == 1) at += 8;
        else if ((tag & 7) == 5) at += 4;
        else if ((tag & 7) == 2) body = at = varint(b, at, &n), at = n > end - at ? end + 1 : at + (size_t)n;
        else return;
        if (at > end) return;
        add(p, PART_RECORD, begin, at - begin, 0, 0);
        add(p, PART_NUMBER, begin, 1, 0, 0);
        if ((tag & 7) != 2) add(p, PART_NUMBER, body, at - body < 8 ? at - body : 8, 0, 0);
        else if (n < 128) add(p, PART_TEXT, body, (size_t)n, 1, 0);
        if ((tag & 7) == 2 && depth < 2) proto_parts(b, p, body, at, depth + 1);
    }
}

/* ---- JSON ---------------------------------------------------------------------------------------- */

static size_t skip_space(const Buffer *b, size_t at) {
    while (at < b->n && strchr(" \t\r\n", b->data[at]) && b->data[at]) at++;
    return at;
}

static size_t json_parts(const Buffer *b, Parts *p, size_t at, int depth) {
    size_t begin = at = skip_space(b, at);
    if (at >= b->n || depth > 64) return b->n;
    char c = (char)b->data[at];
    if (c == '"') {
        for (at++; at < b->n && b->data[at] != '"'; at++) at += b->data[at] == '\\';
        at = at < b->n ? at + 1 : b->n;
    } else if (c == '{' || c == '[') {
        for (at = skip_space(b, at + 1); at < b->n && b->data[at] != '}' && b->data[at] != ']';) {
            size_t member = at;
            if (c == '{') {
                if (b->data[at] != '"') return b->n;
                size_t end = at + 1;
                for (; end < b->n && b->data[end] != '"'; end++) end += b->data[end] == '\\';
                if (end >= b->n) return b->n;
                add(p, PART_KEY, at, end + 1 - at, 0, 0);
                at = skip_space(b, end + 1);
                if (at >= b->n || b->data[at] != ':') return b->n;
                at++;
            }
            at = json_parts(b, p, at, depth + 1);
            if (at >= b->n) return b->n;
            add(p, PART_MEMBER, member, at - member, 0, 0);
            at = skip_space(b, at);
            if (at < b->n && b->data[at] == ',') at = skip_space(b, at + 1);
            else break;
        }
        at = at < b->n ? at + 1 : b->n;
    } else {
        while (at < b->n && !strchr(",]} \t\r\n", b->data[at])) at++;
        if (at == begin) return b->n;
    }
    add(p, PART_VALUE, begin, at - begin, 0, 0);
    return at;
}

static bool mutate_json(Buffer *b, Parts *p) {
    static const char *const values[] = {"0",
                                         "-1",
                                         "1e999",
                                         "-1e-999",
                                         "0.5",
                                         "2147483647",
                                         "2147483648",
                                         "-2147483649",
                                         "9223372036854775808",
                                         "1e18",
                                         "null",
                                         "true",
                                         "false",
                                         "[]",
                                         "{}",
                                         "\"\"",
                                         "\"\\u0000\"",
                                         "\"\\ud800\"",
                                         "\"\\udc00\\ud800\"",
                                         "\"a\\u0000b\"",
                                         "[[[[]]]]",
                                         "\"\\u001b[31m\"",
                                         "{\"a\": 1, \"a\": 2}",
                                         "\"linear\"",
                                         "\"yarn\"",
                                         "\"Split\"",
                                         "\"Sequence\"",
                                         "\"ByteLevel\"",
                                         "\"silu\""};
    const Part *part = pick_part(p, 1u << PART_KEY | 1u << PART_VALUE | 1u << PART_MEMBER), *other;
    if (!part) return false;
    char text[256];
    switch (part->kind) {
    case PART_KEY:
        other = pick_part(p, 1u << PART_KEY);
        if (below(2) && other) return replace(b, part->at, part->n, b->data + other->at, other->n);
        return replace(b, part->at, part->n, text, (size_t)snprintf(text, sizeof text, "\"%s\"", pick_hostile()));
    case PART_MEMBER:
        if (below(2)) { /* twice */
            if (!replace(b, part->at, 0, b->data + part->at, part->n)) return false;
            return replace(b, part->at + part->n, 0, ",", 1);
        }
        other = pick_part(p, 1u << PART_MEMBER);
        return replace(b, part->at, part->n, b->data + other->at, other->n);
    default:
        if (below(8) == 0) { /* deep */
            size_t depth = 1 + below(below(4) ? 8 : 2000);
            bool fits = true;
            for (size_t i = 0; i < depth && fits; i++) fits = replace(b, part->at, 0, "[", 1);
            for (size_t i = 0; i < depth && fits; i++) fits = replace(b, part->at + depth + part->n, 0, "]", 1);
            return fits;
        }
        other = pick_part(p, 1u << PART_VALUE);
        if (below(3) == 0) return replace(b, part->at, part->n, b->data + other->at, other->n);
        if (below(3) == 0)
            return replace(b, part->at, part->n, text, (size_t)snprintf(text, sizeof text, "\"%s\"", pick_hostile()));
        const char *value = values[below(sizeof values / sizeof *values)];
        return replace(b, part->at, part->n, value, strlen(value));
    }
}

/* A JSON text somewhere in the buffer: at its begin, at a line's, or behind a safetensors header's length. */
static bool mutate_files(Buffer *b, Parts *p) {
    for (int tries = 0; tries < 32; tries++) {
        size_t at = below(b->n);
        const uint8_t *brace = memchr(b->data + at, '{', b->n - at);
        if (!brace) brace = memchr(b->data, '{', b->n);
        if (!brace) return false;
        at = (size_t)(brace - b->data);
        bool header = at >= 8 && number_at(b, at - 8, 8) > 1 && number_at(b, at - 8, 8) <= b->n - at;
        if (at && b->data[at - 1] != '\n' && !header) continue;
        p->n = 0;
        json_parts(b, p, at, 0);
        size_t before = b->n;
        if (!mutate_json(b, p)) return false;
        if (header && below(8)) put_number(b, at - 8, 8, number_at(b, at - 8, 8) + b->n - before);
        return true;
    }
    return false;
}

/* ---- Templates ----------------------------------------------------------------------------------- */

static void jinja_parts(const Buffer *b, Parts *p) {
    for (size_t at = 0; at + 1 < b->n; at++) {
        if (b->data[at] != '{' || !strchr("{%#", b->data[at + 1]) || !b->data[at + 1]) continue;
        size_t end = at + 2;
        while (end + 1 < b->n && !(b->data[end + 1] == '}' && strchr("}%#", b->data[end]) && b->data[end])) end++;
        if (end + 2 <= b->n) add(p, PART_RECORD, at, end + 2 - at, 0, 0);
    }
}

static bool mutate_jinja(Buffer *b, Parts *p) {
    static const char *const snippets[] = {"{% for a in range(99999) %}",
                                           "{% endfor %}",
                                           "{% if x is defined and y %}",
                                           "{% else %}",
                                           "{% endif %}",
                                           "{% set a = messages %}",
                                           "{% set ns = namespace(a=1) %}",
                                           "{% macro m(a, b=1) %}",
                                           "{% endmacro %}",
                                           "{{ m(m) }}",
                                           "{{ messages[0]['content'] | tojson }}",
                                           "{{ 'a' * 999999999 }}",
                                           "{{ [1,2][::-1] }}",
                                           "{{ 1 // 0 }}",
                                           "{{ 2 ** 9999 }}",
                                           "{{ raise_exception('\x1b') }}",
                                           "{{ ((((((((((1)))))))))) }}",
                                           "{{ messages | map(attribute='role') | join }}",
                                           "{{ '%s' % messages }}",
                                           "{{ strftime_now('%Y') }}",
                                           "{{ a.b.c.d }}",
                                           "{{ 'x'.replace('', 'yy') }}",
                                           "{%- endfor -%}"};
    const Part *part = pick_part(p, 1u << PART_RECORD), *other = pick_part(p, 1u << PART_RECORD);
    const char *snippet = snippets[below(sizeof snippets / sizeof *snippets)];
    if (!part || below(2)) return replace(b, part ? part->at : 0, 0, snippet, strlen(snippet));
    switch (below(3)) {
    case 0: return replace(b, part->at, part->n, "", 0);
    case 1: return replace(b, part->at, 0, b->data + other->at, other->n);
    default: return replace(b, part->at, part->n, snippet, strlen(snippet));
    }
}

/* ---- Expressions --------------------------------------------------------------------------------- */

static bool mutate_regex(Buffer *b) {
    static const char *const snippets[] = {"(a*)*",
                                           "(?:a|a)+",
                                           "(a+)+$",
                                           "[\\p{L}\\p{N}]",
                                           "(?!\\S)",
                                           "(?<=a)",
                                           "\\1",
                                           "(?i:",
                                           ")",
                                           "{1,1000}",
                                           "{0}",
                                           "*?",
                                           "++",
                                           "[^\\s\\p{Han}&&[\\p{L}]]",
                                           "\\x{10ffff}",
                                           "(?>a|ab)",
                                           "\\b",
                                           "|",
                                           "^",
                                           "\\G",
                                           "(?<n>a)\\k<n>",
                                           "[a-\xff]",
                                           "(((((((((("};
    const char *snippet = snippets[below(sizeof snippets / sizeof *snippets)];
    size_t at = below(b->n), n = below(b->n - at < 16 ? b->n - at : 16);
    switch (below(4)) {
    case 0: return replace(b, at, n, "", 0);
    case 1: return replace(b, below(b->n), 0, b->data + at, n);
    default: return replace(b, at, 0, snippet, strlen(snippet));
    }
}

/* ---- Binary formats ------------------------------------------------------------------------------ */

static bool mutate_parts(Buffer *b, const Parts *p) {
    const Part *part = pick_part(p, 1u << PART_NUMBER | 1u << PART_TEXT | 1u << PART_RECORD), *other;
    if (!part) return false;
    const char *text = pick_hostile();
    const void *from = text;
    size_t n = strlen(text);
    switch (part->kind) {
    case PART_NUMBER:
        other = pick_part(p, 1u << PART_NUMBER);
        if (other && below(3) == 0) put_number(b, part->at, part->n, number_at(b, other->at, other->n));
        else if (below(2)) put_number(b, part->at, part->n, number_at(b, part->at, part->n) + below(9) - 4);
        else put_number(b, part->at, part->n, pick_extreme());
        return true;
    case PART_TEXT:
        other = pick_part(p, 1u << PART_TEXT);
        if (other && below(2)) from = b->data + other->at, n = other->n;
        if (part->prefix == 1 && n > 127) return false;
        if (!replace(b, part->at, part->n, from, n)) return false;
        if (below(8)) put_number(b, part->at - part->prefix, part->prefix, n);
        return true;
    default:
        other = pick_part(p, 1u << PART_RECORD);
        if (!other) other = part; /* few among many */
        if (below(3) == 0 && other->count == part->count) {
            if (!replace(b, part->at, part->n, b->data + other->at, other->n)) return false;
        } else if (below(2)) {
            if (!replace(b, part->at, 0, b->data + part->at, part->n)) return false;
            if (part->count && below(8)) put_number(b, part->count, 8, number_at(b, part->count, 8) + 1);
        } else {
            replace(b, part->at, part->n, "", 0);
            if (part->count && below(8)) put_number(b, part->count, 8, number_at(b, part->count, 8) - 1);
        }
        return true;
    }
}

/* A head, whose counts stand at TOKENS and MESSAGES, tokens, messages; numbers of any four bytes behind them. */
static void session_parts(const Buffer *b, Parts *p) {
    enum { HEAD = 48, TOKENS = 36, MESSAGES = 40, MESSAGE_HEAD = 16 };
    for (size_t at = 8; at < HEAD; at += 4) add(p, PART_NUMBER, at, 4, 0, 0);
    uint64_t tokens = number_at(b, TOKENS, 4), messages = number_at(b, MESSAGES, 4);
    size_t at = HEAD;
    for (uint64_t i = 0; i < tokens && at + 4 <= b->n; i++, at += 4) add(p, PART_NUMBER, at, 4, 0, 0);
    for (uint64_t i = 0; i < messages && at + MESSAGE_HEAD <= b->n; i++) {
        uint64_t n = number_at(b, at + 8, 8);
        if (n > b->n - at - MESSAGE_HEAD) break;
        add(p, PART_NUMBER, at, 4, 0, 0);
        add(p, PART_NUMBER, at + 8, 8, 0, 0);
        add(p, PART_TEXT, at + MESSAGE_HEAD, (size_t)n, 8, 0);
        add(p, PART_RECORD, at, MESSAGE_HEAD + (size_t)n, 0, MESSAGES); /* the count and the padding behind it */
        at += MESSAGE_HEAD + (size_t)n;
    }
    for (int i = 0; i < 16 && at + 4 < b->n; i++) add(p, PART_NUMBER, at + below((b->n - at) / 4) * 4, 4, 0, 0);
}

/* The first numbers of a file, and any four bytes as a float. */
static void header_parts(const Buffer *b, Parts *p) {
    for (size_t at = 0; at < 64 && at + 4 <= b->n; at += 4) add(p, PART_NUMBER, at, 4, 0, 0);
    for (int i = 0; i < 16 && b->n >= 4; i++) add(p, PART_NUMBER, below(b->n / 4) * 4, 4, 0, 0);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    static Parts p; /* too large for the stack */
    Buffer b = {data, size, max_size};
    bool done = false;
    dice = seed;
    p.n = 0;
    if (size == 0 || below(2)) return LLVMFuzzerMutate(data, size, max_size);
    for (size_t changes = 1 + below(3); changes > 0; changes--, p.n = 0) {
        switch (fuzz_format) {
        case FUZZ_GGUF: gguf_parts(&b, &p), done |= mutate_parts(&b, &p); break;
        case FUZZ_PROTOBUF: proto_parts(&b, &p, 0, b.n, 0), done |= mutate_parts(&b, &p); break;
        case FUZZ_HEADER: header_parts(&b, &p), done |= mutate_parts(&b, &p); break;
        case FUZZ_SESSION: session_parts(&b, &p), done |= mutate_parts(&b, &p); break;
        case FUZZ_FILES: done |= mutate_files(&b, &p); break;
        case FUZZ_REGEX: done |= mutate_regex(&b); break;
        case FUZZ_JINJA: jinja_parts(&b, &p), done |= mutate_jinja(&b, &p); break;
        }
    }
    return done ? b.n : LLVMFuzzerMutate(data, size, max_size);
}
