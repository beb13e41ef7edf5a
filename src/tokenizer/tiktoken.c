#include "tokenizer/tiktoken.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "io/json.h"
#include "tokenizer/bytes.h"
#include "tokenizer/impl.h"
#include "tokenizer/pre.h"

enum { MAX_RANKS = 1 << 23, MAX_PIECE = 1 << 10 };

/* Padded base64 of n characters to bytes; their number, or -1 when it is none. */
static int decode64(const char *s, size_t n, char *out) {
    size_t count;
    if (n == 0 || n % 4 || n > MAX_PIECE) return -1;
    return base64_decode(s, n, (unsigned char *)out, &count) ? (int)count : -1;
}

/* ---- special tokens and expressions by the number of ranks ---------------------------------------------- */

typedef struct {
    int id;
    const char *text; /* one %d in it counts from `first` to `last` over as many ids */
    int first, last;
} Special;

typedef struct {
    int n_ranks;
    const char *pre; /* the row of pre.c with its expression */
    bool nfc;
    int bos;
    const Special *special; /* ends with a text of NULL */
} Encoding;

static const Special R50K[] = {{50256, "<|endoftext|>", 0, 0}, {0}};
static const Special CL100K[] = {{100257, "<|endoftext|>", 0, 0},   {100258, "<|fim_prefix|>", 0, 0},
                                 {100259, "<|fim_middle|>", 0, 0},  {100260, "<|fim_suffix|>", 0, 0},
                                 {100276, "<|endofprompt|>", 0, 0}, {0}};
static const Special O200K[] = {{199999, "<|endoftext|>", 0, 0}, {200018, "<|endofprompt|>", 0, 0}, {0}};
static const Special LLAMA3[] = {{128000, "<|begin_of_text|>", 0, 0},
                                 {128001, "<|end_of_text|>", 0, 0},
                                 {128002, "<|reserved_special_token_%d|>", 0, 1},
                                 {128004, "<|finetune_right_pad_id|>", 0, 0},
                                 {128005, "<|reserved_special_token_%d|>", 2, 2},
                                 {128006, "<|start_header_id|>", 0, 0},
                                 {128007, "<|end_header_id|>", 0, 0},
                                 {128008, "<|eom_id|>", 0, 0},
                                 {128009, "<|eot_id|>", 0, 0},
                                 {128010, "<|python_tag|>", 0, 0},
                                 {128011, "<|reserved_special_token_%d|>", 3, 247},
                                 {0}};
static const Special QWEN[] = {{151643, "<|endoftext|>", 0, 0},
                               {151644, "<|im_start|>", 0, 0},
                               {151645, "<|im_end|>", 0, 0},
                               {151646, "<|extra_%d|>", 0, 204},
                               {0}};
static const char *const QWEN35_TEXTS[] = {"<|endoftext|>",
                                           "<|im_start|>",
                                           "<|im_end|>",
                                           "<|object_ref_start|>",
                                           "<|object_ref_end|>",
                                           "<|box_start|>",
                                           "<|box_end|>",
                                           "<|quad_start|>",
                                           "<|quad_end|>",
                                           "<|vision_start|>",
                                           "<|vision_end|>",
                                           "<|vision_pad|>",
                                           "<|image_pad|>",
                                           "<|video_pad|>",
                                           "<tool_call>",
                                           "</tool_call>",
                                           "<|fim_prefix|>",
                                           "<|fim_middle|>",
                                           "<|fim_suffix|>",
                                           "<|fim_pad|>",
                                           "<|repo_name|>",
                                           "<|file_sep|>",
                                           "<tool_response>",
                                           "</tool_response>",
                                           "<think>",
                                           "</think>",
                                           "<|audio_start|>",
                                           "<|audio_end|>",
                                           "<tts_pad>",
                                           "<tts_text_bos>",
                                           "<tts_text_eod>",
                                           "<tts_text_bos_single>",
                                           "<|audio_pad|>"};
enum { N_QWEN35 = sizeof QWEN35_TEXTS / sizeof *QWEN35_TEXTS, QWEN35_RANKS = 248044 };

