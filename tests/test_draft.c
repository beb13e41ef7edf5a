/* Tests of src/gen/draft.c and its two drafters: whatever is guessed, right or wrong, the text stays what single tokens
 * give: the same logits bit for bit, and sampled the same distribution. */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gen/generate.h"

#include <cmocka.h> /* last: it makes a macro of fail */

#include "tests/random.h"
#include "tests/sampling.h"

/* Pearson's statistic of counts [n] of `draws` against probabilities; draws that cannot be are infinitely far off. */
static double chi_squared(const int *count, const double *p, int n, int draws) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        double want = p[i] * draws;
        if (want > 0) sum += (count[i] - want) * (count[i] - want) / want;
        else if (count[i]) return INFINITY;
    }
    return sum;
}

/* What a correct sampler exceeds once in 10^6 (Wilson and Hilferty's approximation, a little above the exact value). */
static double chi_limit(int freedom) {
    double a = 2.0 / (9.0 * freedom);
    return freedom * pow(1 - a + 4.9 * sqrt(a), 3);
}

enum { VOCAB = 6, DRAWS = 30000 };

/* ---- One token, proposed by another distribution ---------------------------------------------------- */

static const float percent[4][VOCAB] = {
    {35, 25, 20, 10, 7, 3}, {3, 7, 10, 20, 25, 35}, {90, 2, 2, 2, 2, 2}, {1, 1, 1, 1, 1, 95}};

static void logits_of(float *logits, const float *share) {
    for (int i = 0; i < VOCAB; i++) logits[i] = logf(share[i] / 100);
}

static const SamplerParams settings[] = {
    {.temperature = 1, .top_p = 1, .repeat_penalty = 1},
    {.temperature = 0.6f, .top_p = 0.8f, .repeat_penalty = 1},
    {.temperature = 1.5f, .top_p = 1, .top_k = 3, .repeat_penalty = 1.4f, .repeat_last = 4},
    {.temperature = 1, .top_p = 1, .min_p = 0.3f, .repeat_penalty = 1, .repeat_last = 4, .frequency_penalty = 0.4f},
    {.temperature = 1, .top_p = 1, .repeat_penalty = 1, .typical = 0.6f},
    {.temperature = 0, .top_p = 1, .repeat_penalty = 1},
};
enum { N_SETTINGS = sizeof settings / sizeof *settings };

static void open_sampler(Sampler *s, SamplerParams params, uint64_t with) {
    Error e = {""};
    params.seed = with;
    assert_int_equal(sampler_init(s, &params, VOCAB, &e), 0);
    for (int i = 0; i < 3; i++) sampler_accept(s, i);
}

/* Proposals from q, or always of one token, are tested against p. Returns the share that was taken. */
static double test_one(int setting, int p_row, int q_row, int certain) {
    static const int recent[] = {0, 1, 2};
    double p[VOCAB], sum;
    float logits[VOCAB], own[VOCAB];
    int count[VOCAB] = {0}, taken = 0;
    Sampler s, q;
    logits_of(logits, percent[p_row]);
    int left = probabilities(p, settings[setting], logits, VOCAB, recent, 3);
    open_sampler(&s, settings[setting], 7);
    open_sampler(&q, settings[setting], 8);
    for (int i = 0; i < DRAWS; i++) {
        Proposal proposal = {.id = certain};
        if (certain < 0) {
            logits_of(own, percent[q_row]);
            int n = sampler_filter(&q, own, &sum);
            proposal = (Proposal){sampler_pick(&q, n, sum), q.candidates, n, sum};
        }
        logits_of(own, percent[p_row]);
        int id = sampler_next_proposed(&s, own, &proposal);
        assert_in_range(id, 0, VOCAB - 1);
        count[id]++;
        taken += id == proposal.id;
    }
    double found = chi_squared(count, p, VOCAB, DRAWS);
    if (!(found <= (left > 1 ? chi_limit(left - 1) : 0)))
        fail_msg("setting %d, p %d, q %d, certain %d: chi squared %g, expected at most %g", setting, p_row, q_row,
                 certain, found, chi_limit(left > 1 ? left - 1 : 1));
    sampler_close(&s);
    sampler_close(&q);
    return (double)taken / DRAWS;
}

