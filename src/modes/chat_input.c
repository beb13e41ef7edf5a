#include "modes/chat_input.h"

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#include "base/text.h"
#include "gen/signals.h"

enum { HISTORY_SIZE = 1000, PATH_ROOM = 4096 };

struct ChatInput {
    bool terminal;
    EditLine *edit;
    History *history;
    char path[PATH_ROOM]; /* of the history; "": not kept */
    const char *prompt;
    bool begun;    /* a pipe: its first line was read */
    bool after_cr; /* a pipe: the last line ended in \r, a \n that follows belongs to it */
};

/* ---- The terminal ---- */

static char *prompt_of(EditLine *edit) {
    ChatInput *in;
    el_get(edit, EL_CLIENTDATA, &in);
    return (char *)(uintptr_t)in->prompt;
}

/* One byte of the terminal; 0 after Ctrl-C and at the end. */
static int read_byte(unsigned char *c) {
    ssize_t n;
    do n = read(STDIN_FILENO, c, 1);
    while (n < 0 && errno == EINTR && !interrupted);
    return n == 1;
}

/* For libedit: the next character, whatever the locale calls its bytes. */
static int read_character(EditLine *edit, wchar_t *out) {
    (void)edit;
    unsigned char bytes[4];
    if (!read_byte(bytes)) return interrupted ? -1 : 0;
    size_t n = 1, length = bytes[0] >= 0xf0 ? 4 : bytes[0] >= 0xe0 ? 3 : bytes[0] >= 0xc0 ? 2 : 1;
    while (n < length && read_byte(bytes + n)) n++;
    length = utf8_length((const char *)bytes, n);
    *out = length ? (wchar_t)utf8_code((const char *)bytes, length) : 0xfffd;
    return 1;
}

/* What comes between the terminal's ESC[200~ and ESC[201~ is inserted as it is, line ends too. */
static unsigned char paste(EditLine *edit, int key) {
    static const wchar_t end[] = L"\033[201~";
    enum { END = sizeof end / sizeof *end - 1 };
    wchar_t *text = NULL, c;
    size_t n = 0, room = 0;
    (void)key;
    while (el_wgetc(edit, &c) == 1) {
        if (n + 2 > room) {
            wchar_t *larger = realloc(text, (room = 2 * n + 64) * sizeof *text);
            if (!larger) break;
            text = larger;
        }
        if (c == L'\n' && n && text[n - 1] == L'\r') n--;
        text[n++] = c;
        if (n >= END && wmemcmp(text + n - END, end, END) == 0) {
            n -= END;
            break;
        }
    }
    for (size_t i = 0; i < n; i++)
        if (text[i] == L'\r') text[i] = L'\n';
    if (n) {
        text[n] = 0;
        el_winsertstr(edit, text);
    }
    free(text);
    return CC_REFRESH;
}

/* Makes the directories of a path. */
static void make_directories(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
}

/* RUN_HISTORY, or chat_history in the user's directory for states; an empty RUN_HISTORY: none. */
static void find_history(ChatInput *in) {
    const char *given = getenv("RUN_HISTORY"), *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int n = 0;
    if (given) n = snprintf(in->path, sizeof in->path, "%s", given);
    else if (state && *state) n = snprintf(in->path, sizeof in->path, "%s/run/chat_history", state);
    else if (home && *home) n = snprintf(in->path, sizeof in->path, "%s/.local/state/run/chat_history", home);
    if (n >= (int)sizeof in->path) in->path[0] = 0;
    if (in->path[0]) make_directories(in->path);
}

static int open_terminal(ChatInput *in, Error *e) {
    HistEvent event;
    const char *locale = setlocale(LC_CTYPE, "");
    if (!locale || MB_CUR_MAX == 1) locale = setlocale(LC_CTYPE, "C.UTF-8");
    if (!locale) setlocale(LC_CTYPE, "UTF-8"); /* its name on macOS */
    in->edit = el_init("run", stdin, stdout, stderr);
    in->history = history_init();
    if (!in->edit || !in->history) return fail(e, "terminal: line editing: expected it, found none (no memory?)");
    el_set(in->edit, EL_CLIENTDATA, in);
    el_set(in->edit, EL_PROMPT, prompt_of);
    el_set(in->edit, EL_EDITOR, "emacs");
    el_set(in->edit, EL_GETCFN, read_character);
    el_set(in->edit, EL_ADDFN, "run-paste", "Insert a paste", paste);
    el_set(in->edit, EL_BIND, "\\e[200~", "run-paste", NULL);
    el_set(in->edit, EL_BIND, "\\t", "ed-insert", NULL);
    history(in->history, &event, H_SETSIZE, HISTORY_SIZE);
    history(in->history, &event, H_SETUNIQUE, 1);
    el_set(in->edit, EL_HIST, history, in->history);
    el_source(in->edit, NULL);
    find_history(in);
    if (in->path[0]) history(in->history, &event, H_LOAD, in->path);
    return 0;
}

