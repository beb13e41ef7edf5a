#include "gen/options.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/mistake.h"

typedef enum { FLAG, TEXT, INTEGER, NUMBER, SEED, CHOICE, STOP, TOKENS, PENALTY, MISTAKE } Kind;

typedef struct {
    char brief; /* 0: none */
    const char *name;
    Kind kind;
    size_t offset;
    double min, max;     /* INTEGER, NUMBER */
    const char *choices; /* CHOICE: "a|b|c", stored as its number */
    const char *help;
} Flag;

#define AT(field) offsetof(Options, field)
static const Flag flags[] = {
    {'m', "mode", TEXT, AT(mode), 0, 0, NULL, "MODE  what to do, see below"},
    {'i', "prompt", TEXT, AT(prompt), 0, 0, NULL, "TEXT  prompt"},
    {'f', "file", TEXT, AT(prompt_file), 0, 0, NULL, "PATH  prompt from a file; '-' is standard input"},
    {'n', "steps", INTEGER, AT(steps), 0, INT_MAX, NULL,
     "N     new tokens at most, default 256; 0: until the context is full"},
    {'t', "temperature", NUMBER, AT(sampler.temperature), 0, 1e6, NULL, "X     default 1.0; 0 is greedy"},
    {'p', "top-p", NUMBER, AT(sampler.top_p), 0, 1, NULL,
     "X     smallest set of tokens that holds this probability, default 0.9"},
    {0, "top-k", INTEGER, AT(sampler.top_k), 0, INT_MAX, NULL, "N     only the N likeliest tokens; 0: off"},
    {0, "min-p", NUMBER, AT(sampler.min_p), 0, 1, NULL,
     "X     only tokens with X times the largest probability; 0: off"},
    {0, "repeat-penalty", PENALTY, AT(sampler.repeat_penalty), 0, 1e6, NULL,
     "X     divides the logits of recent tokens; 1: off"},
    {0, "repeat-last", INTEGER, AT(sampler.repeat_last), 0, INT_MAX, NULL,
     "N     tokens that the penalty looks back on, default 64"},
    {0, "stop", STOP, 0, 0, 0, NULL, "TEXT  end before this text (repeatable)"},
    {'s', "seed", SEED, 0, 0, 0, NULL, "N     any 64-bit number; without it a fresh one, printed"},
    {'z', "tokenizer", TEXT, AT(tokenizer), 0, 0, NULL,
     "PATH  tokenizer.bin, sentencepiece .model, tokenizer.json or a directory"},
    {'y', "system", TEXT, AT(system), 0, 0, NULL, "TEXT  system prompt in chat"},
    {0, "chat-template", TEXT, AT(chat_template), 0, 0, NULL,
     "NAME  or FILE  chat template in place of the model's own"},
    {'j', "threads", INTEGER, AT(threads), 1, 1024, NULL, "N     default: physical cores this process may use"},
    {'c', "ctx", INTEGER, AT(ctx), 1, 1 << 26, NULL,
     "N     context; default: the model's, at most 4096 and what memory allows"},
    {0, "batch", INTEGER, AT(batch), 1, 1 << 16, NULL, "N     tokens of one prefill step, default 256"},
    {'o', "output", TEXT, AT(output), 0, 0, NULL, "PATH  file to write"},
    {0, "kv-type", CHOICE, AT(kv_type), 0, 0, "f32|f16|q8_0",
     "TYPE  f32, f16 or q8_0 keys and values, default f16 (f32 for logits, verify, probe)"},
    {0, "deterministic", FLAG, AT(deterministic), 0, 0, NULL,
     "      the same bits for any thread count and split of the prompt"},
    {0, "rope-theta", NUMBER, AT(rope_theta), 1e-30, 1e30, NULL, "X     base of the RoPE frequencies"},
    {0, "rope-scaling", CHOICE, AT(rope_scaling), 0, 0, "none|linear|dynamic|yarn|llama3|longrope|ntk",
     "RULE  none, linear, dynamic, yarn, llama3, longrope or ntk (static)"},
    {0, "rope-factor", NUMBER, AT(rope_factor), 1e-30, 1e30, NULL, "X     factor of the scaling rule"},
    {0, "rope-original-ctx", INTEGER, AT(rope_original_ctx), 1, INT_MAX, NULL,
     "N     context the model was trained at"},
    {0, "rope-pairing", CHOICE, AT(rope_pairing), 0, 0, "half|pairs",
     "HOW   half (Hugging Face) or pairs (the paper, GGUF llama)"},
    {0, "tokens", TOKENS, 0, 0, 0, NULL, "1,2,3 token ids in place of text"},
    {0, "json", FLAG, AT(json), 0, 0, NULL, "      machine-readable result on standard output"},
    {0, "csv", FLAG, AT(csv), 0, 0, NULL, "      bench: comma-separated; trace: the attention matrix"},
    {0, "svg", FLAG, AT(svg), 0, 0, NULL, "      trace: the attention matrix as a picture"},
    {0, "all", FLAG, AT(all), 0, 0, NULL, "      logits: a row for each position"},
    {0, "no-special", FLAG, AT(no_special), 0, 0, NULL, "      the text of special tokens in a prompt is plain text"},
    {0, "no-bos", FLAG, AT(no_bos), 0, 0, NULL, "      tokenize, generate: leave out BOS"},
    {0, "protocol", TEXT, AT(protocol), 0, 0, NULL, "NAME  perplexity: hf or llamacpp, see below"},
    {0, "stride", INTEGER, AT(stride), 1, INT_MAX, NULL, "N     perplexity hf: default half the window"},
    {0, "score-from", INTEGER, AT(score_from), 1, INT_MAX, NULL,
     "N     perplexity hf: score only what has N tokens of its window before it"},
    {0, "decode", FLAG, AT(decode), 0, 0, NULL,
     "      perplexity hf: the scored tokens one at a time, as generation reads them"},
    {'r', "reference", TEXT, AT(reference), 0, 0, NULL, "PATH  verify: the reference file; bench: runs, default 5"},
    {'P', "bench-prompt", INTEGER, AT(bench_prefill), 0, 1 << 20, NULL,
     "N     bench: prefill of N tokens, default 256; 0: none"},
    {'d', "depth", INTEGER, AT(bench_depth), 0, 1 << 26, NULL, "N     bench: tokens already in the cache, default 0"},
    {0, "head-dim", INTEGER, AT(head_dim), 2, 1 << 14, NULL, "N     rope: features of a head, default 64"},
    {0, "seq-len", INTEGER, AT(seq_len), 1, INT_MAX, NULL, "N     rope: length of the sequence (dynamic, longrope)"},
    {0, "rotary-dim", INTEGER, AT(rotary_dim), 2, 1 << 14, NULL, "N     rope: features that are rotated, default all"},
    {0, "rope-short", TEXT, AT(rope_short), 0, 0, NULL, "a,b.. rope: longrope's divisors up to the original context"},
    {0, "rope-long", TEXT, AT(rope_long), 0, 0, NULL, "a,b.. rope: longrope's divisors beyond it"},
    {0, "x", TEXT, AT(x), 0, 0, NULL, "a,b.. rope: a head's features to rotate"},
    {0, "q", TEXT, AT(q), 0, 0, NULL, "a,b.. rope: a query at --pos, to score against --k"},
    {0, "k", TEXT, AT(k), 0, 0, NULL, "a,b.. rope: a key at --pos-k"},
    {0, "pos", INTEGER, AT(pos), 0, INT_MAX, NULL,
     "N     rope: the position of x or q; alone: the matrix of it; trace: default the last"},
    {0, "pos-k", INTEGER, AT(pos_k), 0, INT_MAX, NULL, "N     rope: the position of k"},
    {0, "layer", INTEGER, AT(layer), 0, INT_MAX, NULL, "N     trace: the layer to look at, default 0"},
    {0, "head", INTEGER, AT(head), 0, INT_MAX, NULL, "N     trace: its query head, default 0"},
    {0, "pair", INTEGER, AT(pair), 0, INT_MAX, NULL, "N     trace: a pair of the head's features, default 0"},
    {0, "type", TEXT, AT(type), 0, 0, NULL, "TYPE  convert: f32, f16, bf16, q8_0, q4_0 or q4_1"},
    {0, "kv-heads", INTEGER, AT(kv_heads), 1, 1 << 16, NULL, "N     convert: mean-pool K and V to N heads"},
    {0, "break", MISTAKE, 0, 0, 0, NULL, "NAME  make a known mistake, to see what it does; see below"},
    {0, "check", FLAG, AT(check), 0, 0, NULL, "      stop at the first NaN or infinity and name where it arose"},
    {0, "no-echo", FLAG, AT(no_echo), 0, 0, NULL, "      do not print the prompt"},
    {0, "raw", FLAG, AT(raw), 0, 0, NULL, "      to a terminal too: text with its control characters as they are"},
    {0, "quiet", FLAG, AT(quiet), 0, 0, NULL, "      no statistics, no warnings"},
    {0, "color", FLAG, AT(color), 0, 0, NULL, "      the prompt in another colour than the new text"},
    {0, "version", FLAG, AT(version), 0, 0, NULL, "      print the version"},
    {'h', "help", FLAG, AT(help), 0, 0, NULL, "      this text"},
};
enum { N_FLAGS = sizeof flags / sizeof *flags };