static void test_proposed(void **state) {
    (void)state;
    for (int setting = 0; setting < N_SETTINGS; setting++)
        for (int p = 0; p < 4; p++) {
            for (int q = 0; q < 4; q++) test_one(setting, p, q, -1);
            test_one(setting, p, 0, 0);
            test_one(setting, p, 0, 5);
        }
    /* As many are taken as the two have in common (appendix A.1: the sum of min(p, q)). */
    assert_true(fabs(test_one(0, 0, 1, -1) - 0.4) < 0.015);
    assert_true(fabs(test_one(0, 0, 2, -1) - 0.45) < 0.015);
    assert_true(test_one(0, 3, 3, -1) > 0.999);
    assert_true(fabs(test_one(0, 0, 0, 1) - 0.25) < 0.015);
}

/* ---- Prompt lookup ----------------------------------------------------------------------------------- */

static void test_lookup(void **state) {
    (void)state;
#define TEXT(...) {__VA_ARGS__}, sizeof((int[]){__VA_ARGS__}) / sizeof(int)
    static const struct {
        int text[40], n, sure, want[6];
    } row[] = {
        {TEXT(1), 0, {0}},
        {TEXT(1, 2, 3), 0, {0}},
        {TEXT(1, 2, 3, 1), 1, {2, 3, 1, 2, 3, 1}},
        {TEXT(5, 1, 2, 3, 9, 1, 2, 4, 8, 1, 2), 2, {4, 8, 1, 2, 4, 8}},       /* the last of equally long ends */
        {TEXT(7, 1, 2, 3, 9, 6, 1, 2, 4, 8, 7, 1, 2), 3, {3, 9, 6, 1, 2, 4}}, /* a longer one before it */
        {TEXT(4, 4, 4, 4), 3, {4, 4, 4, 4, 4, 4}},
        {TEXT(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9), 8, {10, 1, 2, 3, 4, 5}},
    };
    Error e = {""};
    Drafter *d = draft_lookup_open(&e);
    assert_non_null(d);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        Proposal out[6];
        assert_int_equal(d->sure(d, row[i].text, row[i].n), row[i].sure);
        if (!row[i].sure) continue;
        assert_int_equal(d->guess(d, row[i].text, row[i].n, NULL, out, 6), 6);
        for (int k = 0; k < 6; k++) {
            assert_int_equal(out[k].id, row[i].want[k]);
            assert_null(out[k].q);
        }
    }
    d->close(d);
}

/* ---- Every model: guesses that are right or wrong at random -------------------------------------------- */

enum { N_PROMPT = 10, N_CTX = 64 };

/* Knows how the text goes on, and is wrong at one place in four. */
typedef struct {
    Drafter drafter;
    const int *text;
    unsigned random;
    int vocab;
} Oracle;

static int oracle_sure(Drafter *d, const int *text, int n) {
    (void)d, (void)text, (void)n;
    return DRAFT_CLASSES - 1;
}

static int oracle_guess(Drafter *d, const int *text, int n, const Sampler *s, Proposal *out, int most) {
    Oracle *o = (Oracle *)d;
    (void)text, (void)s;
    for (int i = 0; i < most; i++) {
        o->random = o->random * 1664525 + 1013904223;
        bool wrong = o->random >> 30 == 0;
        out[i] = (Proposal){.id = (o->text[n + i] + wrong) % o->vocab};
    }
    return most;
}

static void oracle_close(Drafter *d) { (void)d; }

static int open_model(Session *s, Options *o, const char *path, Error *e) {
    *o = (Options){.checkpoint = path,
                   .batch = 8,
                   .threads = 1,
                   .kv_type = KV_F16,
                   .rope_scaling = -1,
                   .rope_pairing = -1,
                   .quiet = true,
                   .deterministic = true,
                   .lookup = 7,
                   .log = stderr};
    if (session_open(s, o, 0, e)) return -1;
    o->ctx = N_CTX < s->model.config.n_ctx ? N_CTX : s->model.config.n_ctx;
    return session_state(s, o, 0, e);
}

/* Tokens and logits of a text up to the end of the context, token by token or with the drafter. */
static void write_text(Session *s, Drafts *d, Sampler *sampler, int *text, float *all) {
    const Model *m = &s->model;
    size_t vocab = (size_t)m->config.vocab_size;
    int n = N_PROMPT, n_ctx = s->state.options.n_ctx;
    for (int i = 0; i < n; i++) text[i] = (5 * i + 1) % m->config.vocab_size;
    model_prefill(m, &s->state, text, n - 1, 0, WANTED_LAST, NULL, NULL);
    drafts_begin(d, text, n);
    for (; n < n_ctx; n++) {
        float *logits = drafts_forward(d, s, sampler, text, n, n_ctx - n);
        memcpy(all + (size_t)n * vocab, logits, vocab * sizeof *logits);
        text[n] = drafts_sample(d, sampler, logits);
    }
}

