#include "gen/chain.h"
#include "gen/flags.h"
#include "gen/kv_models.h"
#include "gen/models.h"
#include "gen/receipt.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "checkpoint/mistake.h"
#include "kernels/kernels.h"

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

/* Ids with a comma or spaces between them, as -m tokenize prints them. */
static int parse_tokens(Options *o, const char *text, Error *e) {
    size_t room = 1;
    for (const char *c = text; *c; c++) room += *c == ',' || *c == ' ';
    free(o->tokens);
    o->n_tokens = 0;
    o->tokens = malloc(room * sizeof *o->tokens);
    if (!o->tokens) return fail(e, "--tokens: memory: expected some, found none");
    for (const char *at = text; *at;) {
        char *end;
        errno = 0;
        long long id = strtoll(at, &end, 10);
        size_t gap = *end == ',' ? 1 : strspn(end, " ");
        if (end == at || isspace((unsigned char)*at) || errno || id < 0 || id > INT_MAX || (*end && !end[gap]) ||
            (*end && !gap))
            return fail(e, "--tokens: expected ids like 1,2,3, found '%.60s'", at);
        o->tokens[o->n_tokens++] = (int)id;
        at = end + gap;
    }
    return 0;
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
    char list[320] = "";
    for (int i = 1; i < MISTAKE_COUNT; i++) {
        if (strcmp(mistakes[i].name, text) == 0) {
            o->mistake = (Mistake)i;
            return 0;
        }
        text_list(list, sizeof list, ", ", mistakes[i].name);
    }
    return fail(e, "--break: expected %.300s, found '%s'", list, text);
}

static int parse_switch(Switch *out, const char *text, const Flag *f, Error *e) {
    if (text && strcmp(text, "on") != 0 && strcmp(text, "off") != 0)
        return fail(e, "--%s: expected on or off, found '%.60s'", f->name, text);
    *out = text && strcmp(text, "off") == 0 ? SWITCH_OFF : SWITCH_ON;
    return 0;
}

static int parse_json(Options *o, const char *text, Error *e) {
    if (text && strcmp(text, "lines") != 0) return fail(e, "--json: expected no value or lines, found '%.60s'", text);
    o->json = true;
    o->json_lines = text != NULL;
    return 0;
}

static int add_bias(Options *o, const char *flag, int id, float bias, Error *e) {
    if (o->n_bias == MAX_BIAS) return fail(e, "--%s: expected at most %d tokens, found more", flag, MAX_BIAS);
    o->bias[o->n_bias++] = (LogitBias){id, bias};
    return 0;
}

static int parse_bias(Options *o, const char *text, Error *e) {
    char *end, *after;
    errno = 0;
    long id = strtol(text, &end, 10);
    if (end != text && id >= 0 && id <= INT_MAX && !errno && (*end == '+' || *end == '-')) {
        double x = strtod(end, &after);
        if (after > end + 1 && !*after && x >= -1e6 && x <= 1e6) return add_bias(o, "logit-bias", (int)id, (float)x, e);
    }
    return fail(e, "--logit-bias: expected a token and a number like 13+2.5 or 13-1, found '%.60s'", text);
}

static int parse_ban(Options *o, const char *text, Error *e) {
    for (const char *at = text;; at++) {
        char *end;
        errno = 0;
        long id = strtol(at, &end, 10);
        if (end == at || id < 0 || id > INT_MAX || errno || (*end && *end != ','))
            return fail(e, "--ban: expected ids like 1,2,3, found '%.60s'", at);
        if (add_bias(o, "ban", (int)id, -INFINITY, e)) return -1;
        if (!*end) return 0;
        at = end;
    }
}

