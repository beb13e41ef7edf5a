/* The facade: which reader a file needs, and the order of the steps that every backend shares. */
#include "tokenizer.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "tokenizer/impl.h"
#include "tokenizer/tiktoken.h"

static Tokenizer *tokenizer_new(const char *what, Error *e) {
    Tokenizer *t = calloc(1, sizeof *t);
    if (!t) {
        fail(e, "%s: memory: expected some, found none", what);
        return NULL;
    }
    t->unk = t->bos = t->bpe.unk = -1;
    return t;
}

void tokenizer_close(Tokenizer *t) {
    if (!t) return;
    vocab_close(&t->vocab);
    added_close(&t->raw);
    added_close(&t->normalized);
    added_close(&t->score.whole);
    for (int i = 0; i < t->n_normalized_texts; i++) free(t->normalized_texts[i]);
    free(t->normalized_texts);
    normalizer_close(&t->normalizer);
    pretokenizer_free(t->words);
    merges_close(&t->bpe.merges);
    unigram_close(&t->unigram);
    wordpiece_close(&t->wordpiece);
    decoder_close(&t->decoder);
    sp_close(t->sp);
    gguf_close(&t->gguf);
    file_close(&t->file);
    free(t->texts);
    free(t->chat_template);
    free(t);
}

Tokenizer *tokenizer_from_gguf(const Gguf *g, Error *e) {
    Tokenizer *t = tokenizer_new(g->file->path, e);
    if (t && read_gguf_vocab(t, g, e)) {
        tokenizer_close(t);
        return NULL;
    }
    return t;
}

Tokenizer *tokenizer_from_root(const struct cJSON *root, const char *file, Error *e) {
    Tokenizer *t = tokenizer_new(file, e);
    if (t && read_tokenizer_root(t, root, file, e)) {
        tokenizer_close(t);
        return NULL;
    }
    return t;
}

/* The first bytes tell the formats apart. A sentencepiece model is a protobuf whose field 1 (tag 0x0a) is its
 * first piece; a tokenizer.bin starts with a small 32-bit number, the longest token's length. */
static int read_file(Tokenizer *t, const char *path, Error *e) {
    if (file_map(&t->file, path, e)) return -1;
    const unsigned char *d = t->file.data;
    size_t n = t->file.size, first = 0;
    if (n >= 4 && memcmp(d, "GGUF", 4) == 0)
        return gguf_open(&t->gguf, &t->file, e) ? -1 : read_gguf_vocab(t, &t->gguf, e);
    if (n >= 4 && d[2] == 0 && d[3] == 0) return read_llama2c(t, &t->file, e);
    while (first < n && first < 64 && strchr(" \t\r\n", d[first]) && d[first]) first++;
    if (first < n && d[first] == '{') return read_tokenizer_json(t, path, e);
    if (is_tiktoken(&t->file)) return read_tiktoken(t, &t->file, NULL, e);
    if (n >= 4 && d[0] == 0x0a && d[1] != 0) return read_sentencepiece(t, &t->file, e);
    const char *what = file_diagnose(&t->file);
    return fail(e, "%s: format: expected a tokenizer (.model, tokenizer.bin, tokenizer.json, .gguf), found %.120s",
                path, what ? what : "something else");
}

Tokenizer *tokenizer_open(const char *path, Error *e) {
    Tokenizer *t = tokenizer_new(path, e);
    if (!t) return NULL;
    struct stat info;
    bool is_dir = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    if (is_dir ? read_hf_directory(t, path, e) : read_file(t, path, e)) {
        tokenizer_close(t);
        return NULL;
    }
    return t;
}

int tokenizer_vocab_size(const Tokenizer *t) { return t->vocab.n; }
bool tokenizer_limit(Tokenizer *t, int n_ids) {
    t->limit = n_ids;
    for (int id = n_ids; id < t->vocab.n; id++) {
        PieceKind kind = (PieceKind)t->vocab.pieces[id].kind;
        if (kind != PIECE_NONE && kind != PIECE_CONTROL && kind != PIECE_USER) return false;
    }
    return true;
}

int tokenizer_bos(const Tokenizer *t) { return t->bos; }
bool tokenizer_adds_bos(const Tokenizer *t) { return t->n_before && t->before[0] == t->bos; }
const char *tokenizer_note(const Tokenizer *t) { return *t->note ? t->note : NULL; }
const char *tokenizer_kind(const Tokenizer *t) { return t->kind; }
const char *tokenizer_chat_template(const Tokenizer *t) { return t->chat_template; }

