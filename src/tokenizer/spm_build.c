/* A sentencepiece model as the tokenizer.json that transformers makes of it. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "tokenizer/impl.h"
#include "tokenizer/json_build.h"
#include "tokenizer/proto.h"
#include "tokenizer/table.h"

/* Field numbers of sentencepiece_model.proto. */
enum { MODEL_PIECE = 1, MODEL_TRAINER = 2, MODEL_NORMALIZER = 3 };
enum { PIECE_TEXT = 1, PIECE_SCORE = 2, PIECE_TYPE = 3 };
enum { TRAINER_TYPE = 3, TRAINER_BYTE_FALLBACK = 35, TRAINER_UNK_ID = 40, TRAINER_BOS_ID = 41, TRAINER_EOS_ID = 42 };
enum { NORMALIZER_CHARSMAP = 2, NORMALIZER_PREFIX = 3, NORMALIZER_SQUEEZE = 4, NORMALIZER_ESCAPE = 5 };
enum { TYPE_UNIGRAM = 1, MAX_MERGES = 1 << 24 };

typedef struct {
    char *text; /* NUL-terminated, inside of Spm.texts */
    int n, type, id;
    float score;
} SpmPiece;

typedef struct {
    const char *file;
    SpmPiece *pieces; /* [n] */
    int n;
    char *texts;
    Table ids;
    uint64_t model_type;
    int unk, bos, eos; /* -1: none */
    bool byte_fallback, prefix, squeeze, escape;
    Span charsmap;
} Spm;

static void spm_close(Spm *m) {
    free(m->pieces);
    free(m->texts);
    table_close(&m->ids);
}

static int read_piece(Spm *m, Span s, char **next, Error *e) {
    ProtoField f;
    Span text = {s.at, s.at};
    SpmPiece *p = &m->pieces[m->n];
    *p = (SpmPiece){.type = 1, .id = m->n};
    bool broken = false;
    size_t bad;
    while (proto_next(&s, &f, &broken)) {
        if (f.number == PIECE_TEXT && f.wire == 2) text = f.bytes;
        if (f.number == PIECE_SCORE && f.wire == 5) memcpy(&p->score, f.bytes.at, sizeof p->score);
        if (f.number == PIECE_TYPE && f.wire == 0) p->type = f.varint < 16 ? (int)f.varint : 0;
    }
    size_t n = (size_t)(text.end - text.at);
    if (broken) return fail(e, "%s: piece %d: expected protobuf fields, found none", m->file, m->n);
    if (!isfinite(p->score))
        return fail(e, "%s: piece %d: score: expected a number, found %g", m->file, m->n, (double)p->score);
    if (n == 0 || n > 1 << 16 || memchr(text.at, 0, n) || !utf8_valid((const char *)text.at, n, &bad))
        return fail(e, "%s: piece %d: expected 1 to 65536 bytes of UTF-8 without NUL, found something else", m->file,
                    m->n);
    p->text = *next;
    p->n = (int)n;
    memcpy(p->text, text.at, n);
    p->text[n] = 0;
    *next += n + 1;
    m->n++;
    return 0;
}

static int read_trainer(Spm *m, Span s, Error *e) {
    ProtoField f;
    bool broken = false;
    while (proto_next(&s, &f, &broken)) {
        if (f.wire != 0) continue;
        if (f.number == TRAINER_TYPE) m->model_type = f.varint;
        if (f.number == TRAINER_BYTE_FALLBACK) m->byte_fallback = f.varint != 0;
        int *id = f.number == TRAINER_UNK_ID   ? &m->unk
                  : f.number == TRAINER_BOS_ID ? &m->bos
                  : f.number == TRAINER_EOS_ID ? &m->eos
                                               : NULL;
        if (id) *id = f.varint < INT_MAX ? (int)f.varint : -1;
    }
    return broken ? fail(e, "%s: trainer_spec: expected protobuf fields, found none", m->file) : 0;
}

static int read_normalizer(Spm *m, Span s, Error *e) {
    ProtoField f;
    bool broken = false;
    while (proto_next(&s, &f, &broken)) {
        if (f.number == NORMALIZER_CHARSMAP && f.wire == 2) m->charsmap = f.bytes;
        if (f.wire != 0) continue;
        if (f.number == NORMALIZER_PREFIX) m->prefix = f.varint != 0;
        if (f.number == NORMALIZER_SQUEEZE) m->squeeze = f.varint != 0;
        if (f.number == NORMALIZER_ESCAPE) m->escape = f.varint != 0;
    }
    return broken ? fail(e, "%s: normalizer_spec: expected protobuf fields, found none", m->file) : 0;
}