/* Source: tiktoken_ext/openai_public.py; meta-llama/llama3, tokenizer.py; Qwen's tokenization_qwen.py. */
static const Encoding ENCODINGS[] = {
    {50256, "gpt-2", false, -1, R50K},
    {100256, "llama-bpe", false, -1, CL100K},
    {199998, "gpt-4o", false, -1, O200K},
    {128000, "llama-bpe", false, 128000, LLAMA3},
    {151643, "qwen2", true, -1, QWEN},
    {QWEN35_RANKS, "qwen35", true, -1, NULL},
    {0, "llama-bpe", false, -1, (Special[]){{0}}}, /* any other, as transformers reads it */
};

/* ---- filling the vocabulary ----------------------------------------------------------------------------- */

/* Texts of special tokens are copied; bytes of ranks are decoded into the same block. */
typedef struct {
    struct Tokenizer *t;
    char *next, *end;
    const char *file;
} Filler;

static int fill_begin(Filler *f, struct Tokenizer *t, size_t n, size_t bytes, const char *file, Error *e) {
    if (n == 0 || n > MAX_RANKS) return fail(e, "%s: ranks: expected 1 to %d, found %zu", file, MAX_RANKS, n);
    if (vocab_init(&t->vocab, (int)n, file, e)) return -1;
    t->texts = malloc(bytes + 1);
    if (!t->texts) return fail(e, "%s: memory: expected room for %zu tokens, found none", file, n);
    *f = (Filler){.t = t, .next = t->texts, .end = t->texts + bytes, .file = file};
    return 0;
}

static int fill_rank(Filler *f, int id, const char *s, size_t n, Error *e) {
    int length = decode64(s, n, f->next);
    if (length < 1)
        return fail(e, "%s: token %d: expected bytes in base64, found \"%.*s\"", f->file, id, n > 60 ? 60 : (int)n, s);
    Piece *p = &f->t->vocab.pieces[id];
    if (p->kind != PIECE_NONE) return fail(e, "%s: token %d: expected one of that rank, found two", f->file, id);
    *p = (Piece){.text = f->next, .n = (uint32_t)length, .kind = PIECE_NORMAL};
    f->next += length;
    return 0;
}

static int fill_special(Filler *f, int id, const char *text, bool control, Error *e) {
    size_t n = strlen(text);
    if (id < 0 || id >= f->t->vocab.n || n > (size_t)(f->end - f->next) || f->t->vocab.pieces[id].kind != PIECE_NONE)
        return fail(e, "%s: special token \"%.60s\": expected a free id, found %d", f->file, text, id);
    memcpy(f->next, text, n);
    f->t->vocab.pieces[id] = (Piece){.text = f->next, .n = (uint32_t)n, .kind = control ? PIECE_CONTROL : PIECE_USER};
    f->next += n;
    return 0;
}

static int fill_end(Filler *f, const char *expression, bool nfc, Error *e) {
    struct Tokenizer *t = f->t;
    if (vocab_finish(&t->vocab, SPELL_PLAIN, f->file, e)) return -1;
    for (int b = 0; b < 256; b++) t->vocab.byte_id[b] = table_get(&t->vocab.ids, &(char){(char)b}, 1);
    t->model = MODEL_RANK;
    t->kind = "tiktoken";
    t->bpe.byte_level = t->bpe.by_text = t->bpe.ignore_merges = true;
    t->bpe.unk = -1;
    if (!(t->words = pretokenizer_new())) return fail(e, "%s: memory: expected some, found none", f->file);
    if (pretokenizer_add(t->words, expression, strlen(expression), (Split){0}, f->file, e)) return -1;
    if (nfc && normalizer_add(&t->normalizer, (NormalizeStep){.kind = NORMALIZE_FORM, .form = FORM_NFC}, f->file, e))
        return -1;
    if (add_special_pieces(t, true, f->file, e)) return -1;
    add_known_eos(t);
    return 0;
}

/* ---- .tiktoken ------------------------------------------------------------------------------------------ */

/* The next line "BASE64 RANK"; false at the end of the file, or (*rank -1) when it is no such line. */
static bool next_line(const char **at, const char *end, const char **token, size_t *n, int *rank) {
    while (*at < end && (**at == '\n' || **at == '\r')) ++*at;
    if (*at == end) return false;
    const char *s = *at;
    long value = 0;
    *rank = -1;
    while (s < end && (base64_digit((unsigned char)*s) >= 0 || *s == '=')) s++;
    *token = *at;
    *n = (size_t)(s - *at);
    if (*n == 0 || s == end || *s++ != ' ' || s == end || *s < '0' || *s > '9') return false;
    while (s < end && *s >= '0' && *s <= '9' && value < MAX_RANKS) value = 10 * value + *s++ - '0';
    if (s < end && *s != '\n' && *s != '\r') return false;
    *at = s;
    if (value < MAX_RANKS) *rank = (int)value;
    return *rank >= 0;
}