int tokenizer_eos(const Tokenizer *t, int ids[16]) {
    memcpy(ids, t->eos, (size_t)t->n_eos * sizeof *ids);
    return t->n_eos;
}

int tokenizer_find(const Tokenizer *t, const char *piece) { return table_get(&t->vocab.ids, piece, strlen(piece)); }

const char *tokenizer_piece(const Tokenizer *t, int id, size_t *n_bytes) {
    *n_bytes = id >= 0 && id < t->vocab.n ? t->vocab.pieces[id].n : 0;
    return *n_bytes ? t->vocab.pieces[id].text : "";
}

static bool ends_word(const Decoder *d, const Vocab *v, int id) {
    const Piece *p = id < v->n ? &v->pieces[id] : NULL;
    return p && p->n >= d->n_suffix && memcmp(p->text + p->n - d->n_suffix, d->suffix, d->n_suffix) == 0;
}

size_t tokenizer_decode(const Tokenizer *t, int prev, int id, const char **bytes, char buf[8]) {
    buf[0] = 0;
    *bytes = buf;
    if (id < 0 || id >= t->vocab.n) return 0;
    const Piece *p = &t->vocab.pieces[id];
    bool at_start = prev < 0 || prev == t->bos;
    if (at_start && t->decoder.first) {
        if (t->decoder.n_first[id]) *bytes = t->decoder.first[id];
        return t->decoder.n_first[id];
    }
    if (p->n_decoded == 0) return 0;
    if (t->decoder.suffix) { /* each text has a space in front, for when the one before ends a word */
        bool spaced = !at_start && ends_word(&t->decoder, &t->vocab, prev);
        *bytes = p->decoded + !spaced;
        return p->n_decoded - !spaced;
    }
    size_t skip = at_start && t->strips_space && p->kind != PIECE_BYTE && p->decoded[0] == ' ';
    *bytes = p->decoded + skip;
    return p->n_decoded - skip;
}

int tokenizer_next(const Tokenizer *t, int prev, int id) {
    return id >= 0 && id < t->vocab.n && t->vocab.pieces[id].kind == PIECE_CONTROL ? prev : id;
}

/* What one call of encode carries along. */
typedef struct {
    const Tokenizer *t;
    MergeSpace merges;
    UnigramSpace unigram;
    RegexSpace *regex;
    size_t words;   /* bytes of words that may come, */
    uint64_t steps; /* pieces that may be looked at */
    Ids out;
    bool with_special;
    const char *text;           /* the whole text, and */
    const unsigned char *plain; /* for each byte of it: no special token touches it; NULL: anywhere */
} Encoding;

static int encode_word(void *arg, const char *s, size_t n, Error *e) {
    Encoding *c = arg;
    const Tokenizer *t = c->t;
    if (n > c->words)
        return fail(e, "text: words: expected at most 1 MiB and 8 bytes for each of the text, found more");
    c->words -= n;
    switch (t->model) {
    case MODEL_UNIGRAM: return unigram_encode(&t->unigram, &t->vocab, s, n, &c->unigram, &c->out, e);
    case MODEL_WORDPIECE: return wordpiece_encode(&t->wordpiece, s, n, &c->steps, &c->out, e);
    case MODEL_WORDLEVEL: return wordlevel_encode(&t->vocab, t->unk, s, n, &c->out, e);
    default: return bpe_encode(&t->bpe, &t->vocab, s, n, &c->merges, &c->out, e);
    }
}

typedef struct {
    Ids *out;
    Error *e;
} Push;

static bool push_id(void *arg, int id) {
    Push *p = arg;
    return ids_push(p->out, id, p->e) == 0;
}