static int parse_stages(SamplerParams *p, const char *text, Error *e) {
    char list[120] = "";
    p->n_order = 0;
    for (const char *at = text;; at++) {
        size_t n = strcspn(at, ";");
        int stage = sampler_stage_named(at, n);
        if (stage < 0 || p->n_order == SAMPLER_COUNT) break;
        p->order[p->n_order++] = (SamplerStage)stage;
        at += n;
        if (!*at) return 0;
    }
    for (int i = 0; i < SAMPLER_COUNT; i++) text_list(list, sizeof list, ";", sampler_stage_names[i]);
    return fail(e, "--samplers: expected some of %s, found '%.60s'", list, text);
}

/* store - text: the value, NULL when there is none (only where flag_takes_value is false). */
static int store(Options *o, const Flag *f, const char *text, Error *e) {
    void *to = (char *)o + f->offset;
    double x = 0;
    switch (f->kind) {
    case FLAG:
        if (text) return fail(e, "--%s: expected no value, found '%.60s'", f->name, text);
        *(bool *)to = true;
        return 0;
    case SWITCH: return parse_switch(to, text, f, e);
    case JSON: return parse_json(o, text, e);
    case TEXT: *(const char **)to = text; return 0;
    case INTEGER: o->top_k_given |= to == (void *)&o->sampler.top_k; return parse_integer(to, text, f, e);
    case DOUBLE: return parse_number(to, text, f, e);
    case NUMBER:
    case ABOVE_ZERO:
        if (parse_number(&x, text, f, e)) return -1;
        if (f->kind == ABOVE_ZERO && x == 0) return fail(e, "--%s: expected above 0, found '%s'", f->name, text);
        *(float *)to = (float)x;
        o->temperature_given |= to == (void *)&o->sampler.temperature;
        o->top_p_given |= to == (void *)&o->sampler.top_p;
        return 0;
    case SEED: return parse_seed(o, text, e);
    case CHOICE:
        if (f->offset == offsetof(Options, kv_type)) o->kv_type_given = true;
        return parse_choice(to, text, f, e);
    case STOP:
        if (!*text) return fail(e, "--stop: expected a text, found none");
        if (o->n_stop == MAX_STOPS) return fail(e, "--stop: expected at most %d texts, found more", MAX_STOPS);
        o->stop[o->n_stop++] = text;
        return 0;
    case TOKENS: return parse_tokens(o, text, e);
    case MISTAKE: return parse_mistake(o, text, e);
    case BIAS: return parse_bias(o, text, e);
    case BAN: return parse_ban(o, text, e);
    case STAGES: return parse_stages(&o->sampler, text, e);
    case BREAKER:
        if (o->n_breaker < 0) o->n_breaker = 0;
        if (!*text) return fail(e, "--%s: expected a text, found none", f->name);
        if (strcmp(text, "none") == 0) return o->n_breaker = 0;
        if (o->n_breaker == MAX_STOPS)
            return fail(e, "--%s: expected at most %d texts, found more", f->name, MAX_STOPS);
        o->breaker[o->n_breaker++] = text;
        return 0;
    }
    return 0;
}

int options_set(Options *o, const char *name, const char *text, Error *e) {
    char flag[40];
    size_t n = 0;
    for (; name[n] && n + 1 < sizeof flag; n++) flag[n] = name[n] == '_' ? '-' : name[n];
    flag[n] = 0;
    if (strcmp(flag, "max-tokens") == 0) strcpy(flag, "steps");
    for (const Flag *f = flags; f->name; f++) {
        bool of_text =
            f->group == GROUP_SAMPLING || f->kind == STOP ||
            (f->group == GROUP_OUTPUT && (strcmp(f->name, "steps") == 0 || strcmp(f->name, "logprobs") == 0));
        if (of_text && strcmp(f->name, flag) == 0) return store(o, f, text, e);
    }
    return fail(e, "%.40s: expected a setting of a text (sampling, steps, stop, logprobs), found another key", name);
}