static int parse_number(double *out, const char *text, const Flag *f, Error *e) {
    char *end;
    errno = 0;
    double x = strtod(text, &end);
    if (end == text || *end || isspace((unsigned char)*text) || !(x >= f->min && x <= f->max))
        return fail(e, "--%s: expected a number from %g to %g, found '%.60s'", f->name, f->min, f->max, text);
    *out = x;
    return 0;
}

static int parse_integer(int *out, const char *text, const Flag *f, Error *e) {
    char *end;
    errno = 0;
    long long x = strtoll(text, &end, 10);
    if (end == text || *end || isspace((unsigned char)*text) || errno || x < f->min || x > f->max)
        return fail(e, "--%s: expected an integer from %.0f to %.0f, found '%.60s'", f->name, f->min, f->max, text);
    *out = (int)x;
    return 0;
}

static int parse_seed(Options *o, const char *text, Error *e) {
    char *end;
    errno = 0;
    uint64_t x = *text == '-' ? (uint64_t)strtoll(text, &end, 10) : strtoull(text, &end, 10);
    if (end == text || *end || isspace((unsigned char)*text) || errno)
        return fail(e, "--seed: expected a 64-bit number, found '%.60s'", text);
    o->sampler.seed = x;
    o->seed_given = true;
    return 0;
}

