/* Vocabularies that come as a list of pieces: llama2.c's tokenizer.bin, GGUF, sentencepiece. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/text.h"
#include "tokenizer/impl.h"

static const char METASPACE[] = "\xe2\x96\x81"; /* ▁ */

void add_eos(struct Tokenizer *t, int id) {
    for (int i = 0; i < t->n_eos; i++)
        if (t->eos[i] == id) return;
    if (id >= 0 && t->n_eos < 16) t->eos[t->n_eos++] = id;
}

void add_known_eos(struct Tokenizer *t) {
    static const char *const names[] = {"<|im_end|>",    "<|eot_id|>",    "<|eom_id|>", "<|end_of_text|>",
                                        "<|endoftext|>", "<end_of_turn>", "<|end|>"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int id = table_get(&t->vocab.ids, names[i], strlen(names[i]));
        if (id >= 0 && t->vocab.pieces[id].kind == PIECE_CONTROL) add_eos(t, id);
    }
}

/* Special pieces of a list vocabulary can be asked for by their text. One that is no UTF-8 would cut a text inside of
 * a character. */
static int add_control_pieces(struct Tokenizer *t, bool user_too, const char *file, Error *e) {
    for (int id = 0; id < t->vocab.n; id++) {
        const Piece *p = &t->vocab.pieces[id];
        bool special = p->kind == PIECE_CONTROL || p->kind == PIECE_UNKNOWN;
        size_t bad;
        if (!special && !(user_too && p->kind == PIECE_USER)) continue;
        if (!utf8_valid(p->text, p->n, &bad))
            return fail(e, "%s: token %d: expected UTF-8 in a special token, found byte 0x%02x", file, id,
                        (unsigned char)p->text[bad]);
        if (added_push(&t->raw, (Added){.text = p->text, .n = p->n, .id = id, .special = special}, e)) return -1;
    }
    return added_finish(&t->raw, file, e);
}

