/* The chat renderer: parts that end with NUL, first a Jinja text, then messages that begin with a byte for the role.
 * Whatever a message holds, the rendered text holds the template's own special tokens and no others. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "chat/chat.h"
#include "chat/jinja.h"

const bool prefix_is_refused = false;
enum { MAX_MESSAGES = 8 };

/* Special tokens in the ids of a conversation. */
static int count_special(const Tokenizer *t, const ChatTemplate *template, const Message *m, int n) {
    static const char *const special[] = {"<|im_start|>", "<|im_end|>"};
    ChatText text;
    ChatWords words;
    int *ids, n_ids, count = 0;
    chat_words(&words, t, 0);
    if (chat_render(&text, template, &words, m, n, &outcome)) return -1;
    if (chat_encode(t, &text, &ids, &n_ids, &outcome)) abort();
    for (int i = 0; i < n_ids; i++)
        for (int k = 0; k < 2; k++) count += ids[i] == tokenizer_find(t, special[k]);
    free(ids);
    chat_text_close(&text);
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static Tokenizer *t; /* opened once, for all inputs */
    static const char *const names[] = {"chatml", "llama-3", "llama-2",   "mistral",   "mistral-v2",
                                        "zephyr", "gemma",   "llama-3.2", "mistral-v3"};
    enum { N_NAMES = sizeof names / sizeof *names };
    outcome = (Error){0};
    if (!t && !(t = tokenizer_open("tests/fixtures/tokenizers/bpe_smollm", &outcome))) abort();
    if (size == 0) return 0;

    char *parts = malloc(size + 1), *end = parts + size, *at = parts;
    if (!parts) abort();
    memcpy(parts, data, size);
    *end = 0;
    char *system, *shape;
    if (jinja_shape(&shape, at, &outcome)) abort();
    const ChatTemplate *template = chat_template_detect(shape);
    if (!template) template = chat_template_find(names[data[0] % N_NAMES]);
    if (!template || chat_default_system(&system, template, shape, &outcome)) abort();
    free(system);
    free(shape);
    Message m[MAX_MESSAGES], empty[MAX_MESSAGES];
    int n = 0;
    at += strlen(at) + 1;
    for (; at < end && n < MAX_MESSAGES; n++) {
        size_t length = strlen(at + 1);
        m[n] = (Message){(Role)((unsigned char)*at % ROLE_COUNT), at + 1, length};
        empty[n] = (Message){m[n].role, "", 0};
        at += length + 2;
    }
    if (count_special(t, template, m, n) != count_special(t, template, empty, n)) abort();
    free(parts);
    return 0;
}
