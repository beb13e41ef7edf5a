#include "convert/convert.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "convert/carry.h"
#include "convert/writer.h"

/* ---- Temporary names ----------------------------------------------------------------------------- */

/* Runs body on a new file; on any failure the file is gone. */
static int write_file(Writer *w, const char *path, int (*body)(Writer *w)) {
    w->path = path;
    w->file = fopen(path, "wbx");
    if (!w->file) return fail(w->e, "%s: file: expected to create it, found %s", path, strerror(errno));
    int status = body(w);
    if (!status && (fflush(w->file) || ferror(w->file) || fsync(fileno(w->file))))
        status = fail(w->e, "%s: writing: expected success, found %s", path, strerror(errno ? errno : EIO));
    if (fclose(w->file) && !status)
        status = fail(w->e, "%s: writing: expected success, found %s", path, strerror(errno));
    if (status) unlink(path);
    return status;
}

static int copy_body(Writer *w) {
    write_mapped(w, w->copied->data, w->copied->size);
    return 0;
}

static int text_body(Writer *w) {
    write_bytes(w, w->text, strlen(w->text));
    return 0;
}

/* What a directory may hold: the model, and the tokenizer's files of a Hugging Face directory, which go along. */
static const char *const names[] = {
    "config.json", "model.safetensors",     "tokenizer.json",          "tokenizer.model",       "vocab.json",
    "merges.txt",  "tokenizer_config.json", "special_tokens_map.json", "generation_config.json"};
enum { N_NAMES = sizeof names / sizeof *names, FIRST_TOKENIZER_FILE = 2, AFTER_VOCABULARIES = 5 };

static int copy_tokenizer(Writer *w, const char *from_dir, const char *to_dir, bool *carried) {
    for (int i = FIRST_TOKENIZER_FILE; i < N_NAMES; i++) {
        char from[8192], to[8192];
        File file;
        snprintf(from, sizeof from, "%s/%s", from_dir, names[i]);
        snprintf(to, sizeof to, "%s/%s", to_dir, names[i]);
        if (access(from, F_OK) != 0) continue;
        int understood = carry_understands(from, names[i], w->e);
        if (understood < 0) return -1;
        if (!understood) continue;
        if (file_map(&file, from, w->e)) return -1;
        w->copied = &file;
        int status = write_file(w, to, copy_body);
        w->copied = NULL;
        file_close(&file);
        if (status) return -1;
        *carried |= i < AFTER_VOCABULARIES;
    }
    return 0;
}