static int read_spm(Spm *m, const File *file, Error *e) {
    Span all = {file->data, file->data + file->size}, s = all;
    ProtoField f;
    bool broken = false;
    size_t n = 0, bytes = 1;
    *m = (Spm){.file = file->path,
               .bos = 1,
               .eos = 2,
               .model_type = TYPE_UNIGRAM,
               .prefix = true,
               .squeeze = true,
               .escape = true};
    while (proto_next(&s, &f, &broken))
        if (f.number == MODEL_PIECE && f.wire == 2) n++, bytes += (size_t)(f.bytes.end - f.bytes.at) + 1;
    if (broken)
        return fail(e, "%s: model: expected a protobuf field at byte %zu, found none (truncated file?)", file->path,
                    (size_t)(s.at - file->data));
    if (n == 0 || n > 1 << 24) return fail(e, "%s: pieces: expected 1 to 2^24, found %zu", file->path, n);
    m->pieces = calloc(n, sizeof *m->pieces);
    char *next = m->texts = malloc(bytes);
    if (!m->pieces || !m->texts || !table_init(&m->ids, n))
        return fail(e, "%s: memory: expected room for %zu pieces, found none", file->path, n);
    for (s = all; proto_next(&s, &f, &broken);) {
        if (f.wire != 2) continue;
        if (f.number == MODEL_PIECE && read_piece(m, f.bytes, &next, e)) return -1;
        if (f.number == MODEL_TRAINER && read_trainer(m, f.bytes, e)) return -1;
        if (f.number == MODEL_NORMALIZER && read_normalizer(m, f.bytes, e)) return -1;
    }
    for (int i = 0; i < m->n; i++)
        if (!table_put(&m->ids, m->pieces[i].text, (size_t)m->pieces[i].n, i))
            return fail(e, "%s: piece %d: expected a text of its own, found \"%.60s\" again", file->path, i,
                        m->pieces[i].text);
    return 0;
}

static int best_first(const void *a, const void *b) {
    const SpmPiece *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? 1 : -1;
    return x->id - y->id;
}

static cJSON *pair(const char *text, size_t left, size_t n) {
    char one[1 << 10];
    const char *parts[2] = {one, text + left};
    cJSON *both = left < sizeof one && n - left < sizeof one ? cJSON_CreateArray() : NULL;
    if (!both) return NULL;
    memcpy(one, text, left);
    one[left] = 0;
    for (int i = 0; i < 2; i++)
        if (!cJSON_AddItemToArray(both, cJSON_CreateString(parts[i]))) {
            cJSON_Delete(both);
            return NULL;
        }
    return both;
}

/* Every cut of a piece into two pieces is a merge, in the order of the pieces; normal: of normal pieces only. */
static cJSON *merges_of(const Spm *m, const SpmPiece *order, bool normal, Error *e) {
    cJSON *merges = cJSON_CreateArray();
    bool ok = merges != NULL;
    size_t count = 0;
    for (int i = 0; ok && i < m->n; i++) {
        const SpmPiece *p = &order[i];
        size_t n = (size_t)p->n;
        if ((normal && p->type != 1) || n >= 1 << 10) continue; /* no tokenizer's own pieces are so long */
        for (size_t left = utf8_length(p->text, n); ok && left && left < n;
             left += utf8_length(p->text + left, n - left)) {
            int a = table_get(&m->ids, p->text, left), b = table_get(&m->ids, p->text + left, n - left);
            if (a < 0 || b < 0 || (normal && (m->pieces[a].type != 1 || m->pieces[b].type != 1))) continue;
            ok = ++count < MAX_MERGES && cJSON_AddItemToArray(merges, pair(p->text, left, n));
        }
    }
    if (ok) return merges;
    cJSON_Delete(merges);
    fail(e, "%s: memory: expected room for %zu merges, found none", m->file, count);
    return NULL;
}

