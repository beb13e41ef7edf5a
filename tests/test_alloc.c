/* What happens when memory runs out: every mode of the program is run again and again, and each time another
 * allocation fails, alone or with all that come after it. A run must end with the error of a lack of memory, or
 * do all its work without; it must print nothing wrong, leak nothing and leave no half file.
 *
 * The program's own malloc and mmap stand before the C library's, so that the allocations of cJSON, Oniguruma,
 * sentencepiece and of the C library itself are counted and failed too. */
#include <dirent.h>
#include <errno.h>
#include <oniguruma.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gen/generate.h"
#include "modes/modes.h"

#include <cmocka.h> /* last: it makes a macro of fail */

/* ---- Allocations that are counted, and fail when told -------------------------------------------- */

static long n_calls;       /* since the run began */
static long fail_at;       /* this one fails; 0: none */
static bool and_all_after; /* so do the later ones */
static long n_failed;
static long n_live; /* blocks that are not freed */
static bool spared; /* Oniguruma reads an expression, which it does not survive; regex.c asks for the memory before */

static bool refuse(void) {
    if (spared) return false;
    n_calls++;
    if (!fail_at || n_calls < fail_at || (n_calls > fail_at && !and_all_after)) return false;
    n_failed++;
    errno = ENOMEM;
    return true;
}

/* AddressSanitizer has its own allocator, and its own way to find leaks. */
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifdef SANITIZED
#define REAL(name) __interceptor_##name
int __lsan_do_recoverable_leak_check(void);
static int leaked(void) { return __lsan_do_recoverable_leak_check(); }
#else
#define REAL(name) __libc_##name
static int leaked(void) { return 0; }
#endif
void *REAL(malloc)(size_t n);
void *REAL(calloc)(size_t n, size_t each);
void *REAL(realloc)(void *p, size_t n);
void *REAL(memalign)(size_t alignment, size_t n);
void REAL(free)(void *p);

static void *counted(void *p) {
    n_live += p != NULL;
    return p;
}

void *malloc(size_t n) { return refuse() ? NULL : counted(REAL(malloc)(n)); }
void *calloc(size_t n, size_t each) { return refuse() ? NULL : counted(REAL(calloc)(n, each)); }
void *aligned_alloc(size_t alignment, size_t n) { return refuse() ? NULL : counted(REAL(memalign)(alignment, n)); }
int posix_memalign(void **out, size_t alignment, size_t n) {
    void *p = aligned_alloc(alignment, n);
    if (p) *out = p;
    return p ? 0 : ENOMEM;
}
void *realloc(void *p, size_t n) {
    if (refuse()) return NULL;
    void *q = REAL(realloc)(p, n);
    n_live += (q != NULL) - (p != NULL && (q != NULL || n == 0));
    return q;
}
void free(void *p) {
    n_live -= p != NULL;
    REAL(free)(p);
}
void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset) {
    return refuse() ? MAP_FAILED : counted((void *)syscall(SYS_mmap, at, n, protection, flags, fd, offset));
}
int munmap(void *p, size_t n) {
    n_live--;
    return (int)syscall(SYS_munmap, p, n);
}

int __real_onig_new(OnigRegex *r, const OnigUChar *begin, const OnigUChar *end, OnigOptionType option,
                    OnigEncoding encoding, OnigSyntaxType *syntax, OnigErrorInfo *info);
int __wrap_onig_new(OnigRegex *r, const OnigUChar *begin, const OnigUChar *end, OnigOptionType option,
                    OnigEncoding encoding, OnigSyntaxType *syntax, OnigErrorInfo *info);
int __wrap_onig_new(OnigRegex *r, const OnigUChar *begin, const OnigUChar *end, OnigOptionType option,
                    OnigEncoding encoding, OnigSyntaxType *syntax, OnigErrorInfo *info) {
    spared = true;
    int status = __real_onig_new(r, begin, end, option, encoding, syntax, info);
    spared = false;
    return status;
}

/* ---- The runs ------------------------------------------------------------------------------------ */

static char folder[] = "/tmp/test_alloc.XXXXXX";
static char tokenizer[64], questions[64], prompts[64];
static const char *running;