bool is_tiktoken(const File *file) {
    const char *at = (const char *)file->data, *token;
    size_t n;
    int rank;
    char bytes[MAX_PIECE];
    return next_line(&at, at + file->size, &token, &n, &rank) && decode64(token, n, bytes) > 0;
}

static int fill_known(Filler *f, const Encoding *known, Error *e) {
    for (int i = 0; !known->special && i < N_QWEN35; i++)
        if (fill_special(f, QWEN35_RANKS + i, QWEN35_TEXTS[i], true, e)) return -1;
    for (const Special *s = known->special; s && s->text; s++)
        for (int i = s->first; i <= s->last; i++) {
            char text[64];
            snprintf(text, sizeof text, s->text, i);
            if (fill_special(f, s->id + i - s->first, text, true, e)) return -1;
        }
    return 0;
}

/* The ids that a table or added_tokens_decoder names end here. */
static int end_of_known(const Encoding *known, int n, const cJSON *added) {
    const cJSON *item;
    if (!known->special) n = QWEN35_RANKS + N_QWEN35;
    for (const Special *s = known->special; s && s->text; s++) n = s->id + s->last - s->first + 1;
    cJSON_ArrayForEach(item, added) {
        int id = atoi(item->string);
        if (id >= n && id < MAX_RANKS) n = id + 1;
    }
    return n;
}

int read_tiktoken(struct Tokenizer *t, const File *file, const cJSON *added, Error *e) {
    const char *begin = (const char *)file->data, *end = begin + file->size, *at = begin, *token;
    size_t n, count = 0;
    int rank, n_ranks = 0;
    while (next_line(&at, end, &token, &n, &rank)) {
        count++;
        if (rank >= n_ranks) n_ranks = rank + 1;
    }
    if (at < end)
        return fail(e, "%s: line %zu: expected a token in base64 and a rank below %d, found something else", file->path,
                    count + 1, MAX_RANKS);
    if ((size_t)n_ranks > count + (1 << 15))
        return fail(e, "%s: ranks: expected numbers near the count %zu, found %d", file->path, count, n_ranks - 1);
    const Encoding *known = ENCODINGS;
    while (known->n_ranks && known->n_ranks != n_ranks) known++;
    bool named = cJSON_GetArraySize(added) > 0;
    Filler f = {0};
    int n_ids = end_of_known(known, n_ranks, added);
    if (n_ids - n_ranks > 1 << 15)
        return fail(e, "%s: added tokens: expected ids near the ranks, found %d", file->path, n_ids - 1);
    if (fill_begin(&f, t, (size_t)n_ids, file->size + 64 * (size_t)(n_ids - n_ranks), file->path, e)) return -1;
    for (at = begin; next_line(&at, end, &token, &n, &rank);)
        if (fill_rank(&f, rank, token, n, e)) return -1;
    const cJSON *item;
    cJSON_ArrayForEach(item, added) {
        const cJSON *content = cJSON_GetObjectItemCaseSensitive(item, "content");
        int id = atoi(item->string);
        if (id < n_ranks || id >= n_ids || !cJSON_IsString(content)) continue; /* one of the ranks */
        if (fill_special(&f, id, content->valuestring, true, e)) return -1;
    }
    if (!named && fill_known(&f, known, e)) return -1;
    const Pre *pre = pre_find(known->pre, strlen(known->pre));
    if (fill_end(&f, pre->expressions[0], known->nfc, e)) return -1;
    t->bos = known->bos;
    if (t->bos >= 0) t->before[t->n_before++] = t->bos;
    return 0;
}

/* ---- tekken.json ---------------------------------------------------------------------------------------- */

static const cJSON *get(const cJSON *object, const char *key) { return cJSON_GetObjectItemCaseSensitive(object, key); }

bool is_tekken(const cJSON *root) {
    return cJSON_IsArray(get(root, "vocab")) && cJSON_IsString(get(get(root, "config"), "pattern"));
}