/* The flag that an argument names, in the mode if it is known: -r means one thing to verify and another to bench. */
static const Flag *find_flag(const char *arg, const Mode *mode) {
    bool is_long = arg[1] == '-';
    size_t n = is_long ? strcspn(arg + 2, "=") : 1;
    const Flag *found = NULL;
    for (const Flag *f = flags; f->name; f++)
        if (is_long ? strlen(f->name) == n && memcmp(f->name, arg + 2, n) == 0 : f->brief && f->brief == arg[1])
            if (!found || (mode && flag_used(f, mode))) found = f;
    return found;
}

/* One letter changed, added or left out, or two exchanged. */
static bool is_near(const char *a, const char *b) {
    while (*a && *a == *b) a++, b++;
    if (a[0] && a[1] && b[0] && a[0] == b[1] && a[1] == b[0]) return strcmp(a + 2, b + 2) == 0;
    return (*a && strcmp(a + 1, b) == 0) || (*b && strcmp(a, b + 1) == 0) || (*a && *b && strcmp(a + 1, b + 1) == 0);
}

static int unknown_flag(const char *arg, Error *e) {
    for (const Flag *f = flags; f->name && arg[1] == '-'; f++)
        if (is_near(arg + 2, f->name))
            return fail(e, "%.60s: expected a flag that --help lists (--%s?), found an unknown one", arg, f->name);
    return fail(e, "%.60s: expected a flag that --help lists, found an unknown one", arg);
}

/* A value that is itself a flag was forgotten; --prompt=-n is the way to give such a text. */
static bool is_flag(const char *text) {
    return text[0] == '-' && text[1] && (text[1] == '-' ? text[2] != 0 : text[2] == 0) && find_flag(text, NULL);
}

static bool is_text_flag(const Flag *f, size_t offset) { return f->kind == TEXT && f->offset == offset; }

/* What names a file that is written is given anew with each run: a receipt has none of them, so that a stranger's
 * writes no file. */
static bool is_of_one_run(const Flag *f) {
    return is_text_flag(f, offsetof(Options, receipt)) || is_text_flag(f, offsetof(Options, replay_file)) ||
           is_text_flag(f, offsetof(Options, session)) ||
           (f->kind == FLAG && (f->offset == offsetof(Options, help) || f->offset == offsetof(Options, version)));
}

/* Walks over the arguments, the first n_receipt of which are a receipt's: with mode NULL only --mode is stored, then
 * the rest. */
static int parse(Options *o, int argc, char **argv, int n_receipt, const Mode *mode, Error *e) {
    bool only_names = false;
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        if (only_names || arg[0] != '-' || arg[1] == 0) {
            if (i <= n_receipt)
                return fail(e, "%s: flags: expected flags and their values, found '%.60s'", o->replay_file, arg);
            if (mode && o->checkpoint)
                return fail(e, "arguments: expected one CHECKPOINT, found a second: '%.60s'", arg);
            if (mode) o->checkpoint = arg;
            continue;
        }
        if (strcmp(arg, "--") == 0) {
            only_names = true;
            if (i > n_receipt) continue;
            return fail(e, "%s: flags: expected flags and their values, found --", o->replay_file);
        }
        const Flag *f = find_flag(arg, mode);
        if (!f) return unknown_flag(arg, e);
        if (i <= n_receipt && is_of_one_run(f))
            return fail(e, "%s: flags: expected what the text came of, found --%s", o->replay_file, f->name);
        const char *value = arg[1] == '-' ? strchr(arg, '=') : arg[2] ? arg + 2 : NULL;
        if (value && *value == '=' && arg[1] == '-') value++;
        if (!value && flag_takes_value(f)) {
            bool last = i + 1 == argc || i == n_receipt;
            if (last || is_flag(argv[i + 1]))
                return fail(e, "%.60s: expected a value, found %s", arg, last ? "none" : argv[i + 1]);
            value = argv[++i];
        }
        if (!mode) {
            if (is_text_flag(f, offsetof(Options, mode))) o->mode = value;
            continue;
        }
        if (!flag_used(f, mode)) {
            char list[160] = "";
            for (const Mode *m = modes; m->name; m++)
                if (flag_used(f, m)) text_list(list, sizeof list, ", ", m->name);
            return fail(e, "--%s: expected -m %s, found -m %s, which does not use it", f->name, list, mode->name);
        }
        if (store(o, f, value, e)) return -1;
        if (is_of_one_run(f)) continue;
        o->given[o->n_given++] = arg;
        if (value == argv[i]) o->given[o->n_given++] = value;
    }
    return 0;
}