/* {piece: id} for BPE, [[piece, score], ...] for Unigram. */
static cJSON *vocab_of(const Spm *m, bool scored) {
    cJSON *vocab = scored ? cJSON_CreateArray() : cJSON_CreateObject();
    bool ok = vocab != NULL;
    for (int i = 0; ok && i < m->n; i++) {
        const SpmPiece *p = &m->pieces[i];
        if (!scored) {
            ok = cJSON_AddNumberToObject(vocab, p->text, i) != NULL;
            continue;
        }
        cJSON *item = cJSON_CreateArray();
        ok = item && cJSON_AddItemToArray(item, cJSON_CreateString(p->text)) &&
             cJSON_AddItemToArray(item, cJSON_CreateNumber((double)p->score)) && cJSON_AddItemToArray(vocab, item);
        if (!ok) cJSON_Delete(item);
    }
    if (ok) return vocab;
    cJSON_Delete(vocab);
    return NULL;
}

/* Base64, as tokenizer.json holds the bytes of normalization rules. malloc'ed; NULL when out of memory. */
static char *base64(Span bytes) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n = (size_t)(bytes.end - bytes.at), k = 0;
    char *out = malloc((n + 2) / 3 * 4 + 1);
    if (!out) return NULL;
    for (size_t i = 0; i < n; i += 3) {
        unsigned group = (unsigned)bytes.at[i] << 16;
        if (i + 1 < n) group |= (unsigned)bytes.at[i + 1] << 8;
        if (i + 2 < n) group |= bytes.at[i + 2];
        for (int j = 0; j < 4; j++) out[k++] = i + (size_t)j > n ? '=' : letters[group >> (18 - 6 * j) & 63];
    }
    out[k] = 0;
    return out;
}

/* The step that a piece of JSON says, appended to the list. */
static bool step(cJSON *list, const char *json) {
    cJSON *item = cJSON_Parse(json);
    if (item && cJSON_AddItemToArray(list, item)) return true;
    cJSON_Delete(item);
    return false;
}

#define REPLACE(kind, pattern, content)                                                                                \
    "{\"type\": \"Replace\", \"pattern\": {\"" kind "\": \"" pattern "\"}, \"content\": \"" content "\"}"

static bool add_normalizers(cJSON *root, const Spm *m, bool legacy) {
    cJSON *sequence = cJSON_AddObjectToObject(root, "normalizer");
    cJSON *list = cJSON_AddArrayToObject(sequence, "normalizers");
    if (!cJSON_AddStringToObject(sequence, "type", "Sequence") || !list) return false;
    if (m->charsmap.end > m->charsmap.at) {
        char *map = base64(m->charsmap);
        cJSON *rules = map ? cJSON_CreateObject() : NULL;
        bool ok = cJSON_AddStringToObject(rules, "type", "Precompiled") &&
                  cJSON_AddStringToObject(rules, "precompiled_charsmap", map) && cJSON_AddItemToArray(list, rules);
        free(map);
        if (!ok) return cJSON_Delete(rules), false;
    }
    if (m->squeeze &&
        !(step(list, REPLACE("Regex", "\\\\A +| +\\\\z", "")) && step(list, REPLACE("Regex", " {2,}", " "))))
        return false;
    if (m->escape && !step(list, REPLACE("String", " ", "\u2581"))) return false;
    return !(m->prefix && legacy) || step(list, REPLACE("Regex", "\\\\A\u2581", "\u2581\u2581"));
}

static int longest_first(const void *a, const void *b) {
    const SpmPiece *x = *(const SpmPiece *const *)a, *y = *(const SpmPiece *const *)b;
    return x->n != y->n ? y->n - x->n : x->id - y->id;
}

/* An expression that matches the user-defined pieces, longer ones first; *n is their number. malloc'ed. */
static char *user_expression(const Spm *m, int *n) {
    size_t bytes = 1, k = 0;
    *n = 0;
    for (int i = 0; i < m->n; i++)
        if (m->pieces[i].type == 4) *n += 1, bytes += 2 * (size_t)m->pieces[i].n + 1;
    const SpmPiece **users = malloc(((size_t)*n + 1) * sizeof *users);
    char *out = malloc(bytes);
    if (!users || !out) return free(users), free(out), NULL;
    int count = 0;
    for (int i = 0; i < m->n; i++)
        if (m->pieces[i].type == 4) users[count++] = &m->pieces[i];
    qsort(users, (size_t)count, sizeof *users, longest_first);
    for (int i = 0; i < count; i++) {
        if (i) out[k++] = '|';
        for (const char *c = users[i]->text; *c; c++) {
            if (strchr("\\^$.|?*+()[]{}-&~# \t\n\r\v\f", *c)) out[k++] = '\\';
            out[k++] = *c;
        }
    }
    out[k] = 0;
    free(users);
    return out;
}

