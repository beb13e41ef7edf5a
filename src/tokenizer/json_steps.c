#include "tokenizer/json_steps.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

const cJSON *json_get(const cJSON *object, const char *key) {
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(object, key);
    return found && cJSON_IsNull(found) ? NULL : found;
}

const char *json_text(const cJSON *object, const char *key) {
    const cJSON *found = json_get(object, key);
    return cJSON_IsString(found) ? found->valuestring : NULL;
}

typedef struct {
    const char *type;
    int (*read)(void *into, const cJSON *step, const char *file, Error *e);
} StepKind;

/* The steps of a part called `name`, which may be a Sequence with its steps in `list`; kinds ends with a NULL. */
static int read_steps(void *into, const cJSON *part, const char *name, const char *list, const StepKind *kinds,
                      const char *file, Error *e) {
    if (!part) return 0;
    const char *type = json_text(part, "type");
    if (type && strcmp(type, "Sequence") == 0) {
        const cJSON *steps = json_get(part, list), *step;
        if (!cJSON_IsArray(steps)) return fail(e, "%s: Sequence: expected an array %s, found none", file, list);
        cJSON_ArrayForEach(step, steps) if (read_steps(into, step, name, list, kinds, file, e)) return -1;
        return 0;
    }
    for (; type && kinds->type; kinds++)
        if (strcmp(type, kinds->type) == 0) return kinds->read(into, part, file, e);
    return fail(e, "%s: %s: expected a type that tokenizers has, found %.60s", file, name, type ? type : "none");
}

static int no_memory(const char *file, Error *e) { return fail(e, "%s: memory: expected some, found none", file); }

/* A pattern is {"String": text} or {"Regex": expression}. */
static const char *pattern_of(const cJSON *step, bool *literal) {
    const char *regex = json_text(json_get(step, "pattern"), "Regex");
    *literal = !regex;
    return regex ? regex : json_text(json_get(step, "pattern"), "String");
}

/* One character, of 1 to 4 bytes, into out. */
static int one_char(char out[8], const cJSON *step, const char *key, const char *part, const char *file, Error *e) {
    const char *text = json_text(step, key);
    size_t n = text ? strlen(text) : 0;
    if (n == 0 || utf8_length(text, n) != n)
        return fail(e, "%s: %s: %s: expected one character, found \"%.60s\"", file, part, key, text ? text : "");
    memcpy(out, text, n + 1);
    return 0;
}

/* ---- normalizers ---- */

static int add_form(void *z, NormalForm form, const char *file, Error *e) {
    return normalizer_add(z, (NormalizeStep){.kind = NORMALIZE_FORM, .form = form}, file, e);
}

static int add_plain(void *z, NormalizeKind kind, const char *file, Error *e) {
    return normalizer_add(z, (NormalizeStep){.kind = kind}, file, e);
}

#define PLAIN(name, call)                                                                                              \
    static int name(void *into, const cJSON *step, const char *file, Error *e) {                                       \
        (void)step;                                                                                                    \
        return call;                                                                                                   \
    }
PLAIN(read_nfc, add_form(into, FORM_NFC, file, e))
PLAIN(read_nfd, add_form(into, FORM_NFD, file, e))
PLAIN(read_nfkc, add_form(into, FORM_NFKC, file, e))
PLAIN(read_nfkd, add_form(into, FORM_NFKD, file, e))
PLAIN(read_lowercase, add_plain(into, NORMALIZE_LOWERCASE, file, e))
PLAIN(read_strip_accents, add_plain(into, NORMALIZE_DROP_MARKS, file, e))
PLAIN(read_nmt, add_plain(into, NORMALIZE_NMT, file, e))
PLAIN(read_letters, add_plain(into, NORMALIZE_LETTERS, file, e))

static int read_prepend(void *z, const cJSON *step, const char *file, Error *e) {
    const char *text = json_text(step, "prepend");
    if (!text) return fail(e, "%s: normalizer Prepend: expected a text, found none", file);
    NormalizeStep prepend = {.kind = NORMALIZE_PREPEND, .text = strdup(text), .n = strlen(text)};
    return prepend.text ? normalizer_add(z, prepend, file, e) : no_memory(file, e);
}

