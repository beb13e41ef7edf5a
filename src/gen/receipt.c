#include "gen/receipt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "io/json.h"
#include "kernels/kernels.h"

static void hash_text(const char *text, size_t n, char hex[SHA256_HEX]) {
    Sha256 s;
    sha256_begin(&s);
    sha256_add(&s, text, n);
    sha256_end(&s, hex);
}

/* All files of the checkpoint, one after the other. */
static void hash_model(const Checkpoint *c, char hex[SHA256_HEX]) {
    Sha256 s;
    sha256_begin(&s);
    for (int i = 0; i < c->n_files; i++) sha256_add(&s, c->files[i].data, c->files[i].size);
    sha256_end(&s, hex);
}

void receipt_free(Receipt *r) {
    if (!r) return;
    for (int i = 0; i < r->n_flags; i++) free(r->flags[i]);
    free(r->flags);
    free(r->tokens);
    free(r->model);
    free(r);
}

static int copy_text(char *out, size_t room, const cJSON *root, const char *key, const char *path, Error *e) {
    const cJSON *x = cJSON_GetObjectItemCaseSensitive(root, key);
    if (!cJSON_IsString(x) || strlen(x->valuestring) >= room)
        return fail(e, "%s: %s: expected a short text, found another value", path, key);
    strcpy(out, x->valuestring);
    return 0;
}

static int read_lists(Receipt *r, const cJSON *root, Error *e) {
    const cJSON *flags = cJSON_GetObjectItemCaseSensitive(root, "flags"), *x;
    const cJSON *tokens = cJSON_GetObjectItemCaseSensitive(root, "tokens");
    const cJSON *model = cJSON_GetObjectItemCaseSensitive(root, "model");
    if (!cJSON_IsArray(flags) || !cJSON_IsArray(tokens) || !cJSON_IsString(model))
        return fail(e, "%s: expected model, flags and tokens, found no such receipt", r->path);
    r->flags = calloc((size_t)cJSON_GetArraySize(flags) + 1, sizeof *r->flags);
    r->tokens = calloc((size_t)cJSON_GetArraySize(tokens) + 1, sizeof *r->tokens);
    r->model = strdup(model->valuestring);
    if (!r->flags || !r->tokens || !r->model) return fail(e, "%s: memory: expected some, found none", r->path);
    cJSON_ArrayForEach(x, flags) {
        if (!cJSON_IsString(x)) return fail(e, "%s: flags: expected texts, found another value", r->path);
        if (!(r->flags[r->n_flags] = strdup(x->valuestring)))
            return fail(e, "%s: memory: expected some, found none", r->path);
        r->n_flags++;
    }
    cJSON_ArrayForEach(x, tokens) {
        if (!cJSON_IsNumber(x)) return fail(e, "%s: tokens: expected ids, found another value", r->path);
        r->tokens[r->n_tokens++] = x->valueint;
    }
    return 0;
}

Receipt *receipt_read(const char *path, Error *e) {
    cJSON *root = json_read(path, e);
    Receipt *r = root ? calloc(1, sizeof *r) : NULL;
    if (root && !r) fail(e, "%s: memory: expected some, found none", path);
    if (r) r->path = path;
    if (r && (copy_text(r->version, sizeof r->version, root, "version", path, e) ||
              copy_text(r->cpu, sizeof r->cpu, root, "cpu", path, e) ||
              copy_text(r->model_hash, sizeof r->model_hash, root, "model_sha256", path, e) ||
              copy_text(r->prompt_hash, sizeof r->prompt_hash, root, "prompt_sha256", path, e) ||
              copy_text(r->text_hash, sizeof r->text_hash, root, "text_sha256", path, e) || read_lists(r, root, e))) {
        receipt_free(r);
        r = NULL;
    }
    cJSON_Delete(root);
    return r;
}

static void print_receipt(FILE *out, const Generator *g, const char *prompt, size_t n_prompt, const char *text,
                          size_t n_text, const int *tokens, int n_tokens) {
    char model[SHA256_HEX], of_prompt[SHA256_HEX], of_text[SHA256_HEX];
    hash_model(&g->session->checkpoint, model);
    hash_text(prompt, n_prompt, of_prompt);
    hash_text(text, n_text, of_text);
    fprintf(out, "{\"version\": \"%s\",\n \"cpu\": \"%s\",\n \"threads\": %d,\n \"model\": ", g->o->program_version,
            kernels_best()->name, team_size(g->session->state.team));
    text_print_json(out, g->o->checkpoint, strlen(g->o->checkpoint));
    fprintf(out, ",\n \"model_sha256\": \"%s\",\n \"prompt_sha256\": \"%s\",\n \"text_sha256\": \"%s\",\n", model,
            of_prompt, of_text);
    fprintf(out, " \"seed\": %llu,\n \"stop\": \"%s\",\n \"flags\": [", (unsigned long long)g->sampler.params.seed,
            g->reason);
    for (int i = 0; i < g->o->n_given; i++) {
        text_print_json(out, g->o->given[i], strlen(g->o->given[i]));
        fputs(", ", out);
    }
    fprintf(out, "\"--seed\", \"%llu\"],\n \"tokens\": [", (unsigned long long)g->sampler.params.seed);
    for (int i = 0; i < n_tokens; i++) fprintf(out, "%s%d", i ? ", " : "", tokens[i]);
    fputs("]}\n", out);
}

int receipt_write(const char *path, const Generator *g, const char *prompt, size_t n_prompt, const char *text,
                  size_t n_text, const int *tokens, int n_tokens, Error *e) {
    char aside[4096];
    if (snprintf(aside, sizeof aside, "%s.%d.part", path, (int)getpid()) >= (int)sizeof aside)
        return fail(e, "%.100s: path: expected a shorter one, found %zu bytes", path, strlen(path));
    FILE *f = fopen(aside, "wx");
    if (!f) return fail(e, "%s: expected to create it, found %s", aside, strerror(errno));
    print_receipt(f, g, prompt, n_prompt, text, n_text, tokens, n_tokens);
    bool bad = ferror(f);
    if (fclose(f) || bad || rename(aside, path)) {
        unlink(aside);
        return fail(e, "%s: writing: expected success, found %s", path, strerror(errno));
    }
    return 0;
}

int receipt_prompt(const Receipt *r, const char *prompt, size_t n, Error *e) {
    char hash[SHA256_HEX];
    hash_text(prompt, n, hash);
    if (strcmp(hash, r->prompt_hash) == 0) return 0;
    return fail(e, "%s: prompt: expected that of sha256 %.12s, found %.12s", r->path, r->prompt_hash, hash);
}

int receipt_compare(const Receipt *r, const Generator *g, const char *text, size_t n_text, const int *tokens,
                    int n_tokens, Error *e) {
    char model[SHA256_HEX], of_text[SHA256_HEX];
    hash_text(text, n_text, of_text);
    hash_model(&g->session->checkpoint, model);
    bool same_model = strcmp(model, r->model_hash) == 0;
    if (strcmp(of_text, r->text_hash) == 0) {
        if (!same_model && !g->o->quiet)
            fprintf(g->o->log, "replay: the same text of another model: sha256 %.12s, the receipt's %.12s\n", model,
                    r->model_hash);
        return 0;
    }
    int same = 0;
    while (same < n_tokens && same < r->n_tokens && tokens[same] == r->tokens[same]) same++;
    return fail(e,
                "%s: text: expected the receipt's, found another from token %d on (model: %s; version: %s, here %s; "
                "CPU level: %s, here %s)",
                r->path, same, same_model ? "the same" : "another", r->version, g->o->program_version, r->cpu,
                kernels_best()->name);
}