static bool add_words(cJSON *root, const Spm *m, const char *expression, bool legacy) {
    cJSON *list = build_words(root);
    if (!list) return false;
    if (m->prefix && !step(list, legacy ? "{\"type\": \"Metaspace\", \"replacement\": \"\u2581\", \"prepend_scheme\": "
                                          "\"always\", \"split\": false}"
                                        : "{\"type\": \"Metaspace\", \"replacement\": \"\u2581\", \"prepend_scheme\": "
                                          "\"first\", \"split\": false}"))
        return false;
    return !*expression || build_split(list, expression);
}

static bool add_decoder(cJSON *root, const Spm *m) {
    cJSON *sequence = cJSON_AddObjectToObject(root, "decoder");
    cJSON *list = cJSON_AddArrayToObject(sequence, "decoders");
    return cJSON_AddStringToObject(sequence, "type", "Sequence") && list &&
           step(list, REPLACE("String", "\u2581", " ")) &&
           (!m->byte_fallback || step(list, "{\"type\": \"ByteFallback\"}")) &&
           (!(m->prefix || m->byte_fallback) || step(list, "{\"type\": \"Fuse\"}")) &&
           (!m->prefix || step(list, "{\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}"));
}

/* The tokens of these names, where no file says others. */
static bool add_names(cJSON *root, const Spm *m) {
    const struct {
        const char *name;
        int id;
    } names[] = {{"bos_token", m->bos}, {"eos_token", m->eos}, {"unk_token", m->unk}};
    cJSON *object = cJSON_AddObjectToObject(root, "named");
    bool ok = object != NULL;
    for (size_t i = 0; ok && i < sizeof names / sizeof *names; i++)
        if (names[i].id >= 0 && names[i].id < m->n)
            ok = cJSON_AddStringToObject(object, names[i].name, m->pieces[names[i].id].text);
    return ok;
}

/* As the model's own settings say. */
static bool add_own_steps(cJSON *root, cJSON *model, const Spm *m, bool legacy, bool scored) {
    int n_users;
    char *expression = user_expression(m, &n_users);
    bool ok = expression && add_names(root, m) && add_normalizers(root, m, legacy) &&
              add_words(root, m, expression, legacy) && add_decoder(root, m) &&
              cJSON_AddBoolToObject(model, "byte_fallback", m->byte_fallback);
    free(expression);
    if (!ok) return false;
    if (scored) return m->unk < 0 || m->unk >= m->n || cJSON_AddNumberToObject(model, "unk_id", m->unk);
    return cJSON_AddTrueToObject(model, "fuse_unk") && cJSON_AddBoolToObject(model, "ignore_merges", n_users > 0) &&
           (m->unk < 0 || m->unk >= m->n || cJSON_AddStringToObject(model, "unk_token", m->pieces[m->unk].text));
}

/* Control pieces are found in a text; user-defined ones with the class LlamaTokenizer, else by the expression. */
static bool add_pieces(cJSON *root, const Spm *m, bool users) {
    cJSON *flags = cJSON_CreateObject();
    bool ok = cJSON_AddFalseToObject(flags, "normalized") != NULL;
    for (int i = 0; ok && i < m->n; i++)
        if (m->pieces[i].type == 3 || (users && m->pieces[i].type == 4))
            ok = build_add_token(root, i, m->pieces[i].text, flags, m->pieces[i].type == 3);
    cJSON_Delete(flags);
    return ok;
}

/* The merges by score; llama: by the pieces' order. */
static bool add_merges(cJSON *model, const Spm *m, bool llama, Error *e) {
    SpmPiece *order = malloc(((size_t)m->n + 1) * sizeof *order);
    if (!order) return false;
    memcpy(order, m->pieces, (size_t)m->n * sizeof *order);
    if (!llama) qsort(order, (size_t)m->n, sizeof *order, best_first);
    cJSON *merges = merges_of(m, order, !llama, e);
    free(order);
    if (merges && cJSON_AddItemToObject(model, "merges", merges)) return true;
    cJSON_Delete(merges);
    return false;
}

