/* batch - each line of a file of prompts is answered into a line of another, in order, several at once. What the output
 * holds already is not done again: a run that was killed is started anew by the same command. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "gen/progress.h"
#include "io/file.h"
#include "modes/batch_lines.h"
#include "modes/modes.h"

enum { DEFAULT_PARALLEL = 8 };

typedef struct {
    const char *at;
    size_t n;
} Text;

typedef struct {
    const Options *o;
    BatchSource source;
    char *bytes;
    Text *lines;         /* [n] of the prompts, none empty */
    int n, begun, ended; /* ended: results in the output */
    BatchLine **done;    /* [n] those that wait for an earlier one */
    int n_bad;
    FILE *out;
    Progress progress;
    Error error; /* of the output */
} Batch;

/* The lines of text that are not empty. */
static int split(Text **lines, int *n, const char *text, size_t size, Error *e) {
    size_t room = 1;
    for (size_t i = 0; i < size; i++) room += text[i] == '\n';
    *n = 0;
    *lines = calloc(room, sizeof **lines);
    if (!*lines) return fail(e, "batch: memory: expected room for %zu lines, found none", room);
    for (const char *at = text, *end = text + size; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((stop ? stop : end) - at);
        if (strspn(at, " \t\r") < length) (*lines)[(*n)++] = (Text){at, length};
        at += length + 1;
    }
    return 0;
}

/* ---- The output ---- */

static char *id_of(const Text *line, int number, Error *e) {
    Error unread = {""};
    cJSON *root = json_parse(line->at, line->n, "line", &unread);
    char *id = batch_line_id(root, number);
    cJSON_Delete(root);
    if (!id) fail(e, "batch: memory: expected some, found none");
    return id;
}

/* The results that are there belong to the first prompts. */
static int check_results(Batch *b, const char *text, size_t size, Error *e) {
    Text *results;
    int n, status = split(&results, &n, text, size, e);
    if (!status && n > b->n)
        status =
            fail(e, "%s: expected at most the %d results of %s, found %d", b->o->output, b->n, b->o->prompt_file, n);
    for (int i = 0; i < n && !status; i++) {
        char *want = id_of(&b->lines[i], i + 1, e), *found = id_of(&results[i], i + 1, e);
        if (!want || !found) status = -1;
        else if (strcmp(want, found) != 0)
            status = fail(e, "%s: line %d: expected the result of %.60s in %s, found that of %.60s", b->o->output,
                          i + 1, want, b->o->prompt_file, found);
        free(want);
        free(found);
    }
    free(results);
    b->begun = b->ended = n;
    return status;
}

/* Opens -o to go on where it ends; a last line that was written half is cut off. */
static int open_output(Batch *b, Error *e) {
    const char *path = b->o->output;
    struct stat st;
    char *text = NULL;
    size_t size = 0, whole = 0;
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
        if (file_read(&text, &size, path, e)) return -1;
        for (size_t i = 0; i < size; i++)
            if (text[i] == '\n') whole = i + 1;
    }
    int status = check_results(b, text ? text : "", whole, e);
    free(text);
    if (status) return -1;
    if (whole < size && truncate(path, (off_t)whole))
        return fail(e, "%s: expected to cut off its last line, found %s", path, strerror(errno));
    b->out = fopen(path, "ae");
    return b->out ? 0 : fail(e, "%s: expected to write to it, found %s", path, strerror(errno));
}

static void write_result(Batch *b, BatchLine *l) {
    fflush(l->job.out);
    if (*l->job.error.text) {
        b->n_bad++;
        fprintf(b->out, "{\"id\": %s, \"error\": ", l->id ? l->id : "null");
        text_print_json(b->out, l->job.error.text, strlen(l->job.error.text));
        fputs("}\n", b->out);
    } else {
        fwrite(l->result, 1, l->n_result, b->out);
    }
    if (fflush(b->out) || ferror(b->out))
        fail(&b->error, "%s: expected to write a result, found %s", b->o->output, strerror(errno));
}

/* ---- Jobs ---- */

