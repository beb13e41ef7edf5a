#include "gen/session.h"
#include "gen/draft.h"
#include "gen/follow.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"

#include "checkpoint/mistake.h"

enum { DEFAULT_CTX = 4096 };

int rope_override(Config *config, const Options *o, const char *what, Error *e) {
    RopeConfig *r = &config->rope;
    bool any =
        o->rope_theta > 0 || o->rope_scaling >= 0 || o->rope_factor > 0 || o->rope_original_ctx || o->rope_pairing >= 0;
    if (!any) return 0;
    if (config->pos != POS_ROPE)
        return fail(e, "%s: --rope-*: expected a model with RoPE, found one with learned positions", what);
    if (o->rope_theta > 0) r->theta = o->rope_theta;
    if (o->rope_pairing >= 0) r->pairing = (RopePairing)o->rope_pairing;
    if (o->rope_scaling >= 0) {
        r->scaling = (RopeScaling)o->rope_scaling;
        r->freq_factors = NULL; /* the file's rule as numbers: this one is in its place */
        if (r->original_ctx < 1) r->original_ctx = config->n_ctx;
        if (r->low_freq_factor <= 0) r->low_freq_factor = 1;
        if (r->high_freq_factor <= 0) r->high_freq_factor = 4;
        if (r->beta_fast <= 0) r->beta_fast = 32;
        if (r->beta_slow <= 0) r->beta_slow = 1;
        r->attention_factor = 0;
    }
    if (r->scaling == ROPE_SCALING_NONE && (o->rope_factor > 0 || o->rope_original_ctx))
        return fail(e, "%s: %s: expected a rule that uses it (--rope-scaling), found %s", what,
                    o->rope_factor > 0 ? "--rope-factor" : "--rope-original-ctx",
                    r->freq_factors ? "frequencies that the file has scaled already" : "none");
    bool divides = r->scaling != ROPE_SCALING_NONE && r->scaling != ROPE_SCALING_LONGROPE;
    if (o->rope_factor > 0) r->factor = o->rope_factor;
    else if (o->rope_scaling >= 0 && divides && !(r->factor >= 1))
        return fail(e, "%s: --rope-factor: expected a number from 1 with --rope-scaling %s, found none", what,
                    rope_scaling_name[r->scaling]);
    if (o->rope_original_ctx) r->original_ctx = o->rope_original_ctx;
    return rope_check(r, config->head_dim, what, e);
}

int tokens_check(const int *ids, int n, int vocab_size, Error *e) {
    for (int i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= vocab_size)
            return fail(e, "--tokens: token %d: expected an id from 0 to %d, found %d", i, vocab_size - 1, ids[i]);
    return 0;
}

/* A pipe or a file as standard input. /dev/null, a terminal and a socket are no prompt: nobody may ever close them. */
static bool stdin_is_given(void) {
    struct stat st;
    return fstat(STDIN_FILENO, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISREG(st.st_mode));
}

static int hex_digit(char c) {
    const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c | 0x20) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* \n \t \\ \" \xHH, in place. */
static int unescape(char *text, size_t *size, Error *e) {
    static const char names[] = "nt\\\"", values[] = "\n\t\\\"";
    size_t n = 0;
    for (size_t i = 0; i < *size; i++) {
        const char *at = text[i] == '\\' && text[i + 1] ? strchr(names, text[i + 1]) : NULL;
        if (text[i] != '\\') {
            text[n++] = text[i];
        } else if (at) {
            text[n++] = values[at - names];
            i++;
        } else if (text[i + 1] == 'x' && hex_digit(text[i + 2]) >= 0 && hex_digit(text[i + 3]) >= 0) {
            text[n++] = (char)(16 * hex_digit(text[i + 2]) + hex_digit(text[i + 3]));
            i += 3;
        } else {
            return fail(e, "--escape: expected \\n, \\t, \\\\, \\\" or \\xHH, found '%.4s'", text + i);
        }
    }
    text[ *size = n] = 0;
    return 0;
}

int options_text(const Options *o, char **text, size_t *size, Error *e) {
    if (o->prompt_file || (!o->prompt && stdin_is_given())) {
        const char *path = o->prompt_file ? o->prompt_file : "-";
        if (file_read(text, size, path, e)) return -1;
        if (text_drop_mark(*text, size, strcmp(path, "-") == 0 ? "standard input" : path, e) == 0) return 0;
        free(*text);
        *text = NULL;
        return -1;
    }
    const char *prompt = o->prompt ? o->prompt : "";
    *size = o->prompt_bytes ? o->prompt_bytes : strlen(prompt);
    *text = malloc(*size + 1);
    if (!*text) return fail(e, "prompt: memory: expected some, found none");
    memcpy(*text, prompt, *size);
    (*text)[*size] = 0;
    return o->escape ? unescape(*text, size, e) : 0;
}