static void test_model(const char *path) {
    Error e = {""};
    Session s;
    Options o;
    if (open_model(&s, &o, path, &e)) fail_msg("%s", e.text);
    int n_ctx = s.state.options.n_ctx, vocab = s.model.config.vocab_size;
    size_t bytes = (size_t)n_ctx * (size_t)vocab * sizeof(float);
    float *all = calloc(1, bytes), *drafted = calloc(1, bytes);
    int text[N_CTX], again[N_CTX];
    for (int hot = 0; hot < 2; hot++) {
        SamplerParams params = {.temperature = (float)hot,
                                .top_p = 0.95f,
                                .repeat_penalty = 1.1f,
                                .repeat_last = 32,
                                .seed = 3,
                                .mirostat = 2 * hot,
                                .mirostat_tau = 5,
                                .mirostat_eta = 0.1f};
        Sampler one, two;
        assert_int_equal(sampler_init(&one, &params, vocab, &e), 0);
        assert_int_equal(sampler_init(&two, &params, vocab, &e), 0);
        Drafts none = {.row = -1}, d = {.row = -1, .most = 7};
        write_text(&s, &none, &one, text, all);
        Oracle oracle = {
            {.sure = oracle_sure, .guess = oracle_guess, .close = oracle_close, .least = 7}, text, 1, vocab};
        d.drafter = &oracle.drafter;
        write_text(&s, &d, &two, again, drafted);
        for (int i = 0; i < n_ctx; i++)
            if (text[i] != again[i]) fail_msg("%s: token %d: expected %d, found %d", path, i, text[i], again[i]);
        if (memcmp(all, drafted, bytes) != 0) fail_msg("%s: logits of the same text differ", path);
        bool by_length =
            s.model.config.rope.scaling == ROPE_SCALING_DYNAMIC; /* drafts only up to where angles change */
        if (d.n_accepted < (by_length ? 1 : n_ctx / 4))
            fail_msg("%s: of %d drafted %d were accepted", path, d.n_drafted, d.n_accepted);
        if (d.n_drafted == d.n_accepted && !by_length) fail_msg("%s: no guess was wrong", path);
        drafts_close(&d);
        sampler_close(&one);
        sampler_close(&two);
    }
    free(all);
    free(drafted);
    session_close(&s);
}

static void test_models(void **state) {
    (void)state;
    static const char *const folders[] = {"tests/fixtures", "tests/fixtures/families", "weights"};
    int tested = 0;
    for (int i = 0; i < 3; i++) {
        DIR *dir = opendir(folders[i]);
        assert_non_null(dir);
        for (struct dirent *entry; (entry = readdir(dir));) {
            char path[600], config[640];
            size_t n = strlen(entry->d_name);
            snprintf(path, sizeof path, "%s/%s", folders[i], entry->d_name);
            snprintf(config, sizeof config, "%s/config.json", path);
            bool gguf = i == 0 && n > 5 && strcmp(entry->d_name + n - 5, ".gguf") == 0;
            FILE *f = fopen(config, "r");
            if (f) fclose(f);
            if ((!gguf && !f) || strstr(entry->d_name, "split-") || entry->d_name[0] == '.') continue;
            test_model(path);
            tested++;
        }
        closedir(dir);
    }
    assert_true(tested > 50);
}

/* ---- A whole text -------------------------------------------------------------------------------------- */

enum { N_TEXTS = 2000, N_NEW = 3, N_KINDS = 3 * 3 * 3, N_WORDS = 64, N_TOKENS = 36 };

/* Two llama2.c models of random weights, of which the second is near to the first, and their vocabulary. */
static char folder[64], small[80], near[80], words[80];

static void write_model(const char *path, float noise) {
    static const int32_t size[7] = {32, 64, 2, 4, 2, -N_WORDS, 96}; /* dim, hidden, layers, heads, KV heads; no tie */
    static const struct {
        int n;       /* values */
        float scale; /* 0: ones */
    } part[] = {{N_WORDS * 32, 1},
                {2 * 32, 0},
                {2 * 32 * 32, 0.4f},
                {2 * 16 * 32, 0.4f},
                {2 * 16 * 32, 0.4f},
                {2 * 32 * 32, 0.4f},
                {2 * 32, 0},
                {2 * 64 * 32, 0.3f},
                {2 * 32 * 64, 0.3f},
                {2 * 64 * 32, 0.3f},
                {32, 0},
                {96 * 8, 0},
                {3 * 32, 1e-3f},
                {(N_WORDS - 3) * 32, 1}}; /* the tokens that end a text never come */
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fwrite(size, sizeof size, 1, f);
    seed = 5;
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        for (int k = 0; k < part[i].n; k++) {
            float x = random_unit(), y = random_unit();
            x = part[i].scale > 0 ? part[i].scale * (x + noise * y) : 1;
            fwrite(&x, sizeof x, 1, f);
        }
    assert_int_equal(fclose(f), 0);
}