static int parse_tokens(Options *o, const char *text, Error *e) {
    size_t room = 1;
    for (const char *c = text; *c; c++) room += *c == ',';
    free(o->tokens);
    o->n_tokens = 0;
    o->tokens = malloc(room * sizeof *o->tokens);
    if (!o->tokens) return fail(e, "--tokens: memory: expected some, found none");
    if (!*text) return 0;
    for (const char *at = text;;) {
        char *end;
        errno = 0;
        long long id = strtoll(at, &end, 10);
        if (end == at || isspace((unsigned char)*at) || errno || id < 0 || id > INT_MAX || (*end && *end != ','))
            return fail(e, "--tokens: expected ids like 1,2,3, found '%.60s'", at);
        o->tokens[o->n_tokens++] = (int)id;
        if (!*end) return 0;
        at = end + 1;
    }
}

static int parse_choice(int *out, const char *text, const Flag *f, Error *e) {
    size_t n = strlen(text);
    const char *at = f->choices;
    for (int i = 0; at; i++) {
        const char *bar = strchr(at, '|');
        size_t length = bar ? (size_t)(bar - at) : strlen(at);
        if (length == n && memcmp(at, text, n) == 0) {
            *out = i;
            return 0;
        }
        at = bar ? bar + 1 : NULL;
    }
    return fail(e, "--%s: expected %.200s, found '%s'", f->name, f->choices, text);
}

static int parse_mistake(Options *o, const char *text, Error *e) {
    char list[200] = "";
    for (int i = 1; i < MISTAKE_COUNT; i++) {
        if (strcmp(mistakes[i].name, text) == 0) {
            o->mistake = (Mistake)i;
            return 0;
        }
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i > 1 ? ", " : "", mistakes[i].name);
    }
    return fail(e, "--break: expected %.300s, found '%s'", list, text);
}