static Job *next(void *arg, Error *e) {
    Batch *b = arg;
    if (*b->error.text) fail_again(e, &b->error);
    if (*e->text || b->begun == b->n) return NULL;
    const Text *line = &b->lines[b->begun++];
    BatchLine *l = batch_line_read(&b->source, line->at, line->n, b->begun, e);
    return l ? &l->job : NULL;
}

static void done(void *arg, Job *job) {
    Batch *b = arg;
    bool memory = error_is_memory(&job->error); /* says nothing about the line: it is not done */
    if (memory) fail_again(&b->error, &job->error);
    if (job->dropped || memory) {
        batch_line_free((BatchLine *)job);
        return;
    }
    b->done[job->number - 1] = (BatchLine *)job;
    for (; b->ended < b->n && b->done[b->ended]; b->ended++) {
        write_result(b, b->done[b->ended]);
        batch_line_free(b->done[b->ended]);
        b->done[b->ended] = NULL;
    }
    progress_show(&b->progress, b->ended, b->n);
}

static int run(Batch *b, Session *s, Error *e) {
    BatchCount count;
    int before = b->ended;
    const BatchJobs jobs = {next, done, b};
    progress_begin(&b->progress, b->o->log, "batch", b->o->quiet);
    int status = batch_run(s, &jobs, &count, e);
    progress_end(&b->progress);
    if (status || *b->error.text) return status ? status : fail_again(e, &b->error);
    if (!b->o->quiet) {
        if (before) fprintf(b->o->log, "batch: %d of %d were done before\n", before, b->n);
        fprintf(b->o->log, "batch: %d of %d done; prefill: %d tokens, %d more copied; decode: %d tokens, %.1f tok/s\n",
                b->ended, b->n, count.n_read, count.n_copied, count.n_written,
                count.seconds > 0 ? count.n_written / count.seconds : 0);
        if (b->ended < b->n) fprintf(b->o->log, "stop: interrupt\n");
    }
    if (b->ended == b->n && b->n_bad)
        return fail(e, "%s: expected %d prompts that can be answered, found %d that cannot (their lines of %s say why)",
                    b->o->prompt_file, b->n, b->n_bad, b->o->output);
    return 0;
}

static int read_prompts(Batch *b, Error *e) {
    size_t size;
    const char *path = b->o->prompt_file;
    if (file_read(&b->bytes, &size, path, e) || text_drop_mark(b->bytes, &size, path, e) ||
        split(&b->lines, &b->n, b->bytes, size, e))
        return -1;
    b->done = calloc((size_t)b->n + 1, sizeof(BatchLine *));
    return b->done ? 0 : fail(e, "batch: memory: expected room for %d results, found none", b->n);
}

int mode_batch(const Options *o, FILE *out, Error *e) {
    Session s = {0};
    Options options = *o;
    Batch b = {.o = &options, .source = {.o = &options, .session = &s}};
    int code = 1;
    (void)out; /* the results go to -o */
    if (!o->prompt_file || !o->output) {
        fail(e, "%s: expected the file of the %s, found none", o->prompt_file ? "--output" : "--file",
             o->prompt_file ? "results" : "prompts");
        return 2;
    }
    if (o->comm && o->comm->size > 1) {
        fail(e, "-m batch: expected one rank, found %d", o->comm->size);
        return 1;
    }
    if (read_prompts(&b, e) || open_output(&b, e)) goto done;
    if (options.parallel == 0) options.parallel = DEFAULT_PARALLEL;
    if (options.parallel > b.n - b.ended) options.parallel = b.n - b.ended > 0 ? b.n - b.ended : 1;
    if (session_open(&s, &options, SESSION_TOKENIZER | SESSION_STATE, e)) goto done;
    if (run(&b, &s, e) == 0) code = interrupted ? 130 : 0;
done:
    if (b.out && fclose(b.out) && code == 0) code = 1, fail(e, "%s: expected to write it, found an error", o->output);
    for (int i = 0; b.done && i < b.n; i++) batch_line_free(b.done[i]);
    free(b.done);
    free(b.lines);
    free(b.bytes);
    batch_source_close(&b.source);
    session_close(&s);
    return code;
}