static void on_crash(int number) {
    char text[400];
    int n = snprintf(text, sizeof text, "signal %d in '%s', allocation %ld%s failed\n", number, running, fail_at,
                     and_all_after ? " and all after it" : "");
    ssize_t ignored = write(STDERR_FILENO, text, (size_t)n);
    (void)ignored;
    signal(number, SIG_DFL);
    raise(number);
}

/* A llama2.c tokenizer of 64 tokens for the small models: BOS and its like, letters, and a few words. */
static void write_tokenizer(const char *path) {
    static const char *const words[] = {"<unk>", "\n<s>\n", "\n</s>\n", " the", " a", "he", "in", "er"};
    FILE *f = fopen(path, "wb");
    int32_t longest = 6;
    assert_non_null(f);
    fwrite(&longest, sizeof longest, 1, f);
    for (int id = 0; id < 64; id++) {
        char letter[2] = {id < 8 ? 0 : id == 8 ? ' ' : (char)('A' + id - 9), 0};
        const char *text = id < 8 ? words[id] : letter;
        float score = (float)-id;
        int32_t n = (int32_t)strlen(text);
        fwrite(&score, sizeof score, 1, f);
        fwrite(&n, sizeof n, 1, f);
        fwrite(text, 1, (size_t)n, f);
    }
    fclose(f);
}

static int setup(void **state) {
    (void)state;
    signal(SIGSEGV, on_crash);
    signal(SIGABRT, on_crash);
    if (!mkdtemp(folder)) return -1;
    snprintf(tokenizer, sizeof tokenizer, "%s/tokenizer.bin", folder);
    snprintf(questions, sizeof questions, "%s/questions", folder);
    snprintf(prompts, sizeof prompts, "%s/prompts", folder);
    write_tokenizer(tokenizer);
    FILE *f = fopen(questions, "w");
    if (!f) return -1;
    fputs("A\nhe\n", f);
    fclose(f);
    f = fopen(prompts, "w");
    assert_non_null(f);
    fputs("{\"prompt\": \"AB\", \"stop\": [\"x\"]}\n{\"tokens\": [1, 40]}\n"
          "{\"messages\": [{\"role\": \"user\", \"content\": \"C\"}]}\n",
          f);
    fclose(f);
    return freopen(questions, "r", stdin) ? 0 : -1;
}

/* Removes what a convert wrote; returns how many names there were. */
static int clean_output(void) {
    static const char *const names[] = {"out.gguf",           "out.bin", "out/config.json", "out/model.safetensors",
                                        "out/tokenizer.json", "out"};
    int n = 0;
    char path[300];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        n += remove(path) == 0;
    }
    return n;
}

