/* Vocabularies of GGUF files, built here key by key: what each key, each token type and each known token text does.
 * What is expected is llama.cpp's (src/llama-vocab.cpp); scripts/check_llama_cpp_vocabularies.py compares real ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer.h"
#include "tokenizer/pre.h"
#include "tokenizer/pretokenize.h"
#include "untrusted.h"

#include <cmocka.h>

#define NAME MEMORY "/vocab.gguf"

typedef struct {
    unsigned char bytes[1 << 16];
    size_t n;
    uint64_t keys;
} Builder;

static void put(Builder *b, const void *p, size_t n) {
    assert_true(b->n + n <= sizeof b->bytes);
    memcpy(b->bytes + b->n, p, n);
    b->n += n;
}
static void put_u32(Builder *b, uint32_t x) { put(b, &x, 4); }
static void put_u64(Builder *b, uint64_t x) { put(b, &x, 8); }
static void put_text(Builder *b, const char *s) {
    put_u64(b, strlen(s));
    put(b, s, strlen(s));
}
static void key(Builder *b, const char *name, uint32_t type) {
    char full[80];
    snprintf(full, sizeof full, strchr(name, '.') ? "%s" : "tokenizer.ggml.%s", name);
    put_text(b, full);
    put_u32(b, type);
    b->keys++;
}
static void begin(Builder *b) {
    *b = (Builder){0};
    put(b, "GGUF\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24); /* no tensors; the number of keys comes last */
}
static void text_key(Builder *b, const char *name, const char *value) {
    key(b, name, GGUF_STRING);
    put_text(b, value);
}
static void id_key(Builder *b, const char *name, uint32_t id) {
    key(b, name, GGUF_U32);
    put_u32(b, id);
}
static void bool_key(Builder *b, const char *name, bool value) {
    key(b, name, GGUF_BOOL);
    put(b, &(char){value}, 1);
}
static void texts_key(Builder *b, const char *name, const char *const *texts, size_t n) {
    key(b, name, GGUF_ARRAY);
    put_u32(b, GGUF_STRING);
    put_u64(b, n);
    for (size_t i = 0; i < n; i++) put_text(b, texts[i]);
}

/* Tokens are "TYPE text" with the token type as a digit; their scores go down from 0. */
static void tokens_key(Builder *b, const char *const *tokens, size_t n) {
    const char *texts[64] = {0};
    for (size_t i = 0; i < n; i++) texts[i] = tokens[i] + 2;
    texts_key(b, "tokens", texts, n);
    key(b, "token_type", GGUF_ARRAY);
    put_u32(b, GGUF_I32);
    put_u64(b, n);
    for (size_t i = 0; i < n; i++) put_u32(b, (uint32_t)(tokens[i][0] - '0'));
    key(b, "scores", GGUF_ARRAY);
    put_u32(b, GGUF_F32);
    put_u64(b, n);
    for (size_t i = 0; i < n; i++) put(b, &(float){-(float)i}, 4);
}

static Tokenizer *open_built(Builder *b, Error *e) {
    memcpy(b->bytes + 16, &b->keys, 8);
    while (b->n % 32) b->bytes[b->n++] = 0;
    memory_clear();
    memory_put("vocab.gguf", b->bytes, b->n);
    *e = (Error){0};
    return tokenizer_open(NAME, e);
}

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Begins a vocabulary of that model; keys may follow. */
#define MODEL(b, model, tokens) (begin(b), text_key(b, "model", model), tokens_key(b, tokens, COUNT(tokens)))

static void assert_ids(const Tokenizer *t, const char *text, unsigned flags, const char *expected) {
    int *ids, n;
    char shown[512] = "";
    Error e = {0};
    if (tokenizer_encode(t, text, strlen(text), flags, &ids, &n, &e)) fail_msg("%s", e.text);
    for (int i = 0; i < n; i++)
        snprintf(shown + strlen(shown), sizeof shown - strlen(shown), "%s%d", i ? " " : "", ids[i]);
    free(ids);
    if (strcmp(shown, expected) != 0) fail_msg("\"%s\": expected %s, found %s", text, expected, shown);
}

static const char *const BYTES[] = {"1 a",    "1 b", "1 Ġ", "1 ab", "1 Ġa", "3 <s>",
                                    "3 </s>", "1 1", "1 2", "1 Ċ",  "1 x",  "1 ,"};
static const char *const MERGES[] = {"a b", "Ġ a"};

