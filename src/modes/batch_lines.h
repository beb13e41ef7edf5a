/* batch_lines - the lines of -m batch: what one says becomes a Job. */
#pragma once
#include "chat/chat.h"
#include "gen/batch.h"
#include "io/json.h"

/* BatchLine - a Job and what it borrows. */
typedef struct {
    Job job; /* first */
    cJSON *root;
    char *id;
    char *result; /* [n_result] behind job.out */
    size_t n_result;
} BatchLine;

/* BatchSource - what all lines share. */
typedef struct {
    const Options *o;
    Session *session;
    ChatTemplate template; /* opened by the first line that has messages */
    bool has_template;
} BatchSource;

/* batch_line_read - text [n] of line `number` of the file, a JSON object: id, and one of prompt (a text), messages
 * ([{"role", "content"}, ...]) and tokens ([1, 2, ...]); every other key is a setting as options_set() takes it. What
 * is wrong with it is in job.error. NULL: no memory. */
BatchLine *batch_line_read(BatchSource *from, const char *text, size_t n, int number, Error *e);
void batch_line_free(BatchLine *l);
void batch_source_close(BatchSource *from);

/* batch_line_id - the id of a line as JSON: its key, or its number. malloc'ed; NULL: no memory. */
char *batch_line_id(const cJSON *root, int number);