static int write_models(void **state) {
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.40s/draft-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(folder)) return -1;
    snprintf(small, sizeof small, "%s/small.bin", folder);
    snprintf(near, sizeof near, "%s/near.bin", folder);
    snprintf(words, sizeof words, "%s/words.bin", folder);
    write_model(small, 0);
    write_model(near, 0.3f);
    FILE *f = fopen(words, "wb");
    int32_t length = 1;
    float score = 0;
    fwrite(&length, sizeof length, 1, f);
    for (char c = 0; c < N_WORDS; c++) {
        fwrite(&score, sizeof score, 1, f);
        fwrite(&length, sizeof length, 1, f);
        fputc(' ' + c, f);
    }
    return fclose(f);
}

static int remove_models(void **state) {
    (void)state;
    return unlink(small) || unlink(near) || unlink(words) || rmdir(folder);
}

typedef struct {
    int tokens[N_NEW], n;
} Written;

static int remember(void *arg, const Generator *g, int id, const float *logits, Error *e) {
    Written *w = arg;
    (void)g, (void)logits, (void)e;
    w->tokens[w->n++] = id;
    return 0;
}

static void options_for(Options *o, const char *draft, int lookup) {
    *o = (Options){.checkpoint = small,
                   .tokenizer = words,
                   .draft = draft,
                   .lookup = lookup,
                   .steps = N_NEW,
                   .batch = 64,
                   .threads = 1,
                   .ctx = 96,
                   .kv_type = KV_F32,
                   .rope_scaling = -1,
                   .rope_pairing = -1,
                   .quiet = true,
                   .seed_given = true,
                   .deterministic = true,
                   .log = stderr,
                   .n_breaker = -1,
                   .sampler = {.temperature = 1.3f,
                               .top_p = 1,
                               .top_k = 3,
                               .repeat_penalty = 1.2f,
                               .repeat_last = 8,
                               .frequency_penalty = 0.1f}};
}

/* What may come after ids[0..n), by the model alone: the sampler's first candidates, whose p are shares of sum. The
 * caller closes it. */
static int filtered(Sampler *sampler, double *sum, const Session *s, const Options *o, const int *ids, int n) {
    State *state = (State *)(uintptr_t)&s->state;
    Error e = {""};
    model_forward(&s->model, state, ids, n, 0);
    float *logits = (float *)(uintptr_t)model_logits(&s->model, state, n - 1);
    assert_int_equal(sampler_init(sampler, &o->sampler, s->model.config.vocab_size, &e), 0);
    for (int i = 0; i < n; i++) sampler_accept(sampler, ids[i]);
    return sampler_filter(sampler, logits, sum);
}

/* The probability of each text of three tokens, by the model alone: texts and p [N_KINDS]. Returns how many. */
static int enumerate(const Session *s, const Options *o, const int *prompt, int n_prompt, Written *texts, double *p) {
    Written now[N_KINDS] = {{{0}, 0}};
    double p_now[N_KINDS] = {1};
    int n = 1;
    for (int step = 0; step < N_NEW; step++) {
        int next = 0;
        for (int i = 0; i < n; i++) {
            Sampler sampler;
            double sum;
            int ids[128];
            memcpy(ids, prompt, (size_t)n_prompt * sizeof *ids);
            memcpy(ids + n_prompt, now[i].tokens, (size_t)step * sizeof *ids);
            int left = filtered(&sampler, &sum, s, o, ids, n_prompt + step);
            for (int k = 0; k < left; k++, next++) {
                texts[next] = now[i];
                texts[next].tokens[texts[next].n++] = sampler.candidates[k].id;
                p[next] = p_now[i] * (double)sampler.candidates[k].p / sum;
            }
            sampler_close(&sampler);
        }
        memcpy(now, texts, sizeof now);
        memcpy(p_now, p, sizeof p_now);
        n = next;
    }
    return n;
}

/* The probability of ids[n] after ids[0..n). */
static double chance_of(const Session *s, const Options *o, const int *ids, int n) {
    Sampler sampler;
    double sum, p = 0;
    int left = filtered(&sampler, &sum, s, o, ids, n);
    for (int i = 0; i < left; i++)
        if (sampler.candidates[i].id == ids[n]) p = (double)sampler.candidates[i].p / sum;
    sampler_close(&sampler);
    return p;
}

/* A prompt [N_TOKENS] that holds two tokens which the model, too, may choose after it, but not always: lookup
 * guesses the second after the first. */
