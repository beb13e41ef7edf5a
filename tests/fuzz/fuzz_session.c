/* A session's file: its head, tokens, messages, keys and values. One whose sum is wrong, as a mutant's is, is read
 * again with the right one. What was accepted goes on: the next token's forward pass, and the messages in a template.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "chat/jinja.h"
#include "fuzz.h"
#include "gen/snapshot.h"

const bool prefix_is_refused = true;
const FuzzFormat fuzz_format = FUZZ_SESSION;

enum { CTX = 8 };
static const char model_path[] = "tests/fixtures/base.gguf";

static Options o;
static Session s;
static Generator g;
static int fd = -1;
static char path[64];

static void open_model(void) {
    Error e = {0};
    const char *argv[] = {"run", model_path, "-j", "1", "-s", "1", "-c", "8", "--kv-type", "f16", "--quiet", "-n", "2"};
    if (options_parse(&o, sizeof argv / sizeof *argv, (char **)(uintptr_t)argv, &e)) abort();
    o.log = stderr;
    if (session_open(&s, &o, 0, &e) || session_state(&s, &o, CTX, &e) || generator_init(&g, &o, &s, &e)) abort();
    fd = memfd_create("session", MFD_CLOEXEC);
    if (fd < 0) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
}

/* ---- The sum: FNV-1a by words of 8 bytes, each part of the file by itself; src/gen/snapshot.c ---- */

static uint64_t hash(uint64_t h, const uint8_t *at, size_t n) {
    for (size_t i = 0; i < n; i += 8) {
        uint64_t word = 0;
        memcpy(&word, at + i, n - i < 8 ? n - i : 8);
        h = (h ^ word) * 0x100000001b3u;
        h ^= h >> 29;
    }
    return h;
}

/* A part of n bytes goes into the sum; false: the file ends before. */
static bool part(uint64_t *h, const uint8_t *data, size_t size, size_t *at, uint64_t n) {
    if (n > size - *at) return false;
    *h = hash(*h, data + *at, (size_t)n);
    *at += (size_t)n;
    return true;
}

/* Puts the right sum at the end of the data; false: it has another form. */
static bool right_sum(uint8_t *data, size_t size) {
    enum { HEAD = 48, TOKENS = 36, MESSAGES = 40, MESSAGE_HEAD = 16 };
    uint64_t h = 0xcbf29ce484222325u, n;
    uint32_t n_tokens, n_messages;
    size_t at = 0;
    if (!part(&h, data, size, &at, HEAD)) return false;
    memcpy(&n_tokens, data + TOKENS, sizeof n_tokens);
    memcpy(&n_messages, data + MESSAGES, sizeof n_messages);
    if (n_tokens > CTX || !part(&h, data, size, &at, 4 * (uint64_t)n_tokens)) return false;
    for (uint32_t i = 0; i < n_messages; i++) {
        if (!part(&h, data, size, &at, MESSAGE_HEAD)) return false;
        memcpy(&n, data + at - 8, sizeof n);
        if (!part(&h, data, size, &at, n)) return false;
    }
    const KvCache *c = &s.state.attn.cache;
    _Static_assert((int)CTX <= (int)KV_BLOCK, "one block a head");
    for (int i = 0; i < c->n_layers * c->n_kv_heads && n_tokens; i++) {
        KvRows r = kv_cache_block(c, i / c->n_kv_heads, i % c->n_kv_heads, 0, (int)n_tokens);
        if (!part(&h, data, size, &at, r.k_bytes) || !part(&h, data, size, &at, r.v_bytes)) return false;
    }
    if (size - at != sizeof h) return false;
    memcpy(data + at, &h, sizeof h);
    return true;
}

/* ---- Reading and going on ---- */

static int read_bytes(const uint8_t *data, size_t size, Turns *turns) {
    outcome = (Error){0};
    g.n_cached = 0;
    if (ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size) abort();
    return snapshot_read(path, &g, turns, &outcome);
}

static void go_on(Turns *turns) {
    Error e = {0};
    ChatText text;
    int ids[CTX], n = g.n_cached;
    if (n < 0 || n > CTX) abort();
    for (int i = 0; i < n; i++)
        if (g.cached[i] < 0 || g.cached[i] >= s.model.config.vocab_size) abort();
    memcpy(ids, g.cached, (size_t)n * sizeof *ids);
    if (n < CTX) ids[n] = 1;
    if (n < CTX && generator_prompt(&g, ids, n + 1, &e) && !e.text[0]) abort(); /* a NaN in the cache is an error */
    for (int i = 0; i < turns->n; i++)
        if (turns->list[i].role >= ROLE_COUNT || turns->list[i].text[turns->list[i].n]) abort();
    static const char source[] = "{% for m in messages %}{{ m.role }}: {{ m.content | trim }}{% endfor %}";
    JinjaInput in = {.messages = turns->list, .n_messages = turns->n, .max_steps = 1000000};
    Error why = {0};
    if ((jinja_render(&text, source, sizeof source - 1, &in, &why) != 0) != (why.text[0] != 0)) abort();
    chat_text_close(&text);
    for (int i = 0; i < 4; i++) turns_drop_oldest(turns, i % 2);
    while (turns->n) turns_pop(turns);
}

int fuzz_one(const uint8_t *data, size_t size) {
    Turns turns = {0};
    if (fd < 0) open_model();
    int status = read_bytes(data, size, &turns);
    if (status && strstr(outcome.text, ": sum: ")) {
        uint8_t *copy = malloc(size);
        if (!copy) abort();
        memcpy(copy, data, size);
        if (right_sum(copy, size)) status = read_bytes(copy, size, &turns);
        free(copy);
    }
    if ((status != 0) != (outcome.text[0] != 0) || (status && turns.n)) abort();
    if (!status) go_on(&turns);
    turns_close(&turns);
    return 0;
}
