#include "tokenizer/pre.h"

#include <string.h>

#include "tokenizer/pretokenize.h"

/* Parts that many expressions share. */
#define SUFFIXES "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WORD     "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define SIGNS    " ?[^\\s\\p{L}\\p{N}]+"
#define LINES    "\\s*[\\r\\n]+"
#define SPACES   "\\s+(?!\\S)|\\s+"

/* One word whose capitals come first, as in o200k_base. */
#define UPPER      "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER      "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(end) "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" end "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" end
#define O200K      CASED(SUFFIXES "?") "|\\p{N}{1,3}|" SIGNS "[\\r\\n/]*|" LINES "|" SPACES

/* The same without Han, which is a word by itself. */
#define KIMI_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
#define KIMI_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"

/* Digits in threes from the right: first what is too much on the left of a run, then threes. Written so that a run is
 * looked at once. */
#define LEFT_DIGITS(digit) "\\A" digit "{1,2}(?=(?:" digit "{3})+\\z)"

#define CJK           "[一-龥぀-ゟ゠-ヿ]+"
#define PUNCTUATION   "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~]"
#define DEEPSEEK_WORD PUNCTUATION "[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+"
#define ASIAN         "[一-龥ࠀ-一가-퟿]+"

#define GPT2   GPT2_PATTERN
#define LLAMA3 SUFFIXES "|" WORD "|\\p{N}{1,3}|" SIGNS "[\\r\\n]*|" LINES "|" SPACES
#define QWEN2  SUFFIXES "|" WORD "|\\p{N}|" SIGNS "[\\r\\n]*|" LINES "|" SPACES
#define BLOOM  " ?[^(\\s|.,!?…。，、।۔،)]+"
#define RUNS   "[^\\n]+|[\\n]+"

typedef const char *const Expressions[PRE_EXPRESSIONS];