/* The receipt's flags, then those given beside --replay. */
static int parse_replay(Options *o, int argc, char **argv, const Mode *mode, Error *e) {
    const char *path = o->replay_file, *checkpoint = o->checkpoint;
    if (!(o->replay = receipt_read(path, e))) return -1;
    int n = o->replay->n_flags;
    char **all = calloc((size_t)(n + argc) + 1, sizeof *all);
    free(o->given);
    o->given = calloc((size_t)(n + argc) + 1, sizeof *o->given);
    o->n_given = o->n_stop = o->n_bias = 0;
    o->n_breaker = -1;
    int status = all && o->given ? 0 : fail(e, "%s: memory: expected some, found none", path);
    if (!status) {
        memcpy(all, argv, sizeof *all);
        memcpy(all + 1, o->replay->flags, (size_t)n * sizeof *all);
        memcpy(all + 1 + n, argv + 1, (size_t)(argc - 1) * sizeof *all);
        o->checkpoint = NULL;
        status = parse(o, n + argc, all, n, mode, e);
        if (!status && !checkpoint) o->checkpoint = o->replay->model;
        o->mode = mode->name;
    }
    free(all);
    /* The text is that of a level: the same one is used where the CPU has it. */
    if (!status && kernels_named(o->replay->cpu) && setenv("RUN_CPU", o->replay->cpu, 0))
        return fail(e, "%s: memory: expected some, found none", path);
    return status;
}

/* A checkpoint that is no file may be a name; models--org--name is a folder of the hub's cache. */
static int find_model(const char **checkpoint, char **found, Error *e) {
    const char *slash = strrchr(*checkpoint, '/'), *name = slash ? slash + 1 : *checkpoint;
    if (strncmp(name, "models--", 8) == 0) *found = models_snapshot(*checkpoint);
    else if (access(*checkpoint, F_OK) != 0 && models_find(found, *checkpoint, e)) return -1;
    if (*found) *checkpoint = *found;
    return 0;
}

static int check_draft(Options *o, Error *e) {
    const char *flag = o->lookup ? "lookup" : "draft";
    if (!o->lookup && !o->draft) return 0;
    if (o->lookup && o->draft) return fail(e, "--lookup, --draft: expected one of them, found both");
    if (o->mistake) /* some are made in passes of one token alone */
        return fail(e, "--%s: expected no --break, found --break %s", flag, mistakes[o->mistake].name);
    return o->draft ? find_model(&o->draft, &o->found_draft, e) : 0;
}