/* The special tokens of files that do not list theirs. */
static const char *const OLD_SPECIAL[] = {"<unk>",
                                          "<s>",
                                          "</s>",
                                          "[INST]",
                                          "[/INST]",
                                          "[AVAILABLE_TOOLS]",
                                          "[/AVAILABLE_TOOLS]",
                                          "[TOOL_RESULTS]",
                                          "[/TOOL_RESULTS]",
                                          "[TOOL_CALLS]",
                                          "[IMG]",
                                          "<pad>",
                                          "[IMG_BREAK]",
                                          "[IMG_END]",
                                          "[PREFIX]",
                                          "[MIDDLE]",
                                          "[SUFFIX]",
                                          "[SYSTEM_PROMPT]",
                                          "[/SYSTEM_PROMPT]",
                                          "[TOOL_CONTENT]"};
enum { N_OLD = sizeof OLD_SPECIAL / sizeof *OLD_SPECIAL };

static int fill_tekken_special(Filler *f, const cJSON *list, int n_special, Error *e) {
    const cJSON *item;
    int n = 0;
    cJSON_ArrayForEach(item, list) {
        bool control = true;
        int rank = -1;
        const cJSON *text = get(item, "token_str");
        if (json_int(&rank, item, "rank", 0, n_special - 1, f->file, e) ||
            json_bool(&control, item, "is_control", f->file, e))
            return -1;
        if (rank < 0 || !cJSON_IsString(text) || !*text->valuestring)
            return fail(e, "%s: special_tokens: expected a rank and a token_str, found none", f->file);
        if (fill_special(f, rank, text->valuestring, control, e)) return -1;
        n++;
    }
    for (; !list && n < N_OLD && n < n_special; n++)
        if (fill_special(f, n, OLD_SPECIAL[n], true, e)) return -1;
    for (int id = 0; id < n_special; id++) {
        char text[32];
        snprintf(text, sizeof text, "<SPECIAL_%d>", id);
        if (f->t->vocab.pieces[id].kind == PIECE_NONE && fill_special(f, id, text, true, e)) return -1;
    }
    return 0;
}

int read_tekken(struct Tokenizer *t, const cJSON *root, const char *file, Error *e) {
    const cJSON *config = get(root, "config"), *vocab = get(root, "vocab"), *special = get(root, "special_tokens"),
                *item;
    int n_ids = -1, n_special = -1, id;
    if (cJSON_IsNull(special)) special = NULL;
    if (json_int(&n_ids, config, "default_vocab_size", 1, MAX_RANKS, file, e) ||
        json_int(&n_special, config, "default_num_special_tokens", 1, 1 << 15, file, e))
        return -1;
    if (n_ids < 0 || n_special < 3 || n_special >= n_ids || cJSON_GetArraySize(vocab) < n_ids - n_special)
        return fail(e,
                    "%s: config.default_vocab_size: expected %d special tokens and no more ranks than the %d there "
                    "are, found %d",
                    file, n_special, cJSON_GetArraySize(vocab), n_ids);
    size_t bytes = 32 * (size_t)n_special + 1;
    cJSON_ArrayForEach(item, special) if (cJSON_IsString(get(item, "token_str"))) bytes +=
        strlen(get(item, "token_str")->valuestring);
    cJSON_ArrayForEach(item, vocab) if (cJSON_IsString(get(item, "token_bytes"))) bytes +=
        strlen(get(item, "token_bytes")->valuestring);
    Filler f = {0};
    if (fill_begin(&f, t, (size_t)n_ids, bytes, file, e) || fill_tekken_special(&f, special, n_special, e)) return -1;
    id = n_special;
    cJSON_ArrayForEach(item, vocab) {
        const cJSON *text = get(item, "token_bytes");
        if (id == n_ids) break;
        if (!cJSON_IsString(text))
            return fail(e, "%s: vocab: token %d: expected token_bytes, found none", file, id - n_special);
        if (fill_rank(&f, id++, text->valuestring, strlen(text->valuestring), e)) return -1;
    }
    if (fill_end(&f, get(config, "pattern")->valuestring, false, e)) return -1;
    t->unk = table_get(&t->vocab.ids, "<unk>", 5);
    t->bos = table_get(&t->vocab.ids, "<s>", 3);
    add_eos(t, table_get(&t->vocab.ids, "</s>", 4));
    if (t->bos >= 0) t->before[t->n_before++] = t->bos;
    return 0;
}