static uint32_t read_u32(const unsigned char *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static float read_f32(const unsigned char *p) {
    uint32_t bits = read_u32(p);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* int32 max_token_length, then per token: float32 score, int32 length, bytes; until the file ends. */
int read_llama2c(struct Tokenizer *t, const File *file, Error *e) {
    const unsigned char *data = file->data;
    size_t size = file->size, n = 0;
    if (size < 4) return fail(e, "%s: size: expected at least 4 bytes, found %zu", file->path, size);
    uint32_t max_length = read_u32(data);
    if (max_length == 0 || max_length > 1 << 16)
        return fail(e, "%s: max_token_length: expected 1 to 65536, found %u", file->path, max_length);
    for (size_t at = 4; at < size; n++) {
        if (size - at < 8)
            return fail(e, "%s: token %zu: expected 8 bytes of score and length, found %zu", file->path, n, size - at);
        uint32_t length = read_u32(data + at + 4);
        if (length > max_length)
            return fail(e, "%s: token %zu length: expected at most %u, found %u", file->path, n, max_length, length);
        at += 8;
        if (length > size - at)
            return fail(e, "%s: token %zu: expected %u bytes, found %zu", file->path, n, length, size - at);
        at += length;
    }
    if (n < 3 || n > INT_MAX / 2) return fail(e, "%s: tokens: expected 3 or more, found %zu", file->path, n);

    if (vocab_init(&t->vocab, (int)n, file->path, e)) return -1;
    const unsigned char *p = data + 4;
    int first_byte = -1;
    for (int id = 0; id < (int)n; id++) {
        uint32_t length = read_u32(p + 4);
        Piece *piece = &t->vocab.pieces[id];
        *piece = (Piece){.text = (const char *)p + 8, .n = length, .score = read_f32(p), .kind = PIECE_NORMAL};
        if (!isfinite(piece->score))
            return fail(e, "%s: token %d score: expected a number, found %g", file->path, id, (double)piece->score);
        if (length == 6 && memcmp(piece->text, "<0x", 3) == 0 && piece->text[5] == '>') {
            piece->kind = PIECE_BYTE;
            if (first_byte < 0) first_byte = id;
        }
        p += 8 + length;
    }
    /* The format has no kinds, but sentencepiece numbers its pieces so: unknown, BOS, EOS, what the model's
     * maker defined (score 0), bytes, text. llama2.c's exporter spells BOS and EOS with newlines around. */
    static const PieceKind kinds[3] = {PIECE_UNKNOWN, PIECE_CONTROL, PIECE_CONTROL};
    for (int id = 0; id < 3; id++) {
        Piece *piece = &t->vocab.pieces[id];
        piece->kind = kinds[id];
        if (piece->n > 2 && piece->text[0] == '\n' && piece->text[piece->n - 1] == '\n') {
            piece->text++;
            piece->n -= 2;
        }
    }
    for (int id = 3; id < first_byte; id++)
        if (t->vocab.pieces[id].score == 0) t->vocab.pieces[id].kind = PIECE_USER;
    if (vocab_finish(&t->vocab, SPELL_PLAIN, file->path, e)) return -1;
    t->model = MODEL_SCORE;
    t->kind = "llama2.c";
    t->respell = METASPACE; /* sentencepiece cannot tell the two apart */
    t->space = t->prefix = " ";
    t->prefix_scheme = PREFIX_ALWAYS;
    t->unk = 0;
    t->bos = 1;
    add_eos(t, 2);
    t->adds_bos = t->strips_space = t->control_is_text = true;
    return add_control_pieces(t, false, file->path, e);
}

/* The library does not show the model's add_dummy_prefix, its work does. */
static bool note_first(void *arg, int id) {
    if (*(int *)arg < 0) *(int *)arg = id;
    return true;
}

static bool prepends_space(const struct Tokenizer *t) {
    char why[SP_WHY];
    int first = -1;
    sp_encode(t->sp, "a", 1, note_first, &first, why);
    return first >= 0 && t->vocab.pieces[first].n_decoded && t->vocab.pieces[first].decoded[0] == ' ';
}

int read_sentencepiece(struct Tokenizer *t, const File *file, Error *e) {
    char why[SP_WHY] = "";
    if (sp_check(file, e)) return -1;
    t->sp = sp_open(file->data, file->size, why);
    if (!t->sp) return fail(e, "%s: model: expected a sentencepiece model, found an error (%s)", file->path, why);
    int n = sp_size(t->sp);
    if (vocab_init(&t->vocab, n, file->path, e)) return -1;
    for (int id = 0; id < n; id++) {
        Piece *piece = &t->vocab.pieces[id];
        size_t length;
        int kind;
        piece->text = sp_piece(t->sp, id, &length, &piece->score, &kind);
        piece->n = (uint32_t)length;
        piece->kind = (uint8_t)kind;
        if (kind == PIECE_UNKNOWN) t->unk = id;
    }
    if (vocab_finish(&t->vocab, SPELL_METASPACE, file->path, e)) return -1;
    t->model = MODEL_SENTENCEPIECE;
    t->kind = "sentencepiece";
    t->bos = sp_bos(t->sp);
    add_eos(t, sp_eos(t->sp));
    add_known_eos(t);
    t->adds_bos = t->bos >= 0;
    t->control_is_text = true;
    t->strips_space = prepends_space(t);
    return add_control_pieces(t, false, file->path, e);
}

/* The array `key` of n items of one of two types; NULL when absent, or -1 in *status. */
static const GgufKv *find_array(const Gguf *g, const char *key, GgufType item, GgufType or_item, size_t n, int *status,
                                Error *e) {
    const GgufKv *kv = gguf_find(g, key);
    if (!kv) return NULL;
    if (kv->type != GGUF_ARRAY || (kv->item_type != item && kv->item_type != or_item))
        *status = fail(e, "%s: %s: expected an array of %s, found another type", g->file->path, key,
                       item == GGUF_STRING ? "strings"
                       : item == GGUF_F32  ? "float32"
                                           : "int32");
    else if (n && kv->n != n)
        *status = fail(e, "%s: %s: expected %zu items, one a token, found %zu", g->file->path, key, n, kv->n);
    return kv;
}

static int read_gguf_pieces(struct Tokenizer *t, const Gguf *g, Spelling spelling, Error *e) {
    const char *file = g->file->path;
    int status = 0;
    const GgufKv *tokens = find_array(g, "tokenizer.ggml.tokens", GGUF_STRING, GGUF_STRING, 0, &status, e);
    if (status) return -1;
    if (!tokens || tokens->n == 0 || tokens->n > INT_MAX / 2)
        return fail(e, "%s: tokenizer.ggml.tokens: expected 1 or more tokens, found %zu", file, tokens ? tokens->n : 0);
    size_t n = tokens->n;
    const GgufKv *scores = find_array(g, "tokenizer.ggml.scores", GGUF_F32, GGUF_F32, n, &status, e);
    const GgufKv *kinds = find_array(g, "tokenizer.ggml.token_type", GGUF_I32, GGUF_U32, n, &status, e);
    if (status) return -1;
    if (!scores && spelling == SPELL_METASPACE)
        return fail(e, "%s: tokenizer.ggml.scores: expected %zu scores, found none", file, n);

    if (vocab_init(&t->vocab, (int)n, file, e)) return -1;
    const unsigned char *cursor = tokens->value;
    for (size_t id = 0; id < n; id++) {
        Str text = gguf_array_next(&cursor);
        if (text.n > 1 << 16)
            return fail(e, "%s: token %zu: expected at most 65536 bytes, found %zu", file, id, text.n);
        uint32_t kind = kinds ? read_u32(kinds->value + 4 * id) : PIECE_NORMAL;
        if (kind < PIECE_NORMAL || kind > PIECE_BYTE)
            return fail(e, "%s: tokenizer.ggml.token_type %zu: expected 1 to 6, found %d", file, id, (int)kind);
        float score = scores ? read_f32(scores->value + 4 * id) : 0;
        if (isnan(score)) return fail(e, "%s: tokenizer.ggml.scores %zu: expected a number, found nan", file, id);
        t->vocab.pieces[id] = (Piece){.text = text.s, .n = (uint32_t)text.n, .score = score, .kind = (uint8_t)kind};
    }
    return vocab_finish(&t->vocab, spelling, file, e);
}

static int read_gguf_merges(struct Tokenizer *t, const Gguf *g, Error *e) {
    int status = 0;
    const GgufKv *merges = find_array(g, "tokenizer.ggml.merges", GGUF_STRING, GGUF_STRING, 0, &status, e);
    if (status) return -1;
    if (!merges) return fail(e, "%s: tokenizer.ggml.merges: expected merges, found none", g->file->path);
    if (merges->n > INT_MAX / 4 || merges_init(&t->bpe.merges, merges->n, g->file->path, e)) return -1;
    const unsigned char *cursor = merges->value;
    for (size_t i = 0; i < merges->n; i++) {
        Str line = gguf_array_next(&cursor);
        const char *space = line.n > 1 ? memchr(line.s + 1, ' ', line.n - 1) : NULL;
        if (!space)
            return fail(e, "%s: merge %zu: expected two tokens and a space between, found \"%.*s\"", g->file->path, i,
                        line.n > 60 ? 60 : (int)line.n, line.s);
        size_t left = (size_t)(space - line.s);
        if (merges_add(&t->bpe.merges, &t->vocab, (int)i, line.s, left, space + 1, line.n - left - 1, g->file->path, e))
            return -1;
    }
    return 0;
}

static int get_id(const Gguf *g, const char *key, int n, int *id, Error *e) {
    int64_t x = -1;
    int found = gguf_get_int(g, key, &x, 0, n - 1, e);
    if (found > 0) *id = (int)x;
    return found < 0 ? -1 : 0;
}

static int get_bool(const Gguf *g, const char *key, bool *out, Error *e) {
    return gguf_get_bool(g, key, out, e) < 0 ? -1 : 0;
}

static bool str_is(Str s, const char *text) { return s.n == strlen(text) && memcmp(s.s, text, s.n) == 0; }

int read_gguf_vocab(struct Tokenizer *t, const Gguf *g, Error *e) {
    const char *file = g->file->path;
    Str model, pre = {"default", 7}, template;
    int found = gguf_get_str(g, "tokenizer.ggml.model", &model, e);
    if (found < 0) return -1;
    if (!found) return fail(e, "%s: tokenizer.ggml.model: expected a vocabulary, found none", file);
    bool by_score = str_is(model, "llama");
    if (!by_score && !str_is(model, "gpt2"))
        return fail(e, "%s: tokenizer.ggml.model: expected llama or gpt2, found \"%.*s\"", file,
                    model.n > 60 ? 60 : (int)model.n, model.s);
    if (read_gguf_pieces(t, g, by_score ? SPELL_METASPACE : SPELL_BYTE_ALPHABET, e)) return -1;

    int n = t->vocab.n, eos = -1, eot = -1, eom = -1;
    bool add_space = by_score, squeeze = false;
    t->adds_bos = by_score;
    if (get_id(g, "tokenizer.ggml.bos_token_id", n, &t->bos, e) ||
        get_id(g, "tokenizer.ggml.eos_token_id", n, &eos, e) || get_id(g, "tokenizer.ggml.eot_token_id", n, &eot, e) ||
        get_id(g, "tokenizer.ggml.eom_token_id", n, &eom, e) ||
        get_id(g, "tokenizer.ggml.unknown_token_id", n, &t->unk, e) ||
        get_bool(g, "tokenizer.ggml.add_bos_token", &t->adds_bos, e) ||
        get_bool(g, "tokenizer.ggml.add_space_prefix", &add_space, e) ||
        get_bool(g, "tokenizer.ggml.remove_extra_whitespaces", &squeeze, e) ||
        gguf_get_str(g, "tokenizer.ggml.pre", &pre, e) < 0)
        return -1;
    if (squeeze && by_score)
        return fail(e, "%s: tokenizer.ggml.remove_extra_whitespaces: expected false, found true", file);
    if (gguf_find(g, "tokenizer.ggml.precompiled_charsmap"))
        return fail(e, "%s: tokenizer.ggml.precompiled_charsmap: expected none, found one", file);
    add_eos(t, eos);
    add_eos(t, eot);
    add_eos(t, eom);
    add_known_eos(t);
    if (t->bos < 0) t->adds_bos = false;

    found = gguf_get_str(g, "tokenizer.chat_template", &template, e);
    if (found < 0) return -1;
    if (found && !(t->chat_template = strndup(template.s, template.n)))
        return fail(e, "%s: memory: expected some, found none", file);

    if (by_score) {
        t->model = MODEL_SCORE;
        t->kind = "spm-bpe";
        t->respell = " ";
        t->space = METASPACE;
        if (add_space) t->prefix = METASPACE;
        t->prefix_scheme = PREFIX_ALWAYS;
        t->strips_space = add_space;
        t->control_is_text = true;
        return add_control_pieces(t, false, file, e);
    }
    t->model = MODEL_RANK;
    t->kind = "byte-bpe";
    t->bpe.byte_level = true;
    t->bpe.unk = -1; /* as in Hugging Face's files of these models: a byte without a token adds nothing */
    if (add_space) t->prefix = " ";
    t->prefix_once = true;
    t->prefix_scheme = PREFIX_ALWAYS;
    bool nfc = false;
    if (!(t->words = pretokenizer_new())) return fail(e, "%s: memory: expected some, found none", file);
    if (pretokenizer_add_named(t->words, pre.s, pre.n, &t->bpe.ignore_merges, &nfc, file, e)) return -1;
    if (nfc && normalizer_add(&t->normalizer, NORMALIZE_NFC, "", "", file, e)) return -1;
    if (read_gguf_merges(t, g, e)) return -1;
    return add_control_pieces(t, true, file, e);
}