static int check(Options *o, const Mode *mode, Error *e) {
    if ((o->decode || o->score_from) && strcmp(o->protocol, "hf") != 0)
        return fail(e, "--%s: expected --protocol hf, found %.40s", o->decode ? "decode" : "score-from", o->protocol);
    if ((o->prompt != NULL) + (o->prompt_file != NULL) + (o->tokens != NULL) > 1)
        return fail(e, "prompt: expected one of --prompt, --file and --tokens, found more");
    if (o->escape && !o->prompt) return fail(e, "--escape: expected --prompt, found none");
    if (o->json + o->csv + o->svg > 1) return fail(e, "--json, --csv, --svg: expected one of them, found more");
    if (o->json && o->top_k_given && mode->letter == 'l')
        return fail(e, "--top-k: expected no --json, which gives every logit, found it");
    if (o->logprobs && !o->json && mode->letter != 'n') return fail(e, "--logprobs: expected --json, found none");
    if (o->json_lines && !strchr("gc", mode->letter))
        return fail(e, "--json=lines: expected -m generate or chat, found -m %s", mode->name);
    if (strcmp(o->protocol, "hf") != 0 && strcmp(o->protocol, "llamacpp") != 0)
        return fail(e, "--protocol: expected hf or llamacpp, found '%.40s'", o->protocol);
    if (check_draft(o, e)) return -1;
    if (o->sampler.mirostat == 1) return fail(e, "--mirostat: expected 0 or 2, found 1");
    const char *cpu = getenv("RUN_CPU");
    const KernelLevel *level = kernel_levels;
    while (cpu && *cpu && level->kernels && strcmp(level->kernels->name, cpu) != 0) level++;
    if (!level->kernels) {
        char levels[KERNELS_LIST];
        kernels_list(levels);
        return fail(e, "RUN_CPU: expected %s, found '%.40s'", levels, cpu);
    }
    /* Modes whose numbers are held against a float32 reference keep activations, keys and values in f32. */
    bool exact = strchr("lvpa", mode->letter) != NULL;
    if (o->precise == SWITCH_DEFAULT) o->precise = exact ? SWITCH_ON : SWITCH_OFF;
    if ((exact || (cpu && strcmp(cpu, "ref") == 0)) && !o->kv_type_given) o->kv_type = KV_F32;
    const char *no_color = getenv("NO_COLOR");
    if (no_color && *no_color) o->color = false;
    if (o->checkpoint && mode->letter == 'm')
        return fail(e, "-m models: expected no CHECKPOINT, found '%.60s'", o->checkpoint);
    bool known = mode->letter == 'k' && o->checkpoint && kv_model_named(o->checkpoint); /* needs no file */
    if (o->checkpoint && !known && find_model(&o->checkpoint, &o->found, e)) return -1;
    if (!o->checkpoint && !strchr("rmk", mode->letter))
        return fail(e, "arguments: expected a CHECKPOINT, found none (see --help)");
    return 0;
}

int options_parse(Options *o, int argc, char **argv, Error *e) {
    *o = (Options){.mode = "generate",
                   .steps = -1,
                   .keep = -1,
                   .ctx = -1,
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
                   .n_breaker = -1,
                   .sampler = {.temperature = 1,
                               .top_p = 0.9f,
                               .repeat_penalty = 1,
                               .repeat_last = 64,
                               .dynatemp_exponent = 1,
                               .xtc_threshold = 0.1f,
                               .dry_base = 1.75f,
                               .dry_allowed_length = 2,
                               .dry_last = -1,
                               .mirostat_tau = 5,
                               .mirostat_eta = 0.1f}};
    if (parse(o, argc, argv, 0, NULL, e)) return -1;
    const Mode *mode = mode_find(o->mode);
    if (!mode) {
        char list[160] = "";
        for (const Mode *m = modes; m->name; m++) text_list(list, sizeof list, ", ", m->name);
        return fail(e, "--mode: expected %.200s, found '%.60s'", list, o->mode);
    }
    o->given = calloc((size_t)argc + 1, sizeof *o->given);
    if (!o->given) return fail(e, "arguments: memory: expected some, found none");
    if (parse(o, argc, argv, 0, mode, e) || (o->replay_file && parse_replay(o, argc, argv, mode, e))) return -1;
    return o->help || o->version ? 0 : check(o, mode, e);
}

void options_close(Options *o) {
    free(o->tokens);
    free(o->found);
    free(o->found_draft);
    free(o->given);
    receipt_free(o->replay);
    o->tokens = NULL;
    o->given = NULL;
    o->found = o->found_draft = NULL;
    o->replay = NULL;
}

const Mode *mode_find(const char *name) {
    for (const Mode *m = modes; m->name; m++)
        if (strcmp(m->name, name) == 0) return m;
    return NULL;
}