/* The text with its spaces spelled as the vocabulary does and the prefix in front, appended to out. */
static int spell(const Tokenizer *t, const char *text, size_t n, bool first, Bytes *out, Error *e) {
    size_t n_prefix = t->prefix ? strlen(t->prefix) : 0, n_respell = t->space ? strlen(t->respell) : 0;
    bool prefixed = t->prefix_scheme == PREFIX_ALWAYS || (t->prefix_scheme == PREFIX_FIRST && first);
    if (prefixed && n_prefix && bytes_add(out, t->prefix, n_prefix, e)) return -1;
    const char *end = text + n, *hit;
    for (; n_respell && (hit = memmem(text, (size_t)(end - text), t->respell, n_respell)); text = hit + n_respell)
        if (bytes_add(out, text, (size_t)(hit - text), e) || bytes_add(out, t->space, strlen(t->space), e)) return -1;
    if (bytes_add(out, text, (size_t)(end - text), e)) return -1;
    if (prefixed && t->prefix_once && out->n >= 2 * n_prefix && memcmp(out->s + n_prefix, t->prefix, n_prefix) == 0)
        memmove(out->s, out->s + n_prefix, out->n -= n_prefix); /* it begins with the prefix already */
    return 0;
}

static bool is_ascii_word(char c) { return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z'); }

/* sentencepiece's library takes some 200 bytes of memory for a byte of text, so a long one is given to it in parts:
 * behind a space between two words, which is then the one that it puts before a text. */
static int encode_by_library(Encoding *c, const char *text, size_t n, Error *e) {
    enum { PART = 64 << 10 };
    char why[SP_WHY] = "";
    Push push = {&c->out, e};
    for (size_t at = 0, end; at < n; at = end + 1) {
        end = c->t->cut_at_spaces && n - at > PART ? at + PART : n;
        while (end < n &&
               !(text[end] == ' ' && end + 1 < n && is_ascii_word(text[end - 1]) && is_ascii_word(text[end + 1])))
            end++;
        if (!sp_encode(c->t->sp, text + at, end - at, push_id, &push, why))
            return fail(e, "text: sentencepiece: expected ids, found an error (%s)", why);
    }
    return 0;
}

/* Text without added tokens, already normalized. first: it is where the whole text begins. */
static int encode_plain(Encoding *c, const char *text, size_t n, bool first, Error *e) {
    const Tokenizer *t = c->t;
    if (n == 0) return 0;
    if (t->model == MODEL_SENTENCEPIECE) return encode_by_library(c, text, n, e);
    Bytes spelled = {.left = regex_space_bytes(c->regex)};
    int status = 0;
    if (t->space || t->prefix) {
        status = spell(t, text, n, first, &spelled, e);
        text = spelled.s;
        n = spelled.n;
    }
    if (!status && t->model == MODEL_SCORE)
        status = score_encode(&t->score, &t->vocab, text, n, &c->merges, &c->out, e);
    else if (!status) status = pretokenize(t->words, c->regex, text, n, first, encode_word, c, e);
    bytes_close(&spelled);
    return status;
}

static int encode_stretch(Encoding *c, const char *text, size_t n, bool first, bool raw, Error *e);

/* Cuts the text at the added tokens of one set; what is between goes on to the next step. */
static int encode_around_added(Encoding *c, const char *text, size_t n, bool first, bool raw, Error *e) {
    AddedSearch search;
    size_t done = 0, begin, end;
    const Added *a;
    int status = added_search(&search, raw ? &c->t->raw : &c->t->normalized, text, n, c->with_special, e);
    if (c->plain && (raw || c->t->normalizer.n == 0)) search.plain = c->plain + (text - c->text);
    while (!status && (a = added_next(&search, &begin, &end))) {
        if (begin > done) status = encode_stretch(c, text + done, begin - done, first && done == 0, raw, e);
        if (!status) status = ids_push(&c->out, a->id, e);
        done = end;
    }
    added_search_close(&search);
    return status || encode_stretch(c, text + done, n - done, first && done == 0, raw, e) ? -1 : 0;
}

/* Adds to *count the special tokens in the text once it is normalized. */
static int count_special(const Encoding *c, const char *text, size_t n, int *count, Error *e) {
    char *normalized;
    size_t begin, end;
    AddedSearch search;
    if (normalize(&c->t->normalizer, c->regex, text, n, &normalized, &n, e)) return -1;
    int status = added_search(&search, &c->t->normalized, normalized, n, true, e);
    for (const Added *a; !status && (a = added_next(&search, &begin, &end));) *count += a->special;
    added_search_close(&search);
    free(normalized);
    return status;
}

/* Are all special tokens of the normalized text in stretches without a mark? Normalizing loses the marks, and can make
 * a special token of what was none. */
static int special_outside(const Encoding *c, const char *text, size_t n, bool *outside, Error *e) {
    const unsigned char *plain = c->plain + (text - c->text);
    int all = 0, clear = 0;
    if (count_special(c, text, n, &all, e)) return -1;
    for (size_t from = 0, to; all && from < n; from = to) {
        for (to = from; to < n && plain[to] == plain[from];) to++;
        if (!plain[from] && count_special(c, text + from, to - from, &clear, e)) return -1;
    }
    *outside = all == clear;
    return 0;
}

static int encode_stretch(Encoding *c, const char *text, size_t n, bool first, bool raw, Error *e) {
    if (n == 0) return 0;
    if (!raw) return encode_plain(c, text, n, first, e);
    if (c->t->normalizer.n == 0) return encode_around_added(c, text, n, first, false, e);
    char *normalized;
    bool with_special = c->with_special;
    if (c->plain && with_special && special_outside(c, text, n, &c->with_special, e)) return -1;
    if (normalize(&c->t->normalizer, c->regex, text, n, &normalized, &n, e)) return -1;
    int status = encode_around_added(c, normalized, n, first, false, e);
    c->with_special = with_special;
    free(normalized);
    return status;
}

/* A malloc'ed copy where every byte that is no UTF-8 is U+FFFD, as sentencepiece reads it. */
static char *repair_utf8(const char *text, size_t n, size_t *n_out) {
    char *out = n <= SIZE_MAX / 3 - 1 ? malloc(3 * n + 1) : NULL;
    size_t k = 0;
    for (size_t i = 0; out && i < n;) {
        size_t length = utf8_length(text + i, n - i);
        memcpy(out + k, length ? text + i : "\xef\xbf\xbd", length ? length : 3);
        k += length ? length : 3;
        i += length ? length : 1;
    }
    *n_out = k;
    return out;
}

int tokenizer_encode(const Tokenizer *t, const char *text, size_t n_bytes, unsigned flags, int **ids, int *n,
                     Error *e) {
    return tokenizer_encode_marked(t, text, NULL, n_bytes, flags, ids, n, e);
}

int tokenizer_encode_marked(const Tokenizer *t, const char *text, const unsigned char *plain, size_t n_bytes,
                            unsigned flags, int **ids, int *n, Error *e) {
    Encoding c = {.t = t, .regex = regex_space_new(n_bytes), .text = text, .plain = plain};
    c.words = text_words(n_bytes);
    c.steps = text_steps(n_bytes);
    c.unigram.steps = &c.steps;
    c.with_special = (flags & TOKENIZE_CONTROL) || ((flags & TOKENIZE_SPECIAL) && !t->control_is_text);
    char *repaired = NULL;
    size_t bad;
    int status = -1;
    *ids = NULL;
    *n = 0;
    if (!c.regex) {
        fail(e, "text: memory: expected some, found none");
        goto done;
    }
    if (!utf8_valid(text, n_bytes, &bad)) {
        if (plain) {
            fail(e, "text: byte %zu: expected UTF-8, found something else", bad);
            goto done;
        }
        if (!(repaired = repair_utf8(text, n_bytes, &n_bytes))) {
            fail(e, "text: memory: expected some, found none");
            goto done;
        }
        c.text = text = repaired;
    }
    bool around = flags & TOKENIZE_BOS;
    for (int i = 0; around && i < t->n_before; i++)
        if (ids_push(&c.out, t->before[i], e)) goto done;
    if (encode_around_added(&c, text, n_bytes, true, true, e)) goto done;
    for (int i = 0; around && i < t->n_after; i++)
        if (ids_push(&c.out, t->after[i], e)) goto done;
    for (int i = 0; t->limit && i < c.out.n; i++)
        if (c.out.ids[i] >= t->limit) {
            const Piece *p = &t->vocab.pieces[c.out.ids[i]];
            fail(e, "text: \"%.*s\": expected a token that the model has, below %d, found %d",
                 p->n > 60 ? 60 : (int)p->n, p->text, t->limit, c.out.ids[i]);
            goto done;
        }
    if (!c.out.ids && !(c.out.ids = malloc(sizeof *c.out.ids))) {
        fail(e, "text: memory: expected some, found none");
        goto done;
    }
    *ids = c.out.ids;
    *n = c.out.n;
    c.out.ids = NULL;
    status = 0;
done:
    free(c.out.ids);
    merge_close(&c.merges);
    unigram_space_close(&c.unigram);
    regex_space_free(c.regex);
    free(repaired);
    return status;
}