static void choose_prompt(int *ids, const Session *s, const Options *o) {
    for (int i = 0; i < N_TOKENS; i++) ids[i] = i ? 3 + 17 * i % (N_WORDS - 3) : 1; /* each once */
    for (ids[1] = 3; ids[1] < N_WORDS; ids[1]++) {
        ids[N_TOKENS] = ids[1];
        if (chance_of(s, o, ids, N_TOKENS) < 0.2) continue;
        for (ids[2] = 3; ids[2] < N_WORDS; ids[2]++) {
            ids[N_TOKENS + 1] = ids[2];
            double p = chance_of(s, o, ids, N_TOKENS + 1);
            if (p > 0.3 && p < 0.7 && chance_of(s, o, ids, N_TOKENS) > 0.2) return;
        }
    }
    fail_msg("no tokens that lookup may guess");
}

static void test_texts(const char *draft, int lookup, int least_accepted) {
    Error e = {""};
    Options o;
    Session s;
    Generator g;
    Written kinds[N_KINDS], written;
    double p[N_KINDS];
    int count[N_KINDS] = {0}, drafted = 0, accepted = 0, ids[128], n = N_TOKENS;
    options_for(&o, draft, lookup);
    FILE *null = fopen("/dev/null", "w");
    assert_non_null(null);
    if (session_open(&s, &o, SESSION_TOKENIZER | SESSION_STATE, &e)) fail_msg("%s", e.text);
    choose_prompt(ids, &s, &o);
    int n_kinds = enumerate(&s, &o, ids, n, kinds, p);
    if (generator_init(&g, &o, &s, &e)) fail_msg("%s", e.text);
    generator_tell(&g, remember, &written, false, &e);
    if (lookup) g.drafts.drafter->least = lookup; /* any guess will do */
    for (int i = 0; i < N_TEXTS; i++) {
        Stream stream;
        stream_init(&stream, null, NULL, 0);
        written.n = 0;
        g.sampler.n_recent = g.sampler.next_recent =
            0; /* another text, all but the last token of whose prompt is there */
        for (int k = 0; i && k < n - 1; k++) sampler_accept(&g.sampler, ids[k]);
        assert_int_equal(generator_prompt(&g, ids, n, &e), 0);
        assert_int_equal(generator_text(&g, &stream, &e), 0);
        stream_close(&stream);
        int kind = 0;
        while (kind < n_kinds && memcmp(kinds[kind].tokens, written.tokens, sizeof written.tokens) != 0) kind++;
        assert_in_range(kind, 0, n_kinds - 1);
        count[kind]++;
        drafted += g.drafts.n_drafted;
        accepted += g.drafts.n_accepted;
    }
    double found = chi_squared(count, p, n_kinds, N_TEXTS);
    if (!(found <= chi_limit(n_kinds - 1)))
        fail_msg("%s: chi squared %g, expected at most %g", draft ? draft : "lookup", found, chi_limit(n_kinds - 1));
    if (accepted < least_accepted)
        fail_msg("%d of %d drafted tokens were accepted, expected %d", accepted, drafted, least_accepted);
    fclose(null);
    generator_close(&g);
    session_close(&s);
}

static void test_distribution(void **state) {
    (void)state;
    test_texts(NULL, 0, 0);
    test_texts(NULL, 4, N_TEXTS / 10);
    test_texts(near, 0, N_TEXTS / 4);
    test_texts(small, 0, N_TEXTS * 3 / 4); /* its first guess is made before the penalties know the token before it */
}

/* ---- What is no draft ------------------------------------------------------------------------------------ */

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *draft, *want;
    } row[] = {
        {"weights/none", "weights/none"},
        {"tests/fixtures/tokenizers/spm.model", "spm.model"},
        {"tests/fixtures/base_hf", "tokenizer"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        Error e = {""};
        Options o;
        Session s;
        Generator g = {0};
        options_for(&o, row[i].draft, 0);
        o.checkpoint = "weights/rung4";
        o.tokenizer = NULL;
        if (session_open(&s, &o, SESSION_TOKENIZER | SESSION_STATE, &e)) fail_msg("%s", e.text);
        assert_int_equal(generator_init(&g, &o, &s, &e), -1);
        if (!strstr(e.text, row[i].want)) fail_msg("expected %s in: %s", row[i].want, e.text);
        generator_close(&g);
        session_close(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_proposed), cmocka_unit_test(test_lookup),
                                       cmocka_unit_test(test_models), cmocka_unit_test(test_distribution),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests_name("draft", tests, write_models, remove_models);
}