static int files_in_folder(void) {
    DIR *d = opendir(folder);
    int n = 0;
    assert_non_null(d);
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

static int teardown(void **state) {
    (void)state;
    remove(tokenizer);
    remove(questions);
    remove(prompts);
    return rmdir(folder);
}

/* Runs the words of a command line as run.c does. What it prints goes to out. */
static int run(const char *line, FILE *out, FILE *log, Error *e) {
    static char words[1024];
    char *argv[48] = {"run"};
    int argc = 1, code = 2;
    Options o;
    snprintf(words, sizeof words, "%s", line);
    for (char *at = strtok(words, " "); at && argc < 48; at = strtok(NULL, " "))
        argv[argc++] = strcmp(at, "TOK") == 0 ? tokenizer : strcmp(at, "PROMPTS") == 0 ? prompts : at;
    *e = (Error){0};
    rewind(stdin);
    n_calls = n_failed = 0;
    if (options_parse(&o, argc, argv, e) == 0) {
        o.log = log;
        code = mode_find(o.mode)->run(&o, out, e);
    }
    options_close(&o);
    fail_at = 0;
    return code;
}

static bool says_memory(const char *text) {
    return strstr(text, "memory") || strstr(text, "MiB") || strstr(text, strerror(ENOMEM));
}

enum { OUTPUT = 1 << 16 };

typedef struct {
    const char *line; /* '$' stands for the temporary folder */
    bool alone;       /* no run in which the later allocations fail too */
} Case;

static void sweep(void **state) {
    const Case *c = *state;
    static char expected[OUTPUT], found[OUTPUT];
    char line[1024], *at = line;
    for (const char *s = c->line; *s; s++) at += sprintf(at, *s == '$' ? "%s" : "%.1s", *s == '$' ? folder : s);
    running = c->line;
    FILE *log = fopen("/dev/null", "w"), *out = tmpfile();
    assert_true(log && out);
    size_t n_expected = 0;
    int before = files_in_folder(), wrote = 0, right = 0; /* verify ends with 1 when it finds a mistake */
    long calls = 0, live = 0;
    /* The first runs leave what is kept for good: OpenBLAS's buffers, stdio's, protobuf's tables. */
    for (int i = 0; i < 3; i++) {
        Error e;
        rewind(out);
        live = n_live;
        right = run(line, out, log, &e);
        if (e.text[0]) fail_msg("%s: exit %d, %s", line, right, e.text);
        fflush(out);
        calls = n_calls;
        n_expected = (size_t)ftell(out);
        assert_in_range(n_expected, 0, OUTPUT - 1);
        wrote = clean_output();
        live = n_live - live;
    }
    rewind(out);
    assert_int_equal(fread(expected, 1, n_expected, out), n_expected);
    long runs = 0, errors = 0;
    for (int sticky = 0; sticky < 2 - c->alone; sticky++) {
        and_all_after = sticky;
        for (long k = 1; k <= calls; k++, runs++) {
            Error e;
            rewind(out);
            assert_int_equal(ftruncate(fileno(out), 0), 0);
            long blocks = n_live;
            fail_at = k;
            int code = run(line, out, log, &e);
            blocks = n_live - blocks;
            fflush(out);
            size_t n = (size_t)ftell(out);
            rewind(out);
            if (n > OUTPUT || fread(found, 1, n, out) != n) fail_msg("%s: allocation %ld: output not read", line, k);
#define WRONG(...) fail_msg("%s: allocation %ld of %ld%s failed: " __VA_ARGS__)
            if (n_failed == 0) break;
            bool failed = e.text[0];
            errors += failed;
            if (failed && code != 1 && code != 2) WRONG("exit %d", line, k, calls, sticky ? " on" : "", code);
            if (failed && !says_memory(e.text)) WRONG("found '%s'", line, k, calls, sticky ? " on" : "", e.text);
            if (!failed && code != right) WRONG("exit %d without a word", line, k, calls, sticky ? " on" : "", code);
            if (n > n_expected || memcmp(found, expected, n) != 0 || (!failed && n != n_expected))
                WRONG("exit %d, printed '%.*s'", line, k, calls, sticky ? " on" : "", code, (int)(n < 200 ? n : 200),
                      found);
            int left = clean_output();
            if (left != (failed ? 0 : wrote) || files_in_folder() != before)
                WRONG("exit %d, %d files", line, k, calls, sticky ? " on" : "", code,
                      files_in_folder() - before + left);
#ifndef SANITIZED
            if (blocks > live) WRONG("%ld blocks leaked", line, k, calls, sticky ? " on" : "", blocks - live);
#endif
        }
    }
    if (leaked()) fail_msg("%s: a leak, see above", line);
    print_message("%s: %ld allocations, %ld runs, %ld ended with an error\n", c->line, calls, runs, errors);
    fclose(out);
    fclose(log);
}

#define F "tests/fixtures/"
static Case cases[] = {
    {.line = F "base_v0.bin -z TOK -m generate -j 1 -t 0 -n 12 -i A --stop xyz"},
    {.line = F "base.gguf -z TOK -j 1 -s 1 -n 12 --tokens 1,40 --kv-type f32"},
    {.line = F "base_v0.bin -z TOK -m generate -j 1 -t 0 -n 12 -i ABABAB --lookup 4"},
    {.line = F "base.gguf -z TOK -j 1 -s 1 -n 6 --tokens 1,40 --kv-type f32 --draft " F "base_v0.bin"},
    {.line = F "base_hf -z TOK -m chat --chat-template llama-2 -j 1 -t 0 -n 3 -y B -i C"},
    {.line = F "base_hf -z TOK -m batch --chat-template llama-2 -j 1 -t 0 -n 3 -f PROMPTS -o /dev/null --parallel 2"},
    {.line = F "gpt2_hf -m logits -j 1 --tokens 1,2,3 --json"},
    {.line = F "base_v2.bin -m logits -j 1 --tokens 1,2,3 --all --json"},
    {.line = F "rope_longrope.gguf -m info --json"},
    {.line = F "base_v1.bin -z TOK -m perplexity -j 1 -i AAABBBCCC"},
    {.line = F "base.gguf -m verify -r " F "base.ref.safetensors -j 1"},
    {.line = F "base_q4_0.gguf -m verify -r " F "base.ref.safetensors -j 1"},
    {.line = F "base.gguf -m verify -r " F "base.ref.safetensors -j 1 --break v-rotated"},
    {.line = F "base.gguf -m verify -r " F "base.ref.safetensors -j 1 --break k-permuted"},
    {.line = F "gpt2_hf -m verify -r " F "gpt2.ref.safetensors -j 1 --break conv1d"},
    {.line = F "biases_hf -m convert -o $/out.gguf --type q8_0"},
    {.line = F "base.gguf -m convert -o $/out.bin --type f32"},
    {.line = F "base.gguf -m convert -o $/out"},
    {.line = F "base.gguf -z TOK -m probe -j 1 -i ABCDEF"},
    {.line = "-m rope --head-dim 8"},
    {.line = F "families/gemma3_text.gguf -m kv"},
    {.line = F "tokenizers/spm.bin -m tokenize -i Hello"},
    {.line = F "tokenizers/spm.gguf -m tokenize -i Hello"},
    {.line = F "tokenizers/bpe_qwen2.gguf -m tokenize -i Hello<s>"},
    {.line = F "tokenizers/bpe_smollm -m tokenize -i Hello"},
    {.line = F "tokenizers/gpt2_files -m tokenize -i Hello"},
    {.line = F "tokenizers/metaspace -m tokenize -i Hello"},
    {.line = F "tokenizers/spm_llama -m tokenize -i Hello<z>"},
    {.line = F "tokenizers/spm_fast -m tokenize -i Hello"},
    {.line = F "tokenizers/ranks.tiktoken -m tokenize -i Hello"},
    {.line = F "tokenizers/tekken.json -m tokenize -i Hello"},
    /* What is kept back for the library (see sentencepiece.cc) has to be there when it asks again. */
    {.line = F "tokenizers/spm.model -m tokenize -i Hello", .alone = true},
};

/* ---- The hot path allocates nothing -------------------------------------------------------------- */

/* Prefill, decode and sampling, in every type of cache, on one thread and on two. */
static void hot_path_allocates_nothing(void **state) {
    (void)state;
    static const char *const types[] = {"f32", "f16", "q8_0"};
    int ids[40] = {1, 40, 41};
    for (int i = 0; i < 6; i++) {
        Error e = {0};
        const char *argv[] = {"run",       "weights/shakespeare.gguf",
                              "-j",        i % 2 ? "2" : "1",
                              "-s",        "1",
                              "--top-k",   "9",
                              "--batch",   "8",
                              "--kv-type", types[i / 2]};
        Options o;
        Session s;
        Generator g = {0};
        assert_int_equal(options_parse(&o, sizeof argv / sizeof *argv, (char **)(uintptr_t)argv, &e), 0);
        o.log = stderr;
        assert_int_equal(session_open(&s, &o, SESSION_TOKENIZER | SESSION_STATE, &e), 0);
        assert_int_equal(generator_init(&g, &o, &s, &e), 0);
        assert_int_equal(generator_prompt(&g, ids, 3, &e), 0);
        model_forward(&s.model, &s.state, &g.next, 1, 3); /* the threads are there */
        long calls = n_calls;
        assert_int_equal(model_prefill(&s.model, &s.state, ids, 40, 4, WANTED_LAST, NULL, NULL), 40);
        for (int pos = 44; pos < s.state.options.n_ctx; pos++) {
            model_forward(&s.model, &s.state, &g.next, 1, pos);
            model_logits(&s.model, &s.state, 0);
            g.next = sampler_next(&g.sampler, s.state.logits);
            assert_in_range(g.next, 0, 1023);
            sampler_accept(&g.sampler, g.next);
        }
        if (n_calls != calls) fail_msg("-j %s --kv-type %s: %ld allocations", argv[3], types[i / 2], n_calls - calls);
        generator_close(&g);
        session_close(&s);
        options_close(&o);
    }
}

int main(void) {
    enum { N = sizeof cases / sizeof *cases };
    struct CMUnitTest tests[N + 1] = {cmocka_unit_test(hot_path_allocates_nothing)};
    static char names[N][32];
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "memory_runs_out_%d", i);
        tests[i + 1] = (struct CMUnitTest){names[i], sweep, NULL, NULL, &cases[i]};
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
