/* complete - the library in forty lines: complete MODEL PROMPT [TOKENS]
 *
 *     cc examples/complete.c $(pkg-config --cflags --libs --static gpt2llama) -o complete
 */
#include <gpt2llama.h>
#include <stdio.h>
#include <stdlib.h>

static int print(void *arg, const char *bytes, size_t n) {
    (void)arg;
    fwrite(bytes, 1, n, stdout);
    return fflush(stdout);
}

int main(int argc, char **argv) {
    char error[256];
    if (argc < 3) {
        fprintf(stderr, "usage: complete MODEL PROMPT [TOKENS]\n");
        return 2;
    }
    G2L *model = g2l_open(argv[1], NULL, 0, 0, error, sizeof error);
    if (!model) {
        fprintf(stderr, "complete: %s\n", error);
        return 1;
    }
    G2LSampling greedy = {.temperature = 0, .top_p = 1};
    fputs(argv[2], stdout);
    int n = g2l_generate(model, argv[2], argc > 3 ? atoi(argv[3]) : 40, &greedy, print, NULL, error, sizeof error);
    putchar('\n');
    if (n < 0) fprintf(stderr, "complete: %s\n", error);
    g2l_close(model);
    return n < 0;
}