static int store(Options *o, const Flag *f, const char *text, Error *e) {
    void *to = (char *)o + f->offset;
    double x = 0;
    switch (f->kind) {
    case FLAG: *(bool *)to = true; return 0;
    case TEXT: *(const char **)to = text; return 0;
    case INTEGER: return parse_integer(to, text, f, e);
    case NUMBER:
    case PENALTY:
        if (parse_number(&x, text, f, e)) return -1;
        if (f->kind == PENALTY && x == 0) return fail(e, "--%s: expected above 0, found '%s'", f->name, text);
        if (f->offset == AT(rope_theta) || f->offset == AT(rope_factor)) *(double *)to = x;
        else *(float *)to = (float)x;
        return 0;
    case SEED: return parse_seed(o, text, e);
    case CHOICE:
        if (f->offset == AT(kv_type)) o->kv_type_given = true;
        return parse_choice(to, text, f, e);
    case STOP:
        if (!*text) return fail(e, "--stop: expected a text, found none");
        if (o->n_stop == MAX_STOPS) return fail(e, "--stop: expected at most %d texts, found more", MAX_STOPS);
        o->stop[o->n_stop++] = text;
        return 0;
    case TOKENS: return parse_tokens(o, text, e);
    case MISTAKE: return parse_mistake(o, text, e);
    }
    return 0;
}

int options_parse(Options *o, int argc, char **argv, Error *e) {
    *o = (Options){.mode = "generate",
                   .steps = -1,
                   .batch = 256,
                   .kv_type = KV_F16,
                   .rope_scaling = -1,
                   .rope_pairing = -1,
                   .protocol = "hf",
                   .bench_prefill = 256,
                   .bench_runs = 5,
                   .pos = -1,
                   .pos_k = -1,
                   .log = stderr,
                   .sampler = {.temperature = 1, .top_p = 0.9f, .repeat_penalty = 1, .repeat_last = 64}};
    bool only_names = false;
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        if (only_names || arg[0] != '-' || arg[1] == 0) {
            if (o->checkpoint) return fail(e, "arguments: expected one CHECKPOINT, found a second: '%.60s'", arg);
            o->checkpoint = arg;
            continue;
        }
        if (strcmp(arg, "--") == 0) {
            only_names = true;
            continue;
        }
        bool is_long = arg[1] == '-';
        const char *equals = is_long ? strchr(arg, '=') : NULL;
        size_t n = equals ? (size_t)(equals - arg - 2) : is_long ? strlen(arg + 2) : 1;
        const Flag *f = NULL;
        for (int j = 0; j < N_FLAGS && !f; j++)
            if (is_long ? strlen(flags[j].name) == n && memcmp(flags[j].name, arg + 2, n) == 0
                        : flags[j].brief && flags[j].brief == arg[1])
                f = &flags[j];
        if (!f) return fail(e, "%.60s: expected a flag that --help lists, found an unknown one", arg);
        const char *value = equals ? equals + 1 : !is_long && arg[2] ? arg + 2 : NULL;
        if (f->kind == FLAG) {
            if (value) return fail(e, "%.60s: expected no value, found one", arg);
        } else if (!value) {
            if (i + 1 == argc) return fail(e, "%.60s: expected a value, found none", arg);
            value = argv[++i];
        }
        if (store(o, f, value, e)) return -1;
    }
    if (o->help || o->version) return 0;
    if (!mode_find(o->mode)) {
        char list[160] = "";
        for (const Mode *m = modes; m->name; m++)
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", m == modes ? "" : ", ", m->name);
        return fail(e, "--mode: expected %.200s, found '%s'", list, o->mode);
    }
    bool trace = strcmp(o->mode, "trace") == 0;
    if (o->csv && !trace && strcmp(o->mode, "bench") != 0)
        return fail(e, "--csv: expected -m bench or trace, found -m %s", o->mode);
    if (o->json + o->csv + o->svg > 1) return fail(e, "--json, --csv, --svg: expected one of them, found more");
    if (o->svg && !trace) return fail(e, "--svg: expected -m trace, found -m %s", o->mode);
    if ((o->decode || o->score_from) && (strcmp(o->mode, "perplexity") != 0 || strcmp(o->protocol, "hf") != 0))
        return fail(e, "--%s: expected -m perplexity --protocol hf, found -m %s --protocol %.40s",
                    o->decode ? "decode" : "score-from", o->mode, o->protocol);
    static const char *const run_text[] = {"generate", "chat", "logits", "perplexity", "probe", "trace", "verify"};
    bool runs_text = false;
    for (size_t i = 0; i < sizeof run_text / sizeof *run_text; i++) runs_text |= strcmp(o->mode, run_text[i]) == 0;
    if (o->mistake && !runs_text)
        return fail(e, "--break: expected -m generate, chat, logits, perplexity, probe, trace or verify, found -m %s",
                    o->mode);
    if (o->prompt && o->prompt_file) return fail(e, "--file: expected it without --prompt, found both");
    if (strcmp(o->protocol, "hf") != 0 && strcmp(o->protocol, "llamacpp") != 0)
        return fail(e, "--protocol: expected hf or llamacpp, found '%.40s'", o->protocol);
    if (o->reference && strcmp(o->mode, "bench") == 0) { /* there -r is a number of runs */
        static const Flag runs = {.name = "runs", .min = 1, .max = 1000};
        if (parse_integer(&o->bench_runs, o->reference, &runs, e)) return -1;
    }
    /* Modes whose numbers are held against a float32 reference keep keys and values in f32. */
    static const char *const exact[] = {"logits", "verify", "probe", "trace"};
    const char *cpu = getenv("RUN_CPU");
    bool reference = cpu && strcmp(cpu, "ref") == 0;
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++) reference |= strcmp(o->mode, exact[i]) == 0;
    if (reference && !o->kv_type_given) o->kv_type = KV_F32;
    if (!o->checkpoint && strcmp(o->mode, "rope") != 0)
        return fail(e, "arguments: expected a CHECKPOINT, found none (see --help)");
    return 0;
}

