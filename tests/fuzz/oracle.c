/* oracle - what every input of every target must keep to, beside the sanitizers: time and memory in proportion to its
 * size, and a message of printable text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "fuzz.h"

/* Generous: sanitizers slow the program ten times, and a small model has its fixed costs. What these catch is growth.
 */
static const double seconds_free = 4, seconds_per_byte = 100e-6;
enum { BYTES_FREE = 192 << 20, BYTES_PER_BYTE = 200 };

/* Peak of the heap, where the program is built with a sanitizer that counts it. */
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                              void (*on_free)(const volatile void *)) __attribute__((weak));
size_t __sanitizer_get_allocated_size(const volatile void *p) __attribute__((weak));

static size_t held = (size_t)1 << 40, peak; /* far from 0: what was allocated before the hooks is freed under them */

static void on_malloc(const volatile void *p, size_t n) {
    (void)p;
    size_t now = __atomic_add_fetch(&held, n, __ATOMIC_RELAXED), was = peak;
    while (now > was && !__atomic_compare_exchange_n(&peak, &was, now, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
}

static void on_free(const volatile void *p) {
    if (p) __atomic_sub_fetch(&held, __sanitizer_get_allocated_size(p), __ATOMIC_RELAXED);
}

static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void broken(const char *what, double found, double most) {
    fprintf(stderr, "%s: expected at most %g, found %g\n", what, most, found);
    abort();
}

static void check_printable(void) {
    char shown[8 * sizeof outcome.text];
    size_t n = strlen(outcome.text);
    text_show(shown, sizeof shown, outcome.text, n, 1 << 20, false);
    if (strcmp(shown, outcome.text) == 0) return;
    fprintf(stderr, "a message that is not printable: %s\n", shown);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static bool installed;
    if (!installed && __sanitizer_install_malloc_and_free_hooks)
        __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
    installed = true;
    size_t before = held;
    peak = before;
    double start = cpu_seconds(), most = seconds_free + seconds_per_byte * (double)size;
    int status = fuzz_one(data, size);
    double seconds = cpu_seconds() - start, bytes = peak > before ? (double)(peak - before) : 0;
    double most_bytes = BYTES_FREE + BYTES_PER_BYTE * (double)size;
    if (seconds > most) broken("CPU seconds", seconds, most);
    if (bytes > most_bytes) broken("bytes of memory", bytes, most_bytes);
    check_printable();
    return status;
}