static Tokenizer *byte_level(Builder *b, const char *pre, Error *e) {
    if (pre) text_key(b, "pre", pre);
    texts_key(b, "merges", MERGES, COUNT(MERGES));
    Tokenizer *t = open_built(b, e);
    if (!t) fail_msg("%s", e->text);
    return t;
}

static void pre_tokenizers(void **state) {
    (void)state;
    static const struct {
        const char *pre;
        bool bos;
        const char *ids; /* of "ab 12" */
    } cases[] = {
        {"llama-bpe", true, "5 3 2 7 8"},  {"falcon3", true, "5 3 2 7 8"}, {"tekken", true, "5 3 2 7 8"},
        {"chameleon", true, "5 3 2 7 8"},  {"gpt-2", false, "3 2 7 8"},    {"qwen2", false, "3 2 7 8"},
        {"deepseek-v3", false, "3 2 7 8"}, {"glm4", false, "3 2 7 8"},     {"superbpe", false, "3 2 7 8"},
    };
    Builder b;
    Error e;
    for (size_t i = 0; i < COUNT(cases); i++) {
        MODEL(&b, "gpt2", BYTES);
        id_key(&b, "bos_token_id", 5);
        Tokenizer *t = byte_level(&b, cases[i].pre, &e);
        assert_int_equal(tokenizer_adds_bos(t), cases[i].bos);
        assert_null(tokenizer_note(t));
        assert_ids(t, "ab 12", TOKENIZE_BOS, cases[i].ids);
        tokenizer_close(t);
    }
    MODEL(&b, "gpt2", BYTES); /* the key outweighs the pre-tokenizer */
    id_key(&b, "bos_token_id", 5);
    bool_key(&b, "add_bos_token", false);
    Tokenizer *t = byte_level(&b, "llama-bpe", &e);
    assert_ids(t, "a", TOKENIZE_BOS, "0");
    tokenizer_close(t);
    for (int i = 0; i < 2; i++) { /* the file does not say how its text is cut */
        MODEL(&b, "gpt2", BYTES);
        t = byte_level(&b, i ? "default" : NULL, &e);
        assert_non_null(strstr(tokenizer_note(t), "tokenizer.ggml.pre"));
        tokenizer_close(t);
    }
    MODEL(&b, "gpt2", BYTES);
    text_key(&b, "pre", "nobody-knows");
    assert_null(open_built(&b, &e));
    assert_non_null(
        strstr(e.text, "tokenizer.ggml.pre: expected a pre-tokenizer that llama.cpp knows, found \"nobody"));
}

static int join_word(void *arg, const char *s, size_t n, Error *e) {
    (void)e;
    char *joined = arg;
    size_t length = strlen(joined);
    memcpy(joined + length, s, n);
    joined[length + n] = 0;
    return 0;
}

/* The table has every name that llama.cpp knows; each row's expressions compile and lose no byte of a text. */
static void every_pre_tokenizer(void **state) {
    (void)state;
    static const char names[] =
        "default gpt-2 gpt2 phi-2 jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code "
        "roberta-bpe gigachat a.x-4.0 mellum modern-bert mpt olmo jais exaone4 trillion granite-docling "
        "starcoder refact command-r smollm codeshell exaone minerva-7b mellum2 llama3 llama-v3 llama-bpe "
        "falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano dbrx smaug-bpe chatglm-bpe glm4 glm5 "
        "jais-2 minicpm5 qwen2 deepseek-r1-qwen kormo f2llmv2 stablelm2 megrez hunyuan solar-open grok-2 "
        "qwen35 ufakzeka laguna deepseek-llm deepseek-coder deepseek-v3 hunyuan-dense joyai-llm hy_v4 "
        "spark2_5 youtu falcon bloom poro-chat gpt3-finnish viking tekken chameleon gpt-4o llama4 "
        "kanana2 talkie minimax-m2 granite-embed-multi-97m tiny_aya cohere2moe kimi-k2 superbpe "
        "bailingmoe bailingmoe2 llada-moe seed-coder afmoe exaone-moe gemma4 granite-embed-multi-311m "
        "sarvam-moe";
    static const char text[] = "Hello  world's 1234567 naïve 你好，世界 カタカナ 안녕\n\n\tx_y(); ½Ⅷ e\u0301 don'T "
                               "12ab 1,000.5 <sentinel:3>  ";
    for (const char *name = names; *name; name += strspn(name, " ")) {
        Error e = {0};
        char joined[sizeof text] = "";
        size_t length = strcspn(name, " ");
        const Pre *row = pre_find(name, length);
        if (!row) fail_msg("no row %.*s", (int)length, name);
        name += length;
        Pretokenizer *p = pretokenizer_new();
        for (int k = 0; k < PRE_EXPRESSIONS && row->expressions[k]; k++)
            if (pretokenizer_add(p, row->expressions[k], strlen(row->expressions[k]), (Split){0}, row->name, &e))
                fail_msg("%s", e.text);
        RegexSpace *space = regex_space_new(strlen(text));
        assert_int_equal(pretokenize(p, space, text, strlen(text), true, join_word, joined, &e), 0);
        regex_space_free(space);
        assert_string_equal(joined, text);
        pretokenizer_free(p);
    }
}

