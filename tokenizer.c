/* The facade: which reader a file needs, and the order of the steps that every backend shares. */
#include "tokenizer.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "tokenizer/impl.h"

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
    added_close(&t->whole);
    for (int i = 0; i < t->n_normalized_texts; i++) free(t->normalized_texts[i]);
    free(t->normalized_texts);
    normalizer_close(&t->normalizer);
    pretokenizer_free(t->words);
    merges_close(&t->bpe.merges);
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

size_t tokenizer_decode(const Tokenizer *t, int prev, int id, const char **bytes, char buf[8]) {
    buf[0] = 0;
    *bytes = buf;
    if (id < 0 || id >= t->vocab.n) return 0;
    const Piece *p = &t->vocab.pieces[id];
    if (p->n_decoded == 0) return 0;
    bool at_start = prev < 0 || prev == t->bos;
    size_t skip = at_start && t->strips_space && p->kind != PIECE_BYTE && p->decoded[0] == ' ';
    *bytes = p->decoded + skip;
    return p->n_decoded - skip;
}

/* What one call of encode carries along. */
typedef struct {
    const Tokenizer *t;
    MergeSpace space;
    Ids out;
    bool with_special;
} Encoding;

static int encode_word(void *arg, const char *s, size_t n, Error *e) {
    Encoding *c = arg;
    return bpe_encode(&c->t->bpe, &c->t->vocab, s, n, &c->space, &c->out, e);
}

typedef struct {
    Ids *out;
    Error *e;
} Push;

static bool push_id(void *arg, int id) {
    Push *p = arg;
    return ids_push(p->out, id, p->e) == 0;
}

/* A malloc'ed copy of the text with its spaces spelled as the vocabulary does and the prefix in front. */
static char *spell(const Tokenizer *t, const char *text, size_t n, bool first, size_t *n_out) {
    char *spaced =
        t->space ? replace_all(text, n, t->respell, strlen(t->respell), t->space, strlen(t->space), n_out) : NULL;
    if (t->space && !spaced) return NULL;
    const char *s = spaced ? spaced : text;
    size_t n_s = spaced ? *n_out : n, n_prefix = t->prefix ? strlen(t->prefix) : 0;
    if (t->prefix_scheme == PREFIX_NEVER || (t->prefix_scheme == PREFIX_FIRST && !first) ||
        (t->prefix_once && n_s >= n_prefix && n_prefix && memcmp(s, t->prefix, n_prefix) == 0))
        n_prefix = 0;
    char *out = malloc(n_prefix + n_s + 1);
    if (out) {
        if (n_prefix) memcpy(out, t->prefix, n_prefix);
        memcpy(out + n_prefix, s, n_s);
        *n_out = n_prefix + n_s;
    }
    free(spaced);
    return out;
}

/* Text without added tokens, already normalized. first: it is where the whole text begins. */
static int encode_plain(Encoding *c, const char *text, size_t n, bool first, Error *e) {
    const Tokenizer *t = c->t;
    if (n == 0) return 0;
    if (t->model == MODEL_SENTENCEPIECE) {
        char why[SP_WHY] = "";
        Push push = {&c->out, e};
        if (sp_encode(t->sp, text, n, push_id, &push, why)) return 0;
        return fail(e, "text: sentencepiece: expected ids, found an error (%s)", why);
    }
    char *spelled = NULL;
    if (t->space || t->prefix) {
        if (!(spelled = spell(t, text, n, first, &n))) return fail(e, "text: memory: expected some, found none");
        text = spelled;
    }
    int status = t->model == MODEL_SCORE ? score_encode(&t->vocab, &t->whole, t->unk, text, n, &c->space, &c->out, e)
                                         : pretokenize(t->words, text, n, encode_word, c, e);
    free(spelled);
    return status;
}

static int encode_stretch(Encoding *c, const char *text, size_t n, bool first, bool raw, Error *e);

/* Cuts the text at the added tokens of one set; what is between goes on to the next step. */
static int encode_around_added(Encoding *c, const char *text, size_t n, bool first, bool raw, Error *e) {
    const AddedSet *set = raw ? &c->t->raw : &c->t->normalized;
    size_t done = 0, begin, end;
    const Added *a;
    while ((a = added_next(set, text, n, done, done, c->with_special, &begin, &end))) {
        if (encode_stretch(c, text + done, begin - done, first && done == 0, raw, e) || ids_push(&c->out, a->id, e))
            return -1;
        done = end;
    }
    return encode_stretch(c, text + done, n - done, first && done == 0, raw, e);
}

static int encode_stretch(Encoding *c, const char *text, size_t n, bool first, bool raw, Error *e) {
    if (n == 0) return 0;
    if (!raw || (c->t->normalizer.n == 0 && c->t->normalized.n == 0)) return encode_plain(c, text, n, first, e);
    char *normalized;
    if (normalize(&c->t->normalizer, text, n, &normalized, &n, e)) return -1;
    int status = encode_around_added(c, normalized, n, first, false, e);
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
    Encoding c = {.t = t};
    c.with_special = (flags & TOKENIZE_CONTROL) || ((flags & TOKENIZE_SPECIAL) && !t->control_is_text);
    char *repaired = NULL;
    size_t bad;
    int status = -1;
    *ids = NULL;
    *n = 0;
    if (!utf8_valid(text, n_bytes, &bad)) {
        if (!(repaired = repair_utf8(text, n_bytes, &n_bytes))) {
            fail(e, "text: memory: expected some, found none");
            goto done;
        }
        text = repaired;
    }
    bool around = flags & TOKENIZE_BOS;
    for (int i = 0; around && i < t->n_before; i++)
        if (ids_push(&c.out, t->before[i], e)) goto done;
    if (encode_around_added(&c, text, n_bytes, true, true, e)) goto done;
    for (int i = 0; around && i < t->n_after; i++)
        if (ids_push(&c.out, t->after[i], e)) goto done;
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
    merge_close(&c.space);
    free(repaired);
    return status;
}
