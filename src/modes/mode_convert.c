#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "modes/modes.h"
#include "gen/progress.h"
#include "gen/session.h"

/* A name that is not .gguf or .bin is a directory's. One that ends in other letters (model.guf, out.GGUF, x.txt) is a
 * slip; a slash behind it, or a directory that is there already, says that it is meant. */
static bool is_known_ending(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    if (!*path || strcmp(path, "-") == 0) return false;
    if (!dot || dot == name || !dot[1] || strcmp(dot, ".gguf") == 0 || strcmp(dot, ".bin") == 0) return true;
    for (const char *c = dot + 1; *c; c++)
        if (!isalpha((unsigned char)*c)) return true; /* Llama-3.2, SmolLM-1.7B */
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The vocabulary in the form of the output: that of -z, or of the file that is read, its directory or beside it. Left
 * out where it goes along anyway, where there is none, or where the output cannot say its rules (why), but one that -z
 * names must be there. */
static int read_tokenizer(const Session *s, const Options *o, GgufKeys *keys, HfTokenizer *files,
                          char why[TOKENIZER_WHY], Error *e) {
    bool to_gguf = path_ends_with(o->output, ".gguf"), from_gguf = s->checkpoint.format == FORMAT_GGUF;
    bool has = from_gguf ? gguf_find(&s->checkpoint.gguf, "tokenizer.ggml.tokens") != NULL
                         : s->checkpoint.format == FORMAT_HF_DIR;
    Error none = {0};
    if (path_ends_with(o->output, ".bin") || (!o->tokenizer && has && to_gguf == from_gguf)) return 0;
    Tokenizer *t = session_tokenizer(o, &s->checkpoint, &none);
    if (!t && (o->tokenizer || error_is_memory(&none))) return fail_again(e, &none);
    int status = 0;
    if (t && to_gguf) status = tokenizer_gguf_keys(t, s->model.config.vocab_size, keys, why, e);
    else if (t) status = tokenizer_hf_files(t, files, why, e);
    tokenizer_close(t);
    return status;
}

/* A block type for weights that were rounded to another one before: both errors add up. NULL: they were not. */
static const char *quantized_before(const Weights *w, const Mix *mix) {
    const Layer *l = &w->layers[0];
    DType from = l->moe.experts ? l->moe.experts->w_down.dtype : l->ffn.w_down.dtype;
    bool again = mix && dtype_info[from].block_values > 1 && dtype_info[mix_base(mix)].block_values > 1;
    return again && from != mix_base(mix) ? dtype_info[from].name : NULL;
}

static void show_bytes(void *progress, uint64_t done, uint64_t total) { progress_bytes(progress, done, total); }

int mode_convert(const Options *o, FILE *out, Error *e) {
    Session s;
    ConvertOptions options = {
        .output = o->output, .kv_heads = o->kv_heads, .stop = &interrupted, .temporary = unfinished};
    if (!o->output) {
        fail(e, "--output: expected the name of the file to write, found none");
        return 2;
    }
    if (!is_known_ending(o->output)) {
        fail(e,
             "--output: expected .gguf, .bin or a directory (a name without an ending or with / behind it), found "
             "'%.100s'",
             o->output);
        return 2;
    }
    if (o->type && !(options.mix = mix_named(o->type))) {
        char names[256];
        fail(e, "--type: expected %s, found %.40s", mix_names(names, sizeof names), o->type);
        return 2;
    }
    if (session_open(&s, o, 0, e)) return 1;
    bool carried;
    GgufKeys keys = {0};
    HfTokenizer files = {0};
    char why[TOKENIZER_WHY] = "";
    int found = read_tokenizer(&s, o, &keys, &files, why, e);
    if (found < 0) {
        session_close(&s);
        return 1;
    }
    if (found && !files.json) options.tokenizer = &keys;
    options.tokenizer_json = files.json;
    options.tokenizer_config = files.config;
    Progress progress;
    progress_begin(&progress, o->log, "convert", o->quiet);
    options.progress = show_bytes;
    options.progress_arg = &progress;
    int status = checkpoint_convert(&s.checkpoint, &s.model.config, &s.model.weights, &options, &carried, e);
    progress_end(&progress);
    if (!status && o->json) {
        fputs("{\"output\": ", out);
        text_print_json(out, o->output, strlen(o->output));
        fprintf(out, ", \"tokenizer\": %s}\n", carried ? "true" : "false");
    }
    free(keys.data);
    hf_tokenizer_free(&files);
    if (!status && !o->quiet && *why)
        fprintf(o->log, "%s: written without the tokenizer: %s%s\n", o->output, why,
                o->tokenizer ? "" : " (give the original with -z)");
    else if (!status && !o->quiet)
        fprintf(o->log, "%s: written%s\n", o->output,
                carried ? ", tokenizer included" : " (give the tokenizer with -z)");
    const char *before = status || o->quiet ? NULL : quantized_before(&s.model.weights, options.mix);
    if (before)
        fprintf(o->log,
                "note: these weights were quantized before (%s): %s of the original file is closer to the model\n",
                before, mix_name(options.mix));
    session_close(&s);
    if (status && interrupted) {
        e->text[0] = 0; /* a write that the signal cut short is no failure */
        return 130;
    }
    return status ? 1 : 0;
}