static int read_replace(void *z, const cJSON *step, const char *file, Error *e) {
    char what[256];
    bool literal;
    const char *pattern = pattern_of(step, &literal), *text = json_text(step, "content");
    if (!pattern || !text)
        return fail(e, "%s: normalizer Replace: expected a pattern and a content, found something else", file);
    snprintf(what, sizeof what, "%s: normalizer Replace", file);
    NormalizeStep replace = {.kind = NORMALIZE_REPLACE, .n = strlen(text)};
    replace.match = regex_new(pattern, strlen(pattern), literal, what, e);
    if (!replace.match) return -1;
    if (!(replace.text = strdup(text))) {
        regex_free(replace.match);
        return no_memory(file, e);
    }
    return normalizer_add(z, replace, file, e);
}

static int read_strip(void *z, const cJSON *step, const char *file, Error *e) {
    NormalizeStep strip = {.kind = NORMALIZE_STRIP};
    if (json_bool(&strip.left, step, "strip_left", file, e) || json_bool(&strip.right, step, "strip_right", file, e))
        return -1;
    return normalizer_add(z, strip, file, e);
}

static int read_charsmap(void *z, const cJSON *step, const char *file, Error *e) {
    const char *map = json_text(step, "precompiled_charsmap");
    NormalizeStep charsmap = {.kind = NORMALIZE_CHARSMAP};
    if (!map) return fail(e, "%s: normalizer Precompiled: expected a precompiled_charsmap, found none", file);
    if (!*map) return 0; /* the identity */
    if (charsmap_init(&charsmap.charsmap, map, strlen(map), file, e)) {
        charsmap_close(&charsmap.charsmap);
        return -1;
    }
    return normalizer_add(z, charsmap, file, e);
}

static int read_bert(void *z, const cJSON *step, const char *file, Error *e) {
    bool clean = true, chinese = true, lower = true;
    if (json_bool(&clean, step, "clean_text", file, e) || json_bool(&chinese, step, "handle_chinese_chars", file, e) ||
        json_bool(&lower, step, "lowercase", file, e))
        return -1;
    bool accents = lower; /* null: as lowercase */
    if (json_bool(&accents, step, "strip_accents", file, e)) return -1;
    NormalizeStep marks = {.kind = NORMALIZE_DROP_MARKS, .only_nonspacing = true};
    if ((clean && add_plain(z, NORMALIZE_CLEAN, file, e)) ||
        (chinese && add_plain(z, NORMALIZE_SPACE_CHINESE, file, e)) ||
        (accents && (add_form(z, FORM_NFD, file, e) || normalizer_add(z, marks, file, e))) ||
        (lower && add_plain(z, NORMALIZE_LOWERCASE, file, e)))
        return -1;
    return 0;
}

int read_normalizer(Normalizer *z, const cJSON *part, const char *file, Error *e) {
    static const StepKind kinds[] = {{"NFC", read_nfc},
                                     {"NFD", read_nfd},
                                     {"NFKC", read_nfkc},
                                     {"NFKD", read_nfkd},
                                     {"Lowercase", read_lowercase},
                                     {"Strip", read_strip},
                                     {"StripAccents", read_strip_accents},
                                     {"Nmt", read_nmt},
                                     {"Replace", read_replace},
                                     {"Prepend", read_prepend},
                                     {"Precompiled", read_charsmap},
                                     {"BertNormalizer", read_bert},
                                     {"ByteLevel", read_letters},
                                     {NULL, NULL}};
    return read_steps(z, part, "normalizer", "normalizers", kinds, file, e);
}

/* ---- pre-tokenizers ---- */

static int split_at(void *p, const char *expression, Behavior behavior, bool invert, const char *file, Error *e) {
    return pretokenizer_add(p, expression, strlen(expression), (Split){behavior, invert, false}, file, e);
}

