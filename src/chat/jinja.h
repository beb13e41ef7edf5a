/* jinja - runs a chat template: Jinja as transformers sets it up (ImmutableSandboxedEnvironment, trim_blocks,
 * lstrip_blocks, loopcontrols, tojson, raise_exception, strftime_now, {% generation %}).
 *
 * A template is a stranger's: it reads its variables and nothing else, and its steps, depth, memory and output are
 * limited (value.h). What jinja2 refuses is refused with line and column; what is not supported, by name. */
#pragma once
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "base/error.h"
#include "chat/message.h"

/* ChatText - the rendered conversation. What a person or the model wrote is marked, so that "<|im_end|>" in it stays
 * text. */
typedef struct {
    char *text;           /* [n] owned, NUL behind it */
    unsigned char *plain; /* [n] 1: of a message, 0: of the template */
    size_t n;
} ChatText;
void chat_text_close(ChatText *c);

/* What the template sees: messages, add_generation_prompt, bos_token, eos_token (NULL: not defined), tools and
 * documents (none). */
typedef struct {
    const Message *messages; /* [n_messages] */
    int n_messages;
    const char *bos, *eos;
    bool add_generation_prompt;
    time_t now;         /* of strftime_now */
    const cJSON *extra; /* an object of more variables, or NULL; strings in it count as a person's, roles do not */
    long max_steps;     /* 0: JINJA_STEPS */
} JinjaInput;

/* jinja_render - source [n] bytes. Reference: transformers, chat_template_utils.py; jinja2. Test: tests/test_chat.c,
 * scripts/check_templates.py */
int jinja_render(ChatText *out, const char *source, size_t n, const JinjaInput *input, Error *e);