void convert_remove(const char *temporary) {
    if (!*temporary || unlink(temporary) == 0) return;
    int directory = open(temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return;
    for (int i = 0; i < N_NAMES; i++) unlinkat(directory, names[i], 0);
    close(directory);
    rmdir(temporary);
}

static int write_directory(Writer *w, const char *temporary, bool *carried) {
    char file[8192];
    if (mkdir(temporary, 0755))
        return fail(w->e, "%s: directory: expected to create it, found %s", temporary, strerror(errno));
    snprintf(file, sizeof file, "%s/config.json", temporary);
    int status = write_file(w, file, write_config);
    snprintf(file, sizeof file, "%s/model.safetensors", temporary);
    if (!status) status = write_file(w, file, write_safetensors);
    const char *const texts[][2] = {{"tokenizer.json", w->options->tokenizer_json},
                                    {"tokenizer_config.json", w->options->tokenizer_config}};
    for (int i = 0; i < 2 && !status && texts[0][1]; i++) {
        snprintf(file, sizeof file, "%s/%s", temporary, texts[i][0]);
        w->text = texts[i][1];
        status = write_file(w, file, text_body);
        *carried = !status;
    }
    if (!status && w->ck->format == FORMAT_HF_DIR && !texts[0][1])
        status = copy_tokenizer(w, w->ck->path, temporary, carried);
    return status;
}

/* A signal handler may look at any time, and half of the name is that of another file: its first byte comes last. */
static void publish(char *to, const char *name) {
    if (!to) return;
    memcpy(to + 1, name + 1, strlen(name));
    atomic_signal_fence(memory_order_seq_cst);
    to[0] = name[0];
}

/* ---- What is written ----------------------------------------------------------------------------- */

static bool biases_fit(Bias rule, bool qkv, bool there) {
    return rule == BIAS_BY_KEY || (rule == BIAS_AS_QKV ? there == qkv : there == (rule == BIAS_ALWAYS));
}

/* Has the family nothing that sets it apart from a LLaMA but its switches and biases? */
static bool plain(const Arch *a) {
    unsigned others = ~(unsigned)(ARCH_WHOLE_ROTARY | ARCH_USE_WINDOW | ARCH_LAYER_TYPES | ARCH_SWITCHES);
    return !(a->traits & others) && !a->tensors && !a->qk_norm && a->style == STYLE_HF;
}

/* Can a file of the family say which switches and biases a model has? A GGUF holds biases or not, whatever the family.
 */
static bool family_fits(const Arch *a, bool gguf, const Config *c, const Weights *w) {
    const Layer *l = &w->layers[0];
    bool qkv = l->attn.bq, all = qkv == (l->attn.bk != NULL) && qkv == (l->attn.bv != NULL);
    bool switches = (a->traits & ARCH_SWITCHES) && !gguf;
    if (!switches && (a->norm != c->norm || (a->ffn != c->ffn && gguf) || a->pos != c->pos)) return false;
    if (ffn_is_gated(a->ffn) != ffn_is_gated(c->ffn) && !switches) return false;
    if (gguf) return a->gguf;
    return all && biases_fit(a->qkv_bias, qkv, qkv) && biases_fit(a->out_bias, qkv, l->attn.bo) &&
           biases_fit(a->mlp_bias, qkv, l->moe.experts ? l->moe.experts->b_up : l->ffn.b_up);
}

/* The family of the file to write: the model's, or the first that fits where neither has anything else. */
static const Arch *target_family(const Checkpoint *ck, bool gguf, const Config *c, const Weights *w, Error *e) {
    if (family_fits(ck->family, gguf, c, w)) return ck->family;
    for (const Arch *a = archs; a < archs + n_archs && plain(ck->family); a++)
        if (plain(a) && family_fits(a, gguf, c, w)) return a;
    fail(e, "%s: architecture: expected one that the output's format has, found a %s with its switches and biases",
         ck->path, ck->arch);
    return NULL;
}

typedef enum { TO_GGUF, TO_LLAMA2C, TO_DIRECTORY } Output;

static int check_output(const Checkpoint *ck, const char *output, Output kind, Error *e) {
    struct stat st, mine;
    if (stat(output, &st)) return 0;
    if (kind == TO_DIRECTORY) {
        DIR *d = opendir(output);
        const struct dirent *entry;
        if (!d) return fail(e, "%s: directory: expected a new or empty one, found %s", output, strerror(errno));
        while ((entry = readdir(d)) && (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))) {}
        closedir(d);
        return entry ? fail(e, "%s: directory: expected a new or empty one, found one with files", output) : 0;
    }
    if (S_ISDIR(st.st_mode)) return fail(e, "%s: file: expected a file's name, found a directory", output);
    for (int i = 0; i < ck->n_files; i++)
        if (stat(ck->files[i].path, &mine) == 0 && mine.st_ino == st.st_ino && mine.st_dev == st.st_dev)
            return fail(e, "%s: output: expected another file than the input, found the same", output);
    return 0;
}

static int write_output(Writer *w, Output kind, const char *temporary, bool *carried) {
    if (kind == TO_DIRECTORY) return write_directory(w, temporary, carried);
    *carried = kind == TO_GGUF && (w->options->tokenizer ||
                                   (w->ck->format == FORMAT_GGUF && gguf_find(&w->ck->gguf, "tokenizer.ggml.tokens")));
    return write_file(w, temporary, kind == TO_GGUF ? write_gguf : write_llama2c);
}

