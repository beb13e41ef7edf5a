/* Chat templates: parts that end with NUL, first a Jinja text, then messages that begin with a byte for the role. The
 * template fails with an error or renders; whatever a message holds, the ids hold no special token that a template of
 * ours did not write. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "chat/chat.h"

const bool prefix_is_refused = false;
const FuzzFormat fuzz_format = FUZZ_JINJA;
enum { MAX_MESSAGES = 8 };

/* Special tokens in the ids of a conversation. */
static int count_special(const Tokenizer *t, const ChatTemplate *template, const Message *m, int n) {
    static const char *const special[] = {"<|im_start|>", "<|im_end|>"};
    ChatText text;
    Error e = {0};
    int *ids, n_ids, count = 0;
    if (chat_render(&text, template, m, n, 0, &e)) return -1;
    if (chat_encode(t, &text, &ids, &n_ids, &e)) abort();
    for (int i = 0; i < n_ids; i++)
        for (int k = 0; k < 2; k++) count += ids[i] == tokenizer_find(t, special[k]);
    free(ids);
    chat_text_close(&text);
    return count;
}

int fuzz_one(const uint8_t *data, size_t size) {
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
    Message m[MAX_MESSAGES], empty[MAX_MESSAGES];
    int n = 0;
    at += strlen(at) + 1;
    for (; at < end && n < MAX_MESSAGES; n++) {
        size_t length = strlen(at + 1);
        m[n] = (Message){(Role)((unsigned char)*at % ROLE_COUNT), at + 1, length};
        empty[n] = (Message){m[n].role, "", 0};
        at += length + 2;
    }
    ChatText text;
    JinjaInput in = {.messages = m, .n_messages = n, .bos = "<s>", .eos = "</s>", .max_steps = 100000};
    int status = jinja_render(&text, parts, strlen(parts), &in, &outcome);
    if ((status != 0) != (outcome.text[0] != 0)) abort();
    if (status == 0) {
        int *ids, n_ids;
        Error fine = {0};
        if (strlen(text.text) > text.n || chat_encode(t, &text, &ids, &n_ids, &fine)) abort();
        free(ids);
    }
    chat_text_close(&text);
    ChatTemplate named;
    Error e = {0};
    if (chat_template_open(&named, names[data[0] % N_NAMES], t, "model", &e)) abort();
    if (count_special(t, &named, m, n) != count_special(t, &named, empty, n)) abort();
    chat_template_close(&named);
    free(parts);
    return 0;
}