static Expressions unsaid = {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"};
static Expressions gpt2 = {GPT2};
static Expressions digits_gpt2 = {"\\p{N}", GPT2};
static Expressions llama3 = {LLAMA3};
static Expressions qwen2 = {QWEN2};
static Expressions qwen35 = {SUFFIXES "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+"
                                      "[\\r\\n]*|" LINES "|" SPACES};
static Expressions jais2 = {
    SUFFIXES "|" WORD "|\\p{N}{1,3}|" SIGNS "[\\r\\n]*|" LINES "|\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|"
             "\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s{1}"};
static Expressions deepseek_llm = {
    "[\\r\\n]",
    "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-"
    "ᏽᲐ-"
    "ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-"
    "ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐ"
    "ῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-"
    "ꚛꜢ-"
    "ꝯꝱ-"
    "ꞇꞋ-"
    "ꞎꭰ-"
    "ꮿﬀ-"
    "ﬆﬓ-"
    "ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-"
    "𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+",
    "\\s?[!-/:-~！-／：-～‘-‟　-。]+",
    "\\s+$",
    ASIAN,
    "\\p{N}+"};
static Expressions deepseek_coder = {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", ASIAN, "\\p{N}"};
static Expressions deepseek_v3 = {"\\p{N}{1,3}", CJK, DEEPSEEK_WORD "[\\r\\n]*|" LINES "|" SPACES};
static Expressions spark = {"\\p{N}{1,3}", CJK, DEEPSEEK_WORD "|[\\r\\n]|" SPACES, "\\p{N}"};
static Expressions youtu = {"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|" CJK,
                            CASED(SUFFIXES "?") "|\\p{N}|" SIGNS "[\\r\\n/]*|" LINES "|" SPACES};
static Expressions falcon = {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"};
static Expressions bloom = {BLOOM};
static Expressions viking = {BLOOM, "\\p{N}"};
static Expressions tekken = {CASED("") "|\\p{N}|" SIGNS "[\\r\\n/]*|" LINES "|" SPACES};
static Expressions chameleon = {"<sentinel:[0-9]+>",      "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
                                "([\\t\\n]|    |  )",     "\\p{N}",
                                "[\\p{P}!-/:-@\\[-`{-~]", GPT2};
static Expressions o200k = {O200K};
static Expressions tiny_aya = {"(?<!\\d)\\d++\\b", LEFT_DIGITS("\\d"), O200K};
static Expressions kimi = {"\\p{Han}+|[^\\r\\n\\p{L}\\p{N}]?" KIMI_UPPER "*" KIMI_LOWER "+" SUFFIXES
                           "?|[^\\r\\n\\p{L}\\p{N}]?" KIMI_UPPER "+" KIMI_LOWER "*" SUFFIXES "?|\\p{N}{1,3}|" SIGNS
                           "[\\r\\n]*|" LINES "|" SPACES};
static Expressions superbpe = {"\\p{N}+", LEFT_DIGITS("\\d"), "\\d{3}"};
static Expressions bailing = {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++"
                              "[\\r\\n]*|\\s*[\\r\\n]|" SPACES};
static Expressions seed_coder = {SUFFIXES "|" WORD "|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" LINES "|" SPACES};
static Expressions ufakzeka = {WORD "|\\p{N}|" SIGNS "[\\r\\n]*|" LINES "|" SPACES};
static Expressions afmoe = {
    "\\p{N}+", LEFT_DIGITS("\\p{N}"), "\\p{N}{3}",
    "[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+",
    DEEPSEEK_WORD "[\\r\\n]*|" LINES "|" SPACES};
static Expressions laguna = {RUNS, QWEN2};
static Expressions exaone_moe = {SUFFIXES "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}|" SIGNS
                                          "[\\r\\n/]?|\\s*[\\r\\n]|" SPACES};
static Expressions runs = {RUNS};
static Expressions minicpm5 = {"\\p{N}{1,3}", SUFFIXES "|" WORD "|\\p{N}+|" SIGNS "[\\r\\n]*|" LINES "|" SPACES};

static const Pre ROWS[] = {
    {"default", unsaid, 0},
    {"gpt-2", gpt2, 0},
    {"gpt2", gpt2, 0},
    {"phi-2", gpt2, 0},
    {"jina-es", gpt2, 0},
    {"jina-de", gpt2, 0},
    {"jina-v1-en", gpt2, 0},
    {"jina-v2-es", gpt2, 0},
    {"jina-v2-de", gpt2, 0},
    {"jina-v2-code", gpt2, 0},
    {"roberta-bpe", gpt2, 0},
    {"gigachat", gpt2, 0},
    {"a.x-4.0", gpt2, 0},
    {"mellum", gpt2, 0},
    {"modern-bert", gpt2, 0},
    {"mpt", gpt2, 0},
    {"olmo", gpt2, 0},
    {"jais", gpt2, 0},
    {"exaone4", gpt2, 0},
    {"trillion", gpt2, 0},
    {"granite-docling", gpt2, 0},
    {"starcoder", digits_gpt2, 0},
    {"refact", digits_gpt2, 0},
    {"command-r", digits_gpt2, 0},
    {"smollm", digits_gpt2, 0},
    {"codeshell", digits_gpt2, 0},
    {"exaone", digits_gpt2, 0},
    {"minerva-7b", digits_gpt2, 0},
    {"mellum2", digits_gpt2, 0},
    {"llama3", llama3, PRE_WHOLE_WORDS | PRE_BOS},
    {"llama-v3", llama3, PRE_WHOLE_WORDS | PRE_BOS},
    {"llama-bpe", llama3, PRE_WHOLE_WORDS | PRE_BOS},
    {"falcon3", llama3, PRE_WHOLE_WORDS | PRE_BOS},
    {"falcon-h1", llama3, PRE_WHOLE_WORDS | PRE_BOS},
    {"pixtral", llama3, PRE_WHOLE_WORDS | PRE_BOS},
    {"midm-2.0", llama3, PRE_WHOLE_WORDS | PRE_BOS},
    {"lfm2", llama3, PRE_WHOLE_WORDS | PRE_BOS},
    {"jina-v5-nano", llama3, PRE_WHOLE_WORDS | PRE_BOS},
    {"dbrx", llama3, 0},
    {"smaug-bpe", llama3, 0},
    {"chatglm-bpe", llama3, PRE_NO_BOS_ID},
    {"glm4", llama3, PRE_NO_BOS_ID | PRE_WHOLE_WORDS},
    {"glm5", llama3, PRE_NO_BOS_ID | PRE_WHOLE_WORDS},
    {"jais-2", jais2, 0},
    {"minicpm5", minicpm5, PRE_WHOLE_WORDS},
    {"qwen2", qwen2, PRE_NFC},
    {"deepseek-r1-qwen", qwen2, 0},
    {"kormo", qwen2, 0},
    {"f2llmv2", qwen2, 0},
    {"stablelm2", qwen2, 0},
    {"megrez", qwen2, 0},
    {"hunyuan", qwen2, 0},
    {"solar-open", qwen2, 0},
    {"grok-2", qwen2, 0},
    {"qwen35", qwen35, 0},
    {"ufakzeka", ufakzeka, 0},
    {"laguna", laguna, 0},
    {"deepseek-llm", deepseek_llm, 0},
    {"deepseek-coder", deepseek_coder, 0},
    {"deepseek-v3", deepseek_v3, 0},
    {"hunyuan-dense", deepseek_v3, 0},
    {"joyai-llm", deepseek_v3, 0},
    {"hy_v4", deepseek_v3, 0},
    {"spark2_5", spark, 0},
    {"youtu", youtu, PRE_WHOLE_WORDS},
    {"falcon", falcon, 0},
    {"bloom", bloom, 0},
    {"poro-chat", bloom, 0},
    {"gpt3-finnish", bloom, 0},
    {"viking", viking, 0},
    {"tekken", tekken, PRE_WHOLE_WORDS | PRE_BOS},
    {"chameleon", chameleon, PRE_BOS},
    {"gpt-4o", o200k, 0},
    {"llama4", o200k, 0},
    {"kanana2", o200k, 0},
    {"talkie", o200k, 0},
    {"minimax-m2", o200k, 0},
    {"granite-embed-multi-97m", o200k, PRE_WHOLE_WORDS},
    {"tiny_aya", tiny_aya, 0},
    {"cohere2moe", tiny_aya, 0},
    {"kimi-k2", kimi, PRE_NO_MERGES},
    {"superbpe", superbpe, 0},
    {"bailingmoe", bailing, 0},
    {"bailingmoe2", bailing, 0},
    {"llada-moe", bailing, 0},
    {"seed-coder", seed_coder, 0},
    {"afmoe", afmoe, 0},
    {"exaone-moe", exaone_moe, 0},
    {"gemma4", runs, PRE_METASPACE | PRE_BOS},
    {"granite-embed-multi-311m", runs, PRE_METASPACE | PRE_BOS},
    {"sarvam-moe", runs, PRE_METASPACE},
};

const Pre *pre_find(const char *name, size_t n) {
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        if (strlen(ROWS[i].name) == n && memcmp(ROWS[i].name, name, n) == 0) return &ROWS[i];
    return NULL;
}

const Pre *pre_at(int i) { return i < (int)(sizeof ROWS / sizeof *ROWS) ? &ROWS[i] : NULL; }