/* Asks the terminal to mark what is pasted. */
static void bracketed_paste(bool on) {
    const char *term = getenv("TERM");
    if (!term || strcmp(term, "dumb") == 0) return;
    fputs(on ? "\033[?2004h" : "\033[?2004l", stdout);
    fflush(stdout);
}

/* One line, without its end: 1; 0 at the end, -1 after Ctrl-C. The line is libedit's. */
static int read_line(ChatInput *in, const char *prompt, const char **line, size_t *n) {
    int length = 0;
    in->prompt = prompt;
    bracketed_paste(true);
    el_resize(in->edit);
    *line = el_gets(in->edit, &length);
    bracketed_paste(false);
    if (interrupted) {
        interrupted = 0;
        el_reset(in->edit);
        fputs("^C\n", stdout);
        return -1;
    }
    if (!*line || length <= 0) {
        fputc('\n', stdout);
        return 0;
    }
    *n = (size_t)length - ((*line)[length - 1] == '\n');
    return 1;
}

static int append(char **text, size_t *n, const char *more, size_t n_more, Error *e) {
    char *larger = realloc(*text, *n + n_more + 2);
    if (!larger) return fail(e, "chat: memory: expected %zu bytes, found less", *n + n_more + 2);
    memcpy(larger + *n, more, n_more);
    *n += n_more;
    larger[*n] = 0;
    *text = larger;
    return 0;
}

static bool is_quotes(const char *s, size_t n) { return n >= 3 && memcmp(s, "\"\"\"", 3) == 0; }

static int read_terminal(ChatInput *in, char **text, size_t *n, Error *e) {
    const char *line, *prompt = "> ";
    bool quoted = false, more;
    size_t length;
    HistEvent event;
    do {
        int status = read_line(in, prompt, &line, &length);
        if (status < 0) { /* Ctrl-C: begin anew */
            *n = 0;
            quoted = false;
            prompt = "> ";
            more = true;
            continue;
        }
        if (status == 0) return 0;
        if (!quoted && *n == 0 && is_quotes(line, length)) {
            quoted = true;
            line += 3;
            length -= 3;
        }
        bool closes = quoted && length >= 3 && is_quotes(line + length - 3, 3);
        bool goes_on = !quoted && length && line[length - 1] == '\\';
        more = quoted ? !closes : goes_on;
        if (append(text, n, line, length - (closes ? 3 : goes_on), e)) return -1;
        if (more && (*n || !quoted) && append(text, n, "\n", 1, e)) return -1;
        prompt = ". ";
    } while (more);
    if (*n && in->history) {
        history(in->history, &event, H_ENTER, *text);
        if (in->path[0]) history(in->history, &event, H_SAVE, in->path);
    }
    return *text || !append(text, n, "", 0, e) ? 1 : -1;
}

/* ---- A pipe ---- */

static int read_pipe(ChatInput *in, char **text, size_t *n, Error *e) {
    size_t room = 0;
    int c;
    errno = 0;
    while ((c = getc(stdin)) != EOF) {
        bool rest = in->after_cr && c == '\n'; /* of a \r\n whose \r ended the line before */
        in->after_cr = c == '\r';
        if (rest) continue;
        if (c == '\n' || c == '\r') break;
        if (*n + 2 > room) {
            char *larger = realloc(*text, room = 2 * *n + 256);
            if (!larger) return fail(e, "chat: memory: expected %zu bytes, found less", room);
            *text = larger;
        }
        (*text)[(*n)++] = (char)c;
    }
    if (c == EOF && ferror(stdin) && !interrupted)
        return fail(e, "standard input: expected a line, found %s", strerror(errno));
    if (interrupted || (c == EOF && *n == 0)) return 0;
    if (!*text && append(text, n, "", 0, e)) return -1;
    if (!in->begun && text_drop_mark(*text, n, "standard input", e)) return -1;
    in->begun = true;
    (*text)[*n] = 0;
    return 1;
}

/* ---- Both ---- */

ChatInput *chat_input_open(bool terminal, Error *e) {
    ChatInput *in = calloc(1, sizeof *in);
    if (!in) {
        fail(e, "chat: memory: expected some, found none");
        return NULL;
    }
    in->terminal = terminal;
    if (terminal && open_terminal(in, e)) {
        chat_input_close(in);
        return NULL;
    }
    return in;
}

void chat_input_close(ChatInput *in) {
    if (!in) return;
    if (in->history) history_end(in->history);
    if (in->edit) el_end(in->edit);
    free(in);
}

int chat_input_read(ChatInput *in, char **text, size_t *n, Error *e) {
    *text = NULL;
    *n = 0;
    int status = in->terminal ? read_terminal(in, text, n, e) : read_pipe(in, text, n, e);
    if (status == 1) return 1;
    free(*text);
    *text = NULL;
    return status;
}