/* A tokenizer that is named after the checkpoint, or has one of the usual names, beside it. */
static Tokenizer *tokenizer_beside(const char *path, Error *e) {
    static const char *const names[] = {"tokenizer.json", "tokenizer.model", "tokenizer.bin"};
    char dir[3072], candidate[4096];
    if (strlen(path) >= sizeof dir) {
        fail(e, "%.100s: path: expected a shorter one, found %zu bytes", path, strlen(path));
        return NULL;
    }
    strcpy(dir, path);
    char *slash = strrchr(dir, '/');
    if (slash) *slash = 0;
    else strcpy(dir, ".");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(candidate, sizeof candidate, "%s/%s", dir, names[i]);
        if (access(candidate, F_OK) == 0) return tokenizer_open(candidate, e);
    }
    fail(e, "%s: tokenizer: expected one in or beside the checkpoint, found none (give it with -z)", path);
    return NULL;
}

Tokenizer *session_tokenizer(const Options *o, const Checkpoint *ck, Error *e) {
    if (o->tokenizer) return tokenizer_open(o->tokenizer, e);
    if (ck->format == FORMAT_HF_DIR) return tokenizer_open(o->checkpoint, e);
    if (ck->format == FORMAT_GGUF && gguf_find(&ck->gguf, "tokenizer.ggml.model"))
        return tokenizer_from_gguf(&ck->gguf, e);
    return tokenizer_beside(o->checkpoint, e);
}

void session_add_eos(Session *s, const int *ids, int n) {
    for (int i = 0; i < n; i++) {
        bool known = ids[i] < 0 || ids[i] >= s->model.config.vocab_size;
        for (int j = 0; j < s->n_eos; j++) known |= s->eos[j] == ids[i];
        if (!known && s->n_eos < 32) s->eos[s->n_eos++] = ids[i];
    }
}

void session_note(const Tokenizer *t, const Options *o) {
    const char *note = tokenizer_note(t);
    if (note && !o->quiet) fprintf(o->log, "%s\n", note);
}

int session_ctx(const Options *o, const Config *c) { return o->ctx == 0 ? c->n_ctx : o->ctx < 0 ? 0 : o->ctx; }

int session_state(Session *s, const Options *o, int n_ctx, Error *e) {
    if (session_ranks(s, o, e)) return -1;
    const Config *c = &s->model.config;
    StateOptions so = {.n_ctx = n_ctx ? n_ctx : session_ctx(o, c),
                       .n_batch = o->batch,
                       .n_texts = o->parallel,
                       .n_logits = o->parallel > 1 ? o->parallel : drafts_rows(o),
                       .n_threads = o->threads,
                       .kv_type = o->kv_type,
                       .deterministic = o->deterministic};
    if (so.n_threads == 0) so.n_threads = model_default_threads(&s->model);
    if (kv_type_check(so.kv_type, c->head_dim, o->checkpoint, e)) return -1;
    bool free_choice = so.n_ctx == 0;
    if (free_choice) so.n_ctx = c->n_ctx < DEFAULT_CTX ? c->n_ctx : DEFAULT_CTX;
    if (c->pos == POS_LEARNED && so.n_ctx > c->n_ctx)
        return fail(e, "%s: context: expected at most %d (learned positions end there), found %d", o->checkpoint,
                    c->n_ctx, so.n_ctx);
    if (so.n_batch > so.n_ctx) so.n_batch = so.n_ctx;
    size_t limit = memory_available("");
    while (free_choice && so.n_ctx > 128 && state_bytes(&s->model, &so) > limit) {
        so.n_ctx /= 2;
        if (so.n_batch > so.n_ctx) so.n_batch = so.n_ctx;
    }
    if (so.n_batch < so.n_logits) so.n_batch = so.n_logits; /* a token of each text, or all that are drafted */
    if (state_fits(&s->model, &so, o->checkpoint, e)) return -1;
    int processors = o->threads > 1 && !o->quiet ? team_processors() : o->threads; /* asked only where it counts */
    if (o->threads > processors)
        fprintf(o->log, "threads: %d on %d processors wait for each other (see -j)\n", o->threads, processors);
    if (free_choice && so.n_ctx < c->n_ctx && so.n_ctx < DEFAULT_CTX && !o->quiet)
        fprintf(o->log, "context: %d of the model's %d, as memory allows\n", so.n_ctx, c->n_ctx);
    if (so.n_ctx > c->n_ctx && !o->quiet)
        fprintf(o->log, "context: %d is beyond the %d that the model was made for (see --rope-scaling)\n", so.n_ctx,
                c->n_ctx);
    if (state_init(&s->state, &s->model, &so, e)) return -1;
    if (o->check) tripwire_set(&s->tripwire, &s->state, &s->model, o->checkpoint);
    return 0;
}

