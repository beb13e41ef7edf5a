/* replay - a fuzz target without libFuzzer: gives it every input of tests/fuzz/corpus/TARGET (the program's own name
 * says which: replay_TARGET) or those on the command line. A file called seed_* or part_* is a valid one: it is also
 * cut at every byte, has every byte changed, and MUTANTS of mutate.c are made of it. A cut seed_* must be refused where
 * the format allows no shorter file; part_* has a last part that the reader can do without. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "fuzz.h"
#include "io/file.h"

enum { MUTANTS = 200, MUTATED_BYTES = 1 << 16 };
enum { MAX_RSS_KB = 1 << 20 }; /* no input of the corpus is larger than some KB: a header that lies shows here */

static char doing[512];

static void on_abort(int number) {
    (void)number;
    fprintf(stderr, "aborted: %s\n", doing);
    _exit(134);
}

/* In a block of exactly n bytes. */
static void run(const char *data, size_t n) {
    uint8_t *exact = malloc(n ? n : 1);
    if (!exact) abort();
    memcpy(exact, data, n);
    LLVMFuzzerTestOneInput(exact, n);
    free(exact);
}

/* libFuzzer's own mutations, where there is no libFuzzer: one byte. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size) {
    static unsigned at;
    (void)max_size;
    if (size) data[at++ * 7919u % size] ^= 0x41;
    return size;
}

static int replay(const char *path) {
    static const unsigned char change[] = {0x01, 0x80, 0xff};
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    bool seed = strncmp(name, "seed_", 5) == 0, part = strncmp(name, "part_", 5) == 0;
    char *data;
    size_t n, accepted = 0, refused = 0;
    Error e = {0};
    snprintf(doing, sizeof doing, "%s", path);
    if (file_read(&data, &n, path, &e)) return printf("not ok %s: %s\n", path, e.text), 1;
    run(data, n);
    bool good = !outcome.text[0];
    for (size_t cut = 0; cut < n && (seed || part); cut++) {
        snprintf(doing, sizeof doing, "%s cut to %zu bytes", path, cut);
        run(data, cut);
        if (outcome.text[0]) refused++;
        else if (accepted++, seed && prefix_is_refused) {
            printf("not ok %s: expected it to be refused, found it accepted\n", doing);
            free(data);
            return 1;
        }
    }
    for (size_t at = 0; at < n && (seed || part); at++) {
        for (size_t k = 0; k < sizeof change; k++) {
            snprintf(doing, sizeof doing, "%s byte %zu ^ 0x%02x", path, at, change[k]);
            data[at] = (char)(data[at] ^ change[k]);
            run(data, n);
            data[at] = (char)(data[at] ^ change[k]);
            *(outcome.text[0] ? &refused : &accepted) += 1;
        }
    }
    for (unsigned i = 0; i < MUTANTS && (seed || part) && n < MUTATED_BYTES; i++) {
        enum { ROOM = 2 * MUTATED_BYTES };
        uint8_t *mutant = malloc(ROOM);
        if (!mutant) abort();
        memcpy(mutant, data, n);
        snprintf(doing, sizeof doing, "%s mutant %u", path, i);
        run((const char *)mutant, LLVMFuzzerCustomMutator(mutant, n, ROOM, i));
        *(outcome.text[0] ? &refused : &accepted) += 1;
        free(mutant);
    }
    free(data);
    if ((seed || part) && !good) return printf("not ok %s: expected a valid file, found it refused\n", path), 1;
    if (seed || part) printf("ok %s: %zu damaged copies refused, %zu still valid\n", path, refused, accepted);
    else printf("ok %s: %s\n", path, good ? "accepted" : outcome.text);
    return 0;
}

int main(int argc, char **argv) {
    char dir[256], path[600];
    const char *name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
    int failed = 0, n = 0;
    struct dirent **entries;
    signal(SIGABRT, on_abort);
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 1; i < argc; i++) failed += replay(argv[i]);
    if (argc == 1) {
        snprintf(dir, sizeof dir, "tests/fuzz/corpus/%s", strchr(name, '_') ? strchr(name, '_') + 1 : name);
        n = scandir(dir, &entries, NULL, alphasort);
        if (n < 3) return printf("not ok %s: expected inputs, found none\n", dir), 1;
        for (int i = 0; i < n; i++) {
            snprintf(path, sizeof path, "%s/%s", dir, entries[i]->d_name);
            if (entries[i]->d_name[0] != '.') failed += replay(path);
            free(entries[i]);
        }
        free(entries);
    }
    struct rusage usage;
    const char *emulator = getenv("EMULATOR"); /* the memory that one uses is not ours */
    getrusage(RUSAGE_SELF, &usage);
    if (usage.ru_maxrss > MAX_RSS_KB && !(emulator && emulator[0]))
        failed +=
            printf("not ok %s memory: expected at most %d KiB, found %ld\n", name, MAX_RSS_KB, usage.ru_maxrss) > 0;
    memory_clear();
    return failed != 0;
}