void options_close(Options *o) {
    free(o->tokens);
    o->tokens = NULL;
}

void options_help(FILE *out) {
    fputs("usage: run CHECKPOINT [options]\n\n"
          "CHECKPOINT: a llama2.c .bin (v0, v1, v2), a .gguf, a .safetensors file with config.json beside it,\n"
          "or a Hugging Face directory.\n\nmodes (-m):\n",
          out);
    for (const Mode *m = modes; m->name; m++) fprintf(out, "  %-11s %s\n", m->name, m->help);
    fputs("\noptions:\n", out);
    for (int i = 0; i < N_FLAGS; i++) {
        char brief[4] = "   ";
        if (flags[i].brief) snprintf(brief, sizeof brief, "-%c,", flags[i].brief);
        fprintf(out, "  %s --%-17s %s\n", brief, flags[i].name, flags[i].help);
    }
    fputs("\nperplexity protocols:\n"
          "  hf        the whole text is tokenized once (BOS first where the model has it); windows of the\n"
          "            context begin every --stride tokens; each token is scored once, with as much\n"
          "            before it as its window holds (Hugging Face, 'Perplexity of fixed-length models')\n"
          "  llamacpp  chunks of the context that do not overlap; the first token of each is BOS where the model\n"
          "            has it, the second half is scored; default -c 512 (llama.cpp's llama-perplexity)\n"
          "bits_per_byte is the negative log-likelihood in bits over the bytes of the text that was scored.\n\n"
          "mistakes (--break), the exercises of docs/ladder.md:\n",
          out);
    for (int i = 1; i < MISTAKE_COUNT; i++) fprintf(out, "  %-17s %s\n", mistakes[i].name, mistakes[i].help);
    fputs("\nExit: 0 done, 1 failed, 2 usage, 130 interrupted.\n", out);
}

const Mode *mode_find(const char *name) {
    for (const Mode *m = modes; m->name; m++)
        if (strcmp(m->name, name) == 0) return m;
    return NULL;
}