static int list_word(void *arg, const char *s, size_t n, Error *e) {
    (void)e;
    char *list = arg;
    snprintf(list + strlen(list), 256 - strlen(list), "%.*s|", (int)n, s);
    return 0;
}

/* Where those differ that have their digits, their cases or their scripts cut in ways of their own. */
static void cuts(void **state) {
    (void)state;
    static const struct {
        const char *pre, *text, *words;
    } cases[] = {
        {"llama-bpe", "in 12345", "in| |123|45|"},
        {"qwen2", "in 123", "in| |1|2|3|"},
        {"gpt-2", "in 12345 \t x", "in| 12345| \t| x|"},
        {"default", "a<=b 12345", "a|<=|b| |123|45|"},
        {"superbpe", "in 1234567 12 123456", "in |1|234|567| |12| |123|456|"},
        {"tiny_aya", "1234567 x", "1|234|567| x|"},
        {"tiny_aya", "1234567x", "123|456|7|x|"},
        {"afmoe", "12345 ab", "12|345| ab|"},
        {"tekken", "HelloWorld ABCdef 12", "Hello|World| ABCdef| |1|2|"},
        {"gpt-4o", "don't CAN'T 1234", "don't| CAN'T| |123|4|"},
        {"kimi-k2", "ab世界cd don't", "ab|世界|cd| don't|"},
        {"qwen35", "e\u0301t\u0301", "e\u0301t\u0301|"},
        {"qwen2", "e\u0301t", "e|\u0301t|"},
        {"deepseek-v3", "世界ab (x", "世界|ab| (|x|"},
        {"deepseek-llm", "ab cd!12", "ab| cd|!|12|"},
        {"falcon", "ab== 12345", "ab|==| |123|45|"},
        {"bloom", "ab, cd", "ab|,| cd|"},
        {"viking", "ab12", "ab|1|2|"},
        {"bailingmoe", "it's\n\nx", "it|'s|\n\n|x|"},
        {"exaone-moe", "ab cd1", "ab cd|1|"},
        {"laguna", "a\n\nb", "a|\n\n|b|"},
        {"gemma4", "a b\n\nc", "a b|\n\n|c|"},
        {"chameleon", "x<sentinel:12>y7", "x|<|sentinel|:|1|2|>|y|7|"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        Error e = {0};
        char list[256] = "";
        const Pre *row = pre_find(cases[i].pre, strlen(cases[i].pre));
        Pretokenizer *p = pretokenizer_new();
        for (int k = 0; k < PRE_EXPRESSIONS && row->expressions[k]; k++)
            pretokenizer_add(p, row->expressions[k], strlen(row->expressions[k]), (Split){0}, "row", &e);
        RegexSpace *space = regex_space_new(strlen(cases[i].text));
        assert_int_equal(pretokenize(p, space, cases[i].text, strlen(cases[i].text), true, list_word, list, &e), 0);
        regex_space_free(space);
        if (strcmp(list, cases[i].words) != 0)
            print_error("%s: expected %s, found %s\n", cases[i].pre, cases[i].words, list);
        assert_string_equal(list, cases[i].words);
        pretokenizer_free(p);
    }
}

/* Digits in threes: the time may not grow with the square of a run. */
static void long_runs_of_digits(void **state) {
    (void)state;
    static const char *const names[] = {"superbpe", "tiny_aya", "afmoe", "deepseek-llm"};
    size_t n = 1 << 20;
    char *text = malloc(n + 1);
    memset(text, '7', n);
    for (size_t i = 0; i < COUNT(names); i++) {
        Builder b;
        Error e;
        MODEL(&b, "gpt2", BYTES);
        Tokenizer *t = byte_level(&b, names[i], &e);
        int *ids, n_ids;
        text[n] = 0;
        text[n - 1] = i % 2 ? 'x' : '7';
        assert_int_equal(tokenizer_encode(t, text, n, 0, &ids, &n_ids, &e), 0);
        free(ids);
        tokenizer_close(t);
    }
    free(text);
}

static const char *const SCORED[] = {"2 <unk>", "3 <s>",     "3 </s>",    "1 \u2581",       "1 a",
                                     "1 b",     "1 ab",      "1 \u2581a", "4 <|im_start|>", "4 <|im_end|>",
                                     "4   ",    "4 \u2581x", "1 x"};

static void scored_vocabulary(void **state) {
    (void)state;
    static const struct {
        const char *text;
        unsigned flags;
        const char *ids;
    } cases[] = {
        {"ab", TOKENIZE_BOS, "1 3 6"},
        {"a</s>a", TOKENIZE_SPECIAL, "7 2 7"}, /* behind a special token a prefix again */
        {"a<|im_start|>a", TOKENIZE_SPECIAL, "7 8 7"},
        {"a  b", 0, "7 10 3 5"}, /* a user-defined piece with spaces cuts the text first */
        {"a xb", 0, "7 11 5"},   /* one with U+2581 is found where a space was */
    };
    Builder b;
    Error e;
    MODEL(&b, "llama", SCORED);
    Tokenizer *t = open_built(&b, &e);
    if (!t) fail_msg("%s", e.text);
    assert_int_equal(tokenizer_bos(t), 1); /* no key says so */
    for (size_t i = 0; i < COUNT(cases); i++) assert_ids(t, cases[i].text, cases[i].flags, cases[i].ids);
    int *ids, n; /* what a user types between the tokens of a template */
    assert_int_equal(tokenizer_encode(t, "<|im_start|></s>", 16, 0, &ids, &n, &e), 0);
    for (int i = 0; i < n; i++) assert_true(ids[i] != 8 && ids[i] != 2);
    free(ids);
    tokenizer_close(t);

    MODEL(&b, "llama", SCORED);
    bool_key(&b, "add_space_prefix", false);
    bool_key(&b, "add_eos_token", true);
    bool_key(&b, "add_bos_token", false);
    bool_key(&b, "remove_extra_whitespaces", true);
    t = open_built(&b, &e);
    assert_ids(t, "ab", TOKENIZE_BOS, "6 2");
    assert_ids(t, "ab", 0, "6");
    assert_non_null(strstr(tokenizer_note(t), "remove_extra_whitespaces"));
    tokenizer_close(t);

    MODEL(&b, "llama", SCORED); /* ids that no token has count for none */
    id_key(&b, "bos_token_id", 99);
    id_key(&b, "eos_token_id", 5);
    t = open_built(&b, &e);
    assert_int_equal(tokenizer_bos(t), 1);
    tokenizer_close(t);
}

static bool ends(const char *const *tokens, size_t n, const char *model, int id) {
    Builder b;
    Error e;
    begin(&b);
    text_key(&b, "model", model);
    tokens_key(&b, tokens, n);
    id_key(&b, "eos_token_id", 0);
    text_key(&b, "pre", "llama-bpe");
    texts_key(&b, "merges", MERGES, 0);
    Tokenizer *t = open_built(&b, &e);
    if (!t) fail_msg("%s", e.text);
    int eos[16], n_eos = tokenizer_eos(t, eos);
    tokenizer_close(t);
    for (int i = 0; i < n_eos; i++)
        if (eos[i] == id) return true;
    return false;
}

/* End tokens are known by their texts, whatever type the file gives them. */
static void end_tokens(void **state) {
    (void)state;
    static const char *const texts[] = {"<|eot_id|>",
                                        "<|im_end|>",
                                        "<|end|>",
                                        "<|return|>",
                                        "<|call|>",
                                        "<end_of_turn>",
                                        "<|endoftext|>",
                                        "</s>",
                                        "<|eom_id|>",
                                        "<EOT>",
                                        "[EOS]",
                                        "<|end_of_text|>",
                                        "<end_of_utterance>",
                                        "<turn|>",
                                        "<｜end▁of▁sentence｜>",
                                        "[e~[",
                                        "<|fim_pad|>",
                                        "<|repo_name|>",
                                        "<|file_sep|>",
                                        "[PAD]"};
    for (size_t i = 0; i < COUNT(texts); i++)
        for (char type = '1'; type <= '4'; type += 3 - (type == '3')) {
            char token[64];
            snprintf(token, sizeof token, "%c %s", type, texts[i]);
            const char *const tokens[] = {"3 <s>", token};
            assert_true(ends(tokens, 2, "gpt2", 1));
            assert_true(ends(tokens, 2, "llama", 1));
        }
    static const char *const harmony[] = {"3 <s>", "3 <|end|>", "3 <|return|>", "3 <|call|>", "3 <|channel|>"};
    assert_false(ends(harmony, COUNT(harmony), "gpt2", 1)); /* ends a message there, not the answer */
    assert_true(ends(harmony, COUNT(harmony), "gpt2", 2));
    static const char *const solar[] = {"3 <s>", "3 <|end|>", "3 <|calls|>", "3 <|flush|>"};
    assert_false(ends(solar, COUNT(solar), "gpt2", 1));
    static const char *const gemma[] = {"3 <s>", "1 </s>", "3 <|tool_response>"};
    assert_false(ends(gemma, COUNT(gemma), "gpt2", 1)); /* a tag of HTML there */
    static const char *const other[] = {"3 <s>", "3 <|im_start|>"};
    assert_false(ends(other, 2, "gpt2", 1));
}

/* Merges by rank over UTF-8 with U+2581 for spaces. */
static void gemma4(void **state) {
    (void)state;
    static const char *const tokens[] = {"3 <bos>", "1 a",      "1 b",      "1 \u2581", "1 \u2581a",
                                         "1 \n",    "1 \n\n\n", "6 <0xC3>", "6 <0xA9>"};
    static const char *const merges[] = {"\u2581 a"};
    Builder b;
    Error e;
    MODEL(&b, "gemma4", tokens);
    id_key(&b, "bos_token_id", 0);
    bool_key(&b, "add_bos_token", false); /* Gemma 4's own files say so */
    texts_key(&b, "merges", merges, 1);
    Tokenizer *t = open_built(&b, &e);
    if (!t) fail_msg("%s", e.text);
    assert_ids(t, "b a\n\n\n\u00e9", TOKENIZE_BOS, "0 2 4 6 7 8");
    tokenizer_close(t);
}

/* The models t5 and bert. */
static void unigram_and_wordpiece(void **state) {
    (void)state;
    static const char *const likely[] = {"3 <pad>", "3 </s>", "2 <unk>", "1 \u2581",
                                         "1 a",     "1 b",    "1 ab",    "1 \u2581ab"};
    static const char *const words[] = {"3 [UNK]", "3 [CLS]", "3 [SEP]", "1 \u2581ab", "1 c", "1 \u2581!"};
    Builder b;
    Error e;
    MODEL(&b, "t5", likely);
    bool_key(&b, "add_space_prefix", true);
    bool_key(&b, "remove_extra_whitespaces", true);
    Tokenizer *t = open_built(&b, &e);
    if (!t) fail_msg("%s", e.text);
    assert_ids(t, " ab  b ", TOKENIZE_BOS, "7 3 5 1"); /* EOS behind the text, though no key says so */
    assert_ids(t, "ab!</s>b", TOKENIZE_SPECIAL, "7 2 1 3 5");
    tokenizer_close(t);
    MODEL(&b, "t5", likely);
    bool_key(&b, "add_eos_token", false);
    t = open_built(&b, &e);
    assert_ids(t, "ab  b", TOKENIZE_BOS, "6 3 3 5");
    tokenizer_close(t);
    MODEL(&b, "t5", likely);
    bool_key(&b, "precompiled_charsmap", true);
    assert_null(open_built(&b, &e));
    assert_non_null(strstr(e.text, "precompiled_charsmap: expected an array of int8"));
    MODEL(&b, "bert", words);
    id_key(&b, "bos_token_id", 1);
    id_key(&b, "seperator_token_id", 2);
    id_key(&b, "unknown_token_id", 0);
    t = open_built(&b, &e);
    if (!t) fail_msg("%s", e.text);
    assert_ids(t, "ABc!\u00c1b zz", TOKENIZE_BOS, "1 3 4 5 3 0 2");
    tokenizer_close(t);
}

/* precompiled_charsmap of n bytes: a double array (darts-clone) of 356 units in which b becomes "ab". */
static void charsmap_key(Builder *b, size_t n) {
    enum { ROOT = 256, CHILD = ROOT ^ 'b', LEAF = CHILD ^ 1, UNITS = LEAF + 1 };
    uint32_t units[1 + UNITS] = {4 * UNITS};
    units[1] = ROOT << 10;                     /* where the root's children are */
    units[1 + CHILD] = 1 << 10 | 1 << 8 | 'b'; /* it has a leaf */
    units[1 + LEAF] = 1u << 31;                /* the text at 0 */
    char blob[sizeof units + 3];
    memcpy(blob, units, sizeof units);
    memcpy(blob + sizeof units, "ab", 3);
    key(b, "precompiled_charsmap", GGUF_ARRAY);
    put_u32(b, GGUF_I8);
    put_u64(b, n ? n : sizeof blob);
    put(b, blob, n ? n : sizeof blob);
}

/* A t5 vocabulary's text goes through the table of its file first: what it makes of a letter is what is looked up. */
static void charsmap(void **state) {
    (void)state;
    static const char *const likely[] = {"3 <pad>", "3 </s>", "2 <unk>", "1 \u2581",
                                         "1 a",     "1 b",    "1 ab",    "1 \u2581ab"};
    static const struct {
        size_t bytes;
        const char *error;
    } cut[] = {{7, "precompiled_charsmap: expected 8 bytes or more, found 7"},
               {100, "precompiled_charsmap: expected a trie of at most 96 bytes, found 1424"}};
    Builder b;
    Error e;
    MODEL(&b, "t5", likely);
    charsmap_key(&b, 0);
    bool_key(&b, "add_space_prefix", true);
    Tokenizer *t = open_built(&b, &e);
    if (!t) fail_msg("%s", e.text);
    assert_ids(t, "b", 0, "7");          /* _ab */
    assert_ids(t, "ab b", 0, "3 4 6 7"); /* _ a ab, _ab */
    tokenizer_close(t);
    for (size_t i = 0; i < COUNT(cut); i++) {
        MODEL(&b, "t5", likely);
        charsmap_key(&b, cut[i].bytes);
        assert_null(open_built(&b, &e));
        if (!strstr(e.text, cut[i].error)) fail_msg("expected '%s', found '%s'", cut[i].error, e.text);
    }
}

/* Special tokens of a Phi-3, which only its name tells, take the white space behind them along, but for three. */
static void phi3(void **state) {
    (void)state;
    static const char *const tokens[] = {"2 <unk>", "3 <s>",    "3 </s>",         "3 <|user|>",
                                         "1 a",     "1 \u2581", "3 <|endoftext|>"};
    static const struct {
        const char *name, *user, *others;
    } row[] = {{"Phi-3-mini", "3 4", "1 5 5 4 6 5 4"},
               {"my phi3 merge", "3 4", "1 5 5 4 6 5 4"},
               {"Phi 2", "3 5 5 4", "1 5 5 4 6 5 4"}};
    for (size_t i = 0; i < COUNT(row); i++) {
        Builder b;
        Error e;
        MODEL(&b, "llama", tokens);
        bool_key(&b, "add_space_prefix", false);
        text_key(&b, "general.name", row[i].name);
        Tokenizer *t = open_built(&b, &e);
        if (!t) fail_msg("%s", e.text);
        assert_ids(t, "<|user|>  a", TOKENIZE_SPECIAL, row[i].user);
        assert_ids(t, "<s>  a<|endoftext|> a", TOKENIZE_SPECIAL, row[i].others);
        tokenizer_close(t);
    }
}

/* Ids of a long text by score and by rank, however it is cut, are those of its parts. */
static void long_scored_text(void **state) {
    (void)state;
    Builder b;
    Error e;
    MODEL(&b, "llama", SCORED);
    bool_key(&b, "add_space_prefix", false);
    Tokenizer *t = open_built(&b, &e);
    enum { N = 100000 };
    char *text = malloc(4 * N);
    for (int i = 0; i < N; i++) memcpy(text + 4 * i, "ab x", 4);
    int *ids, n;
    assert_int_equal(tokenizer_encode(t, text, 4 * N, 0, &ids, &n, &e), 0);
    assert_int_equal(n, 2 * N);
    for (int i = 0; i < n; i += 2) assert_true(ids[i] == 6 && ids[i + 1] == 11);
    free(ids);
    free(text);
    tokenizer_close(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pre_tokenizers),
        cmocka_unit_test(every_pre_tokenizer),
        cmocka_unit_test(cuts),
        cmocka_unit_test(long_runs_of_digits),
        cmocka_unit_test(scored_vocabulary),
        cmocka_unit_test(end_tokens),
        cmocka_unit_test(gemma4),
        cmocka_unit_test(unigram_and_wordpiece),
        cmocka_unit_test(charsmap),
        cmocka_unit_test(phi3),
        cmocka_unit_test(long_scored_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
