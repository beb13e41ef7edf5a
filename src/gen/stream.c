#include "gen/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

void stream_init(Stream *s, FILE *out, const char *const *stop, int n_stop) {
    *s = (Stream){.out = out, .stop = stop, .n_stop = n_stop};
}

void stream_close(Stream *s) {
    free(s->held);
    *s = (Stream){0};
}

/* The first place in held where a stop text stands whole; n_held when there is none. */
static size_t find_stop(const Stream *s) {
    size_t first = s->n_held;
    for (int i = 0; i < s->n_stop; i++) {
        const char *at = memmem(s->held, s->n_held, s->stop[i], strlen(s->stop[i]));
        if (at && (size_t)(at - s->held) < first) first = (size_t)(at - s->held);
    }
    return first;
}

/* How many of the last bytes could be the beginning of a stop text. */
static size_t stop_begun(const Stream *s) {
    size_t longest = 0;
    for (int i = 0; i < s->n_stop; i++) {
        size_t n = strlen(s->stop[i]) - 1;
        if (n > s->n_held) n = s->n_held;
        while (n > longest && memcmp(s->held + s->n_held - n, s->stop[i], n) != 0) n--;
        if (n > longest) longest = n;
    }
    return longest;
}

/* How many of the last of n bytes begin a UTF-8 character that is not complete. */
static size_t character_begun(const char *bytes, size_t n) {
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        unsigned char c = (unsigned char)bytes[n - back];
        if ((c & 0xC0) == 0x80) continue; /* a later byte of a character */
        size_t length = c >= 0xF0 && c <= 0xF4 ? 4 : c >= 0xE0 && c < 0xF0 ? 3 : c >= 0xC2 && c < 0xE0 ? 2 : 1;
        return length > back ? back : 0;
    }
    return 0;
}

static int put(Stream *s, size_t n, Error *e) {
    if (n == 0) return 0;
    if (s->shade) fprintf(s->out, "\033[38;5;%dm", s->shade);
    bool printed = text_print(s->out, s->held, n, s->raw);
    if (s->shade) fputs("\033[0m", s->out);
    if (!printed || fflush(s->out) != 0)
        return fail(e, "standard output: expected to write %zu bytes, found %s", n, strerror(errno));
    if (s->copy && fwrite(s->held, 1, n, s->copy) != n)
        return fail(e, "output: memory: expected %zu bytes more, found less", n);
    memmove(s->held, s->held + n, s->n_held - n);
    s->n_held -= n;
    return 0;
}

static int hold(Stream *s, const char *bytes, size_t n, Error *e) {
    if (s->n_held + n > s->room) {
        size_t room = 2 * (s->n_held + n);
        char *larger = realloc(s->held, room);
        if (!larger) return fail(e, "output: memory: expected %zu bytes, found less", room);
        s->held = larger;
        s->room = room;
    }
    memcpy(s->held + s->n_held, bytes, n);
    s->n_held += n;
    return 0;
}

/* Writes all that is held; half a character at the end is U+FFFD. */
static int put_last(Stream *s, Error *e) {
    size_t half = character_begun(s->held, s->n_held);
    s->n_held -= half;
    if (half && hold(s, "\xef\xbf\xbd", 3, e)) return -1;
    return put(s, s->n_held, e);
}

int stream_write(Stream *s, const char *bytes, size_t n, Error *e) {
    if (s->stopped || n == 0) return 0;
    if (hold(s, bytes, n, e)) return -1;
    size_t stop = find_stop(s);
    if (stop < s->n_held) {
        s->stopped = true;
        s->n_held = stop;
        return put_last(s, e);
    }
    size_t certain = s->n_held - stop_begun(s);
    return put(s, certain - character_begun(s->held, certain), e);
}

int stream_end(Stream *s, Error *e) { return put_last(s, e); }
