/* run - argv to mode; the only file that exits, writes to standard error or handles a signal. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "modes/modes.h"
#include "gen/options.h"
#include "io/file.h"
#include "base/system.h"
#include "dist/order.h"
#include "gen/follow.h"

/* By which it calls itself when it is called by it; see NAME in the Makefile. */
#define INSTALLED_NAME "gpt2llama"

/* Ctrl-C: the mode ends at the next token or row; a second one ends at once. */
static void on_interrupt(int number) {
    (void)number;
    if (interrupted) {
        convert_remove(unfinished);
        _exit(130);
    }
    interrupted = 1;
}

static void say(const char *text) {
    ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored;
}

/* A mapped file that shrinks under us cannot be read any more. */
static void on_bus_error(int number, siginfo_t *info, void *context) {
    char path[FILE_PATH];
    (void)number, (void)context;
    say("run: ");
    say(system_mapped_at(path, sizeof path, info->si_addr) ? path : "model file");
    say(": size: expected it to stay, found the file changed while in use\n");
    convert_remove(unfinished);
    _exit(1);
}

/* What would end the program anyway must not leave half a file. */
static void on_end(int number) {
    convert_remove(unfinished);
    signal(number, SIG_DFL);
    raise(number);
}

static void on_signal(int number, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

/* The mode, or on any rank but the first what rank 0 orders. */
static int run(Options *o, Comm *comm, Error *e) {
    const Mode *mode = mode_find(o->mode);
    o->comm = comm->size > 1 ? comm : NULL;
    if (comm->rank) return follow(o, e);
    if (o->comm && (mode->run == mode_probe || mode->run == mode_trace)) {
        fail(e, "-m %s: expected one process, which sees the whole model, found %d ranks", mode->name, comm->size);
        return 2;
    }
    return mode->run(o, stdout, e);
}

int main(int argc, char **argv) {
    Options o = {0};
    Comm comm;
    Error e = {0};
    const char *slash = argc ? strrchr(argv[0], '/') : NULL, *called = slash ? slash + 1 : argc ? argv[0] : "";
    const char *program = strcmp(called, INSTALLED_NAME) == 0 ? INSTALLED_NAME : "run";
    on_signal(SIGINT, on_interrupt);
    sigaction(SIGBUS, &(struct sigaction){.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO}, NULL);
    static const int ends[] = {SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXCPU, SIGALRM, SIGUSR1, SIGUSR2};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) /* what is ignored from outside (nohup) stays so */
        if (signal(ends[i], SIG_IGN) != SIG_IGN) on_signal(ends[i], on_end);
    on_signal(SIGXFSZ, SIG_IGN); /* a file too large is a failed write */
    int code;
    if (comm_open(&comm, &argc, &argv, &e)) {
        code = 1;
    } else if (options_parse(&o, argc, argv, &e)) {
        code = 2;
    } else if (o.help && comm.rank == 0) {
        const Mode *only = o.checkpoint ? mode_find(o.checkpoint) : NULL; /* --help MODE */
        options_help(stdout, program, only || strcmp(o.mode, "generate") == 0 ? only : mode_find(o.mode));
        code = 0;
    } else if (o.version && comm.rank == 0) {
        version_print(stdout, program);
        code = 0;
    } else if (o.help || o.version) { /* rank 0 says it */
        code = 0;
    } else {
        o.program_version = program_version;
        o.argc = argc, o.argv = argv;
        code = run(&o, &comm, &e);
    }
    if (e.text[0] && comm.rank == 0) fprintf(stderr, "%s: %s\n", program, e.text);
    else if (code == 0 && (fflush(stdout) || ferror(stdout))) {
        fprintf(stderr, "%s: standard output: writing: expected success, found %s\n", program, strerror(errno));
        code = 1;
    }
    order_send(&comm, &(Order){.kind = ORDER_STOP}, NULL);
    options_close(&o);
    return comm_close(&comm, code);
}