/* The target's config: the pairing of its files, and the KV heads that are wanted. */
static int target_config(Writer *w, const ConvertOptions *o, Output kind) {
    if (w->source->pos == POS_ROPE)
        w->config.rope.pairing = kind == TO_LLAMA2C ? ROPE_PAIRS
                                 : kind == TO_GGUF  ? w->family->gguf_pairing
                                                    : w->family->hf_pairing;
    if (!o->kv_heads) return 0;
    if (w->source->n_kv_heads % o->kv_heads)
        return fail(w->e, "--kv-heads: expected a divisor of the %d heads there are, found %d", w->source->n_kv_heads,
                    o->kv_heads);
    if (w->source->attn.qk_norm == QK_NORM_WHOLE || w->source->attn.qk_norm == QK_NORM_EACH_HEAD)
        return fail(w->e, "--kv-heads: expected keys without a norm for each head, found a %s", w->ck->arch);
    w->config.n_kv_heads = o->kv_heads;
    return 0;
}

int checkpoint_convert(const Checkpoint *ck, const Config *config, const Weights *weights, const ConvertOptions *o,
                       bool *carried, Error *e) {
    Writer w = {.ck = ck, .config = *config, .source = config, .weights = weights, .options = o, .e = e};
    char temporary[CONVERT_NAME], output[CONVERT_NAME];
    *carried = false;
    RopeConfig *rope = &w.config.rope;
    if (rope->scaling == ROPE_SCALING_NTK) { /* another base and nothing else: every format holds it */
        rope->theta = rope_base(rope, 0);
        rope->scaling = ROPE_SCALING_NONE;
    }
    size_t length = strlen(o->output);
    while (length > 1 && o->output[length - 1] == '/') length--;
    if (length == 0 || length > CONVERT_NAME - 32) return fail(e, "--output: expected a name, found %zu bytes", length);
    snprintf(output, sizeof output, "%.*s", (int)length, o->output);
    Output kind = path_ends_with(output, ".gguf")  ? TO_GGUF
                  : path_ends_with(output, ".bin") ? TO_LLAMA2C
                                                   : TO_DIRECTORY;
    if (check_output(ck, output, kind, e)) return -1;
    if (kind == TO_DIRECTORY && o->mix && mix_base(o->mix) > DTYPE_BF16)
        return fail(e, "--type: expected f32, f16 or bf16 for a Hugging Face directory, found %s", mix_name(o->mix));
    if (kind == TO_LLAMA2C) w.family = ck->family;
    else if (!(w.family = target_family(ck, kind == TO_GGUF, config, weights, e))) return -1;
    w.style = kind == TO_DIRECTORY ? w.family->style : STYLE_GGUF;
    w.config.norm_offset = kind == TO_DIRECTORY && (w.family->traits & ARCH_PLUS_1) ? 1 : 0;
    if (target_config(&w, o, kind) || (kind != TO_LLAMA2C && check_sayable(&w))) return -1;
    size_t widest = (size_t)config->dim;
    if (widest < 2 * (size_t)config->hidden_dim) widest = 2 * (size_t)config->hidden_dim; /* gate and up */
    if (widest < (size_t)config->moe.shared_dim) widest = (size_t)config->moe.shared_dim;
    if (widest < (size_t)config->moe.dense_dim) widest = (size_t)config->moe.dense_dim;
    if (widest < (size_t)config->n_heads * (size_t)config->head_dim)
        widest = (size_t)config->n_heads * (size_t)config->head_dim;
    w.row = malloc(widest * sizeof(float));
    w.sum = malloc(widest * sizeof(float));
    w.packed = malloc(widest * sizeof(float) + 64);
    snprintf(temporary, sizeof temporary, "%.*s.%ld.part", (int)length, output, (long)getpid());
    publish(o->temporary, temporary);
    int status = w.row && w.sum && w.packed ? write_output(&w, kind, temporary, carried)
                                            : fail(e, "%s: memory: expected some, found none", output);
    if (!status && rename(temporary, output)) /* an empty directory of that name is replaced */
        status = fail(e, "%s: file: expected to rename it, found %s", output, strerror(errno));
    if (status) convert_remove(temporary);
    if (o->temporary) o->temporary[0] = 0;
    free(w.row);
    free(w.sum);
    free(w.packed);
    return status;
}