int session_check_cache(const Session *s, const KvCache *cache, Error *e) {
    if (!kv_cache_overflowed(cache)) return 0;
    return fail(e,
                "%s: KV cache: expected keys and values up to %g, the most that %s holds, found a larger one (give "
                "--kv-type f32)",
                s->checkpoint.path, kv_largest(cache->type), cache->type == KV_F16 ? "f16" : "q8_0");
}

int session_check(const Session *s, Error *e) {
    return session_check_cache(s, &s->state.attn.cache, e) ? -1 : tripwire_check(&s->tripwire, e);
}

int session_open(Session *s, const Options *o, int parts, Error *e) {
    *s = (Session){0};
    Config config;
    Weights weights;
    if (checkpoint_open(&s->checkpoint, o->checkpoint, e)) return -1;
    if (checkpoint_bind(&s->checkpoint, &config, &weights, e)) goto failed;
    if (rope_override(&config, o, o->checkpoint, e)) goto failed;
    if (mistake_make(&s->checkpoint, &config, &weights, o->mistake, session_ctx(o, &config), e)) goto failed;
    model_init(&s->model, &config, &weights);
    if (o->precise == SWITCH_ON) s->model.int8 = false;
    session_add_eos(s, s->checkpoint.eos, s->checkpoint.n_eos);
    /* llama2.c's models put BOS between two stories: its run.c ends there too. */
    if (s->checkpoint.format == FORMAT_LLAMA2C) session_add_eos(s, &s->checkpoint.bos, 1);
    if (parts & SESSION_TOKENIZER) {
        if (!(s->tokenizer = session_tokenizer(o, &s->checkpoint, e))) goto failed;
        int n = tokenizer_vocab_size(s->tokenizer), ids[16];
        /* An embedding may be padded beyond the vocabulary; a vocabulary beyond the embedding is another model's, but
         * for tokens that the files of the same directory add and that the model never learned. */
        bool padded = s->checkpoint.format == FORMAT_HF_DIR || s->checkpoint.format == FORMAT_SAFETENSORS;
        bool added = s->checkpoint.format == FORMAT_HF_DIR && !o->tokenizer;
        bool beyond = n > config.vocab_size && !(added && tokenizer_limit(s->tokenizer, config.vocab_size));
        if (beyond || (n < config.vocab_size && !padded)) {
            fail(e, "%s: tokenizer: expected %d tokens as the model has, found %d",
                 o->tokenizer ? o->tokenizer : o->checkpoint, config.vocab_size, n);
            goto failed;
        }
        session_add_eos(s, ids, tokenizer_eos(s->tokenizer, ids));
        session_note(s->tokenizer, o);
    }
    if ((parts & SESSION_STATE) && session_state(s, o, 0, e)) goto failed;
    if (o->mistake && !o->quiet) fprintf(o->log, "broken on purpose: %s\n", mistakes[o->mistake].help);
    return 0;
failed:
    session_close(s);
    return -1;
}

void session_close(Session *s) {
    state_close(&s->state);
    shard_close(&s->shard);
    tokenizer_close(s->tokenizer);
    checkpoint_close(&s->checkpoint);
    *s = (Session){0};
}

int session_prompt(const Session *s, const Options *o, int **ids, int *n, char **text, size_t *size, Error *e) {
    int vocab = s->model.config.vocab_size;
    *ids = NULL;
    *text = NULL;
    *n = 0;
    if (o->tokens) {
        if (tokens_check(o->tokens, o->n_tokens, vocab, e)) return -1;
        *ids = malloc(((size_t)o->n_tokens + 1) * sizeof **ids);
        if (!*ids) return fail(e, "prompt: memory: expected some, found none");
        memcpy(*ids, o->tokens, (size_t)o->n_tokens * sizeof **ids);
        *n = o->n_tokens;
    } else {
        unsigned how = (o->no_special ? 0 : TOKENIZE_SPECIAL) | (o->no_bos ? 0 : TOKENIZE_BOS);
        if (options_text(o, text, size, e) || tokenizer_encode(s->tokenizer, *text, *size, how, ids, n, e)) return -1;
        int first = tokenizer_bos(s->tokenizer);
        if (*n > 1 && first >= 0 && (*ids)[0] == first && (*ids)[1] == first && !o->quiet)
            fprintf(o->log, "prompt: begins with BOS twice: the tokenizer adds one (leave it out, or give --no-bos)\n");
    }
    if (*n) return 0;
    /* No prompt: generation starts at BOS, whether or not the tokenizer puts it before a text. */
    int bos = s->tokenizer ? tokenizer_bos(s->tokenizer) : -1;
    if (bos < 0 || bos >= vocab) bos = s->checkpoint.bos;
    if (bos < 0 || bos >= vocab)
        return fail(e, "%s: prompt: expected some text or a BOS token, found neither", o->checkpoint);
    int *one = realloc(*ids, sizeof *one);
    if (!one) return fail(e, "prompt: memory: expected some, found none");
    one[0] = bos;
    *ids = one;
    *n = 1;
    return 0;
}