static int read_behavior(Behavior *b, const cJSON *step, const char *part, const char *file, Error *e) {
    static const char *const names[] = {[SPLIT_ISOLATED] = "Isolated",
                                        [SPLIT_REMOVED] = "Removed",
                                        [SPLIT_CONTIGUOUS] = "Contiguous",
                                        [SPLIT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
                                        [SPLIT_MERGED_WITH_NEXT] = "MergedWithNext"};
    const char *found = json_text(step, "behavior");
    for (size_t i = 0; found && i < sizeof names / sizeof *names; i++) {
        if (strcmp(found, names[i]) != 0) continue;
        *b = (Behavior)i;
        return 0;
    }
    return fail(e,
                "%s: pre_tokenizer %s behavior: expected Isolated, Removed, Contiguous, MergedWithPrevious or "
                "MergedWithNext, found %.60s",
                file, part, found ? found : "none");
}

static int read_split(void *p, const cJSON *step, const char *file, Error *e) {
    Split split = {0};
    const char *pattern = pattern_of(step, &split.literal);
    if (json_bool(&split.invert, step, "invert", file, e) || read_behavior(&split.behavior, step, "Split", file, e))
        return -1;
    if (!pattern) return fail(e, "%s: pre_tokenizer Split: expected a pattern, found none", file);
    return pretokenizer_add(p, pattern, strlen(pattern), split, file, e);
}

static int read_byte_level(void *p, const cJSON *step, const char *file, Error *e) {
    bool add_space = true, use_regex = true;
    CutStep prefix = {.kind = CUT_PREFIX, .text = " ", .scheme = PREFIX_ALWAYS}, letters = {.kind = CUT_LETTERS};
    if (json_bool(&add_space, step, "add_prefix_space", file, e) || json_bool(&use_regex, step, "use_regex", file, e) ||
        (add_space && pretokenizer_add_step(p, prefix, file, e)) ||
        (use_regex && split_at(p, GPT2_PATTERN, SPLIT_ISOLATED, false, file, e)))
        return -1;
    return pretokenizer_add_step(p, letters, file, e);
}

/* Whether ▁ is put first: "always", "first" or "never"; older files have add_prefix_space instead. */
static int read_scheme(PrefixScheme *scheme, const cJSON *step, const char *file, Error *e) {
    static const char *const names[] = {[PREFIX_NEVER] = "never", [PREFIX_FIRST] = "first", [PREFIX_ALWAYS] = "always"};
    const char *found = json_text(step, "prepend_scheme");
    bool add = true;
    if (json_bool(&add, step, "add_prefix_space", file, e)) return -1;
    *scheme = add ? PREFIX_ALWAYS : PREFIX_NEVER;
    for (int i = 0; found && i < 3; i++) {
        if (strcmp(found, names[i]) != 0) continue;
        *scheme = (PrefixScheme)i;
        return 0;
    }
    if (!found) return 0;
    return fail(e, "%s: Metaspace prepend_scheme: expected always, first or never, found %.60s", file, found);
}

static int read_metaspace(void *p, const cJSON *step, const char *file, Error *e) {
    CutStep respell = {.kind = CUT_RESPELL}, prefix = {.kind = CUT_PREFIX};
    Split split = {SPLIT_MERGED_WITH_NEXT, false, true};
    bool splits = true;
    if (json_bool(&splits, step, "split", file, e) ||
        one_char(respell.text, step, "replacement", "pre_tokenizer Metaspace", file, e) ||
        read_scheme(&prefix.scheme, step, file, e))
        return -1;
    memcpy(prefix.text, respell.text, sizeof prefix.text);
    if (pretokenizer_add_step(p, respell, file, e) || pretokenizer_add_step(p, prefix, file, e)) return -1;
    return splits ? pretokenizer_add(p, respell.text, strlen(respell.text), split, file, e) : 0;
}

static int read_digits(void *p, const cJSON *step, const char *file, Error *e) {
    bool individual = false;
    if (json_bool(&individual, step, "individual_digits", file, e)) return -1;
    return split_at(p, individual ? "\\p{N}" : "\\p{N}+", SPLIT_ISOLATED, false, file, e);
}

#define PUNCTUATION "[\\p{P}$+<=>^`|~]"

static int read_punctuation(void *p, const cJSON *step, const char *file, Error *e) {
    Behavior behavior = SPLIT_ISOLATED;
    if (json_get(step, "behavior") && read_behavior(&behavior, step, "Punctuation", file, e)) return -1;
    return split_at(p, PUNCTUATION, behavior, false, file, e);
}

/* \w+|[^\w\s]+ as the crate regex means it. */
#define RUST_WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\u200c\\u200d"
PLAIN(read_whitespace, split_at(into, "[" RUST_WORD "]+|[^" RUST_WORD "\\s]+", SPLIT_REMOVED, true, file, e))
PLAIN(read_whitespace_split, split_at(into, "\\s", SPLIT_REMOVED, false, file, e))
PLAIN(read_bert_cuts, split_at(into, "\\s", SPLIT_REMOVED, false, file, e) ||
                              split_at(into, PUNCTUATION, SPLIT_ISOLATED, false, file, e)
                          ? -1
                          : 0)

static int read_char_delimiter(void *p, const cJSON *step, const char *file, Error *e) {
    char c[8];
    if (one_char(c, step, "delimiter", "pre_tokenizer CharDelimiterSplit", file, e)) return -1;
    return pretokenizer_add(p, c, strlen(c), (Split){SPLIT_REMOVED, false, true}, file, e);
}

static int read_fixed_length(void *p, const cJSON *step, const char *file, Error *e) {
    char expression[32];
    int length = 5;
    if (json_int(&length, step, "length", 1, 100000, file, e)) return -1; /* Oniguruma counts no further */
    snprintf(expression, sizeof expression, "(?m:.{1,%d})", length);
    return split_at(p, expression, SPLIT_ISOLATED, false, file, e);
}

/* Each character belongs to a script (kana to Han), a space to that before it, and a word has one script. (The
 * library's table is older: what Unicode 11 and later added belongs to no script there.) */
static int read_scripts(void *p, const cJSON *step, const char *file, Error *e) {
    static const char names[] =
        "Adlam Ahom AnatolianHieroglyphs Arabic Armenian Avestan Balinese Bamum BassaVah Batak Bengali "
        "Bhaiksuki Bopomofo Brahmi Braille Buginese Buhid CanadianAboriginal Carian CaucasianAlbanian "
        "Chakma Cham Cherokee Coptic Cuneiform Cypriot Cyrillic Deseret Devanagari Duployan "
        "EgyptianHieroglyphs Elbasan Ethiopic Georgian Glagolitic Gothic Grantha Greek Gujarati Gurmukhi "
        "Hangul Hanunoo Hatran Hebrew ImperialAramaic Inherited InscriptionalPahlavi "
        "InscriptionalParthian Javanese Kaithi Kannada KayahLi Kharoshthi Khmer Khojki Khudawadi Lao "
        "Latin Lepcha Limbu LinearA LinearB Lisu Lycian Lydian Mahajani Malayalam Mandaic Manichaean "
        "Marchen MeeteiMayek MendeKikakui MeroiticCursive MeroiticHieroglyphs Miao Modi Mongolian Mro "
        "Multani Myanmar Nabataean NewTaiLue Newa Nko Ogham OlChiki OldHungarian OldItalic "
        "OldNorthArabian OldPermic OldPersian OldSouthArabian OldTurkic Oriya Osage Osmanya PahawhHmong "
        "Palmyrene PauCinHau PhagsPa Phoenician PsalterPahlavi Rejang Runic Samaritan Saurashtra Sharada "
        "Shavian Siddham SignWriting Sinhala SoraSompeng Sundanese SylotiNagri Syriac Tagalog Tagbanwa "
        "TaiLe TaiTham TaiViet Takri Tamil Tangut Telugu Thaana Thai Tibetan Tifinagh Tirhuta Ugaritic "
        "Vai WarangCiti Yi";
    static const char first[] =
        "[\\p{Han}\\p{Hiragana}\\p{Katakana}ー][\\p{Han}\\p{Hiragana}\\p{Katakana}ー \\p{Unknown}]*|"
        "[\\p{Common}&&[^ー ]](?:[\\p{Common}\\p{Unknown}&&[^ー]])*";
    char expression[sizeof first + 5 * sizeof names]; /* 128 names of 8 letters become 36 bytes each */
    size_t n = (size_t)snprintf(expression, sizeof expression, "%s", first);
    (void)step;
    for (const char *name = names; *name && n < sizeof expression; name += strspn(name, " ")) {
        int length = (int)strcspn(name, " ");
        n += (size_t)snprintf(expression + n, sizeof expression - n, "|\\p{%.*s}[\\p{%.*s}\\p{Unknown} ]*", length,
                              name, length, name);
        name += length;
    }
    return split_at(p, expression, SPLIT_REMOVED, true, file, e);
}

int read_pre_tokenizer(Pretokenizer *p, const cJSON *part, const char *file, Error *e) {
    static const StepKind kinds[] = {{"ByteLevel", read_byte_level},
                                     {"Split", read_split},
                                     {"Digits", read_digits},
                                     {"Metaspace", read_metaspace},
                                     {"Punctuation", read_punctuation},
                                     {"Whitespace", read_whitespace},
                                     {"WhitespaceSplit", read_whitespace_split},
                                     {"BertPreTokenizer", read_bert_cuts},
                                     {"CharDelimiterSplit", read_char_delimiter},
                                     {"FixedLength", read_fixed_length},
                                     {"UnicodeScripts", read_scripts},
                                     {NULL, NULL}};
    return read_steps(p, part, "pre_tokenizer", "pretokenizers", kinds, file, e);
}

/* ---- decoders ---- */

/* A step with a text of its own. */
static int add_text(void *d, DecodeStep step, const char *text, const char *file, Error *e) {
    step.n = strlen(text);
    if (!(step.text = strdup(text))) {
        regex_free(step.match);
        return no_memory(file, e);
    }
    return decoder_add(d, step, file, e);
}

PLAIN(decode_letters, decoder_add(into, (DecodeStep){.kind = DECODE_LETTERS}, file, e))
PLAIN(decode_bytes, decoder_add(into, (DecodeStep){.kind = DECODE_BYTES}, file, e))
PLAIN(decode_fuse, decoder_add(into, (DecodeStep){.kind = DECODE_FUSE}, file, e))

static int decode_replace(void *d, const cJSON *step, const char *file, Error *e) {
    char what[256];
    bool literal;
    const char *pattern = pattern_of(step, &literal), *text = json_text(step, "content");
    if (!pattern || !text)
        return fail(e, "%s: decoder Replace: expected a pattern and a content, found something else", file);
    snprintf(what, sizeof what, "%s: decoder Replace", file);
    size_t n = strlen(pattern);
    DecodeStep replace = {.kind = DECODE_REPLACE, .one_char = literal && n && utf8_length(pattern, n) == n};
    if (!(replace.match = regex_new(pattern, n, literal, what, e))) return -1;
    return add_text(d, replace, text, file, e);
}

static int decode_strip(void *d, const cJSON *step, const char *file, Error *e) {
    DecodeStep strip = {.kind = DECODE_STRIP};
    char c[8];
    if (json_int(&strip.start, step, "start", 0, INT_MAX, file, e) ||
        json_int(&strip.stop, step, "stop", 0, INT_MAX, file, e) ||
        one_char(c, step, "content", "decoder Strip", file, e))
        return -1;
    return add_text(d, strip, c, file, e);
}

static int decode_metaspace(void *d, const cJSON *step, const char *file, Error *e) {
    PrefixScheme scheme;
    char c[8];
    if (one_char(c, step, "replacement", "decoder Metaspace", file, e) || read_scheme(&scheme, step, file, e))
        return -1;
    return add_text(d, (DecodeStep){.kind = DECODE_METASPACE, .drops_first = scheme != PREFIX_NEVER}, c, file, e);
}

static int decode_wordpiece(void *d, const cJSON *step, const char *file, Error *e) {
    DecodeStep wordpiece = {.kind = DECODE_WORDPIECE, .cleanup = true};
    const char *prefix = json_text(step, "prefix");
    if (json_bool(&wordpiece.cleanup, step, "cleanup", file, e)) return -1;
    return add_text(d, wordpiece, prefix ? prefix : "##", file, e);
}

static int decode_suffix(void *d, const cJSON *step, const char *file, Error *e) {
    const char *suffix = json_text(step, "suffix");
    if (suffix && !*suffix) return fail(e, "%s: decoder BPEDecoder: suffix: expected a text, found none", file);
    return add_text(d, (DecodeStep){.kind = DECODE_SUFFIX}, suffix ? suffix : "</w>", file, e);
}

int read_decoder(Decoder *d, const cJSON *part, const char *file, Error *e) {
    static const StepKind kinds[] = {
        {"ByteLevel", decode_letters},   {"ByteFallback", decode_bytes}, {"Fuse", decode_fuse},
        {"Replace", decode_replace},     {"Strip", decode_strip},        {"Metaspace", decode_metaspace},
        {"WordPiece", decode_wordpiece}, {"BPEDecoder", decode_suffix},  {NULL, NULL}};
    d->spaced = !part;
    return read_steps(d, part, "decoder", "decoders", kinds, file, e);
}

/* ---- post-processors ---- */

typedef struct {
    int *ids[2], *n[2]; /* before the text, behind it */
    int max, n_vocab;
    int at; /* where the next id before the text goes: those of a later processor come before the others */
} Around;

static int add_around(Around *a, int side, const cJSON *id, const char *name, const char *file, Error *e) {
    if (!cJSON_IsNumber(id) || id->valuedouble != id->valueint || id->valueint < 0 || id->valueint >= a->n_vocab)
        return fail(e, "%s: post_processor: expected ids of the vocabulary, found \"%.60s\"", file,
                    name ? name : "none");
    if (*a->n[side] == a->max)
        return fail(e, "%s: post_processor: expected at most %d tokens around a text, found more", file, a->max);
    int *ids = a->ids[side], at = side ? *a->n[side] : a->at++;
    memmove(ids + at + 1, ids + at, (size_t)(*a->n[side] - at) * sizeof *ids);
    ids[at] = id->valueint;
    ++*a->n[side];
    return 0;
}

static int read_template(void *around, const cJSON *step, const char *file, Error *e) {
    const cJSON *piece, *id;
    int side = 0;
    ((Around *)around)->at = 0;
    cJSON_ArrayForEach(piece, json_get(step, "single")) {
        const cJSON *special = json_get(piece, "SpecialToken");
        const char *name = json_text(special, "id");
        if (!special) {
            const char *which = json_text(json_get(piece, "Sequence"), "id");
            if (side || !which || strcmp(which, "A") != 0)
                return fail(e, "%s: post_processor: expected the text A once, found another piece", file);
            side = 1;
            continue;
        }
        const cJSON *ids = name ? json_get(json_get(json_get(step, "special_tokens"), name), "ids") : NULL;
        if (!cJSON_IsArray(ids)) return add_around(around, side, NULL, name, file, e);
        cJSON_ArrayForEach(id, ids) if (add_around(around, side, id, name, file, e)) return -1;
    }
    return side ? 0 : fail(e, "%s: post_processor: expected the text A, found none", file);
}

/* [text, id] in "cls" and "sep". */
static int read_cls_sep(void *around, const cJSON *step, const char *file, Error *e) {
    static const char *const keys[] = {"cls", "sep"};
    ((Around *)around)->at = 0;
    for (int side = 0; side < 2; side++)
        if (add_around(around, side, cJSON_GetArrayItem(json_get(step, keys[side]), 1), keys[side], file, e)) return -1;
    return 0;
}

PLAIN(read_nothing, ((void)into, (void)file, (void)e, 0)) /* ByteLevel: it only moves offsets */

int read_post_processor(int *before, int *n_before, int *after, int *n_after, int max, int n_vocab, const cJSON *part,
                        const char *file, Error *e) {
    static const StepKind kinds[] = {{"TemplateProcessing", read_template},
                                     {"BertProcessing", read_cls_sep},
                                     {"RobertaProcessing", read_cls_sep},
                                     {"ByteLevel", read_nothing},
                                     {NULL, NULL}};
    Around around = {{before, after}, {n_before, n_after}, max, n_vocab, 0};
    return read_steps(&around, part, "post_processor", "processors", kinds, file, e);
}
