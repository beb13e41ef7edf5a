/* chat_input - the messages of a person: edited on a terminal, or one a line from a pipe.
 * On a terminal: libedit with UTF-8 and a history that is kept; a paste of several lines is one message (bracketed
 * paste); a line that ends in "\" goes on, and so does one that begins with three quotes, up to three quotes. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

typedef struct ChatInput ChatInput;

/* chat_input_open - terminal: standard input and output are one. */
ChatInput *chat_input_open(bool terminal, Error *e);
void chat_input_close(ChatInput *in);

/* chat_input_read - the next message without its line end; *text is malloc'ed. Line ends are \n, \r\n and \r. Returns
 * 1, 0 at the end of the input, -1 on failure. Ctrl-C on a terminal drops the line; in a pipe it ends the input. */
int chat_input_read(ChatInput *in, char **text, size_t *n, Error *e);