cJSON *build_from_spm(const File *file, const LlamaSteps *llama, bool legacy, Error *e) {
    Spm m;
    cJSON *root = cJSON_CreateObject(), *model = cJSON_AddObjectToObject(root, "model");
    bool ok = false;
    if (read_spm(&m, file, e)) goto done;
    bool scored = !llama && m.model_type == TYPE_UNIGRAM;
    cJSON *vocab = model ? vocab_of(&m, scored) : NULL;
    if (!vocab || !cJSON_AddItemToObject(model, "vocab", vocab)) {
        cJSON_Delete(vocab);
        goto done;
    }
    if (!cJSON_AddStringToObject(model, "type", scored ? "Unigram" : "BPE")) goto done;
    if (!(llama ? build_llama_steps(root, *llama) : add_own_steps(root, model, &m, legacy, scored))) goto done;
    if (!scored && !add_merges(model, &m, llama != NULL, e)) goto done;
    ok = add_pieces(root, &m, llama != NULL);
done:
    spm_close(&m);
    if (ok) return root;
    cJSON_Delete(root);
    fail(e, "%s: memory: expected some, found none", file->path);
    return NULL;
}

/* ---- Of a vocabulary that is read already --------------------------------------------------------- */

/* A piece's text; llama2.c's has the space itself, where `spaced`. */
static size_t copy_piece(char *out, const Piece *p, bool spaced) {
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++) {
        bool space = spaced && p->text[i] == ' ';
        memcpy(out + n, space ? "\u2581" : p->text + i, space ? 3 : 1);
        n += space ? 3 : 1;
    }
    out[n] = 0;
    return n;
}

static int take_pieces(Spm *m, const struct Tokenizer *t, Error *e) {
    size_t bytes = 1, bad;
    *m = (Spm){.file = "tokenizer", .unk = t->unk, .bos = -1, .eos = -1, .prefix = t->prefix != NULL};
    for (int i = 0; i < t->vocab.n; i++) bytes += 3 * t->vocab.pieces[i].n + 1;
    m->pieces = calloc((size_t)t->vocab.n + 1, sizeof *m->pieces);
    char *next = m->texts = malloc(bytes);
    if (!m->pieces || !next || !table_init(&m->ids, (size_t)t->vocab.n))
        return fail(e, "tokenizer: memory: expected room for %d pieces, found none", t->vocab.n);
    bool spaced = t->space && strcmp(t->space, " ") == 0;
    for (int i = 0; i < t->vocab.n; i++, m->n++) {
        const Piece *p = &t->vocab.pieces[i];
        size_t n = copy_piece(next, p, spaced);
        int type = p->kind == PIECE_USER ? PIECE_UNUSED : p->kind; /* an added token */
        m->pieces[i] = (SpmPiece){.text = next, .n = (int)n, .type = type, .id = i, .score = p->score};
        if (n == 0 || memchr(next, 0, n) || !utf8_valid(next, n, &bad))
            return fail(e, "tokenizer: piece %d: expected UTF-8 without NUL, found something else", i);
        if (!table_put(&m->ids, next, n, i)) return fail(e, "tokenizer: piece %d: expected a text of its own", i);
        m->byte_fallback |= p->kind == PIECE_BYTE;
        next += n + 1;
    }
    for (int i = 0; i < t->score.whole.n; i++) m->pieces[t->score.whole.tokens[i].id].type = PIECE_USER;
    return 0;
}

cJSON *build_from_scores(const struct Tokenizer *t, Error *e) {
    Spm m;
    cJSON *root = cJSON_CreateObject(), *model = cJSON_AddObjectToObject(root, "model"), *vocab = NULL;
    char *expression = NULL;
    int n_users;
    bool ok = false;
    if (take_pieces(&m, t, e) || !(vocab = vocab_of(&m, false))) goto done;
    ok = cJSON_AddItemToObject(model, "vocab", vocab) && (expression = user_expression(&m, &n_users)) &&
         build_spaces(root, m.prefix) && (n_users == 0 || build_split(build_words(root), expression)) &&
         add_decoder(root, &m) && cJSON_AddStringToObject(model, "type", "BPE") &&
         cJSON_AddBoolToObject(model, "byte_fallback", m.byte_fallback) && cJSON_AddTrueToObject(model, "fuse_unk") &&
         cJSON_AddBoolToObject(model, "ignore_merges", n_users > 0) &&
         (m.unk < 0 || cJSON_AddStringToObject(model, "unk_token", m.pieces[m.unk].text)) &&
         add_merges(model, &m, false, e);
done:
    free(expression);
    spm_close(&m);
    if (ok) return root;
    cJSON_Delete(root);
    fail(e, "tokenizer: memory: expected some, found none");
    return NULL;
}
