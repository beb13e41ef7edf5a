#include "modes/batch_lines.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "chat/turns.h"
#include "io/json.h"

char *batch_line_id(const cJSON *root, int number) {
    char text[16], *printed = NULL;
    size_t n;
    const cJSON *id = cJSON_GetObjectItemCaseSensitive(root, "id");
    if (cJSON_IsNumber(id)) return cJSON_PrintUnformatted(id);
    if (cJSON_IsString(id)) {
        FILE *out = open_memstream(&printed, &n);
        if (!out) return NULL;
        text_print_json(out, id->valuestring, json_bytes(id->valuestring, strlen(id->valuestring)));
        if (fclose(out) == 0) return printed;
        free(printed);
        return NULL;
    }
    snprintf(text, sizeof text, "%d", number);
    return strdup(text);
}

/* A number as a flag would have it. */
static int set_value(Options *o, const char *key, const cJSON *value, Error *e) {
    char text[40];
    if (cJSON_IsString(value) && strstr(value->valuestring, "\xc0\x80")) /* how json_parse leaves a NUL */
        return fail(e, "%.40s: expected a text without NUL, found one", key);
    if (cJSON_IsString(value)) return options_set(o, key, value->valuestring, e);
    if (!cJSON_IsNumber(value)) return fail(e, "%.40s: expected a number or a text, found another type", key);
    double x = value->valuedouble;
    snprintf(text, sizeof text, x == floor(x) && fabs(x) < 0x1p53 ? "%.0f" : "%.17g", x);
    return options_set(o, key, text, e);
}

static int set(Options *o, const cJSON *value, Error *e) {
    const cJSON *each;
    if (!cJSON_IsArray(value)) return set_value(o, value->string, value, e);
    cJSON_ArrayForEach(each, value) if (set_value(o, value->string, each, e)) return -1;
    return 0;
}

static int read_tokens(Options *o, const cJSON *list, Error *e) {
    const cJSON *id;
    if (!cJSON_IsArray(list)) return fail(e, "tokens: expected a list of ids, found another type");
    o->tokens = malloc(((size_t)cJSON_GetArraySize(list) + 1) * sizeof *o->tokens);
    if (!o->tokens) return fail(e, "tokens: memory: expected some, found none");
    cJSON_ArrayForEach(id, list) {
        if (!cJSON_IsNumber(id) || id->valuedouble != id->valueint)
            return fail(e, "tokens: expected ids, found another");
        o->tokens[o->n_tokens++] = id->valueint;
    }
    return 0;
}

static int add_message(Turns *turns, const cJSON *m, Error *e) {
    static const char *const names[ROLE_COUNT] = {
        [ROLE_SYSTEM] = "system", [ROLE_USER] = "user", [ROLE_ASSISTANT] = "assistant"};
    const cJSON *role = cJSON_GetObjectItemCaseSensitive(m, "role");
    const cJSON *content = cJSON_GetObjectItemCaseSensitive(m, "content");
    if (!cJSON_IsString(role) || !cJSON_IsString(content))
        return fail(e, "messages: expected a role and a content in each, both texts, found another");
    for (int i = 0; i < ROLE_COUNT; i++) {
        if (strcmp(role->valuestring, names[i]) != 0) continue;
        char *text = strdup(content->valuestring);
        return turns_add(turns, (Role)i, text, text ? json_bytes(text, strlen(text)) : 0, e);
    }
    return fail(e, "messages: role: expected system, user or assistant, found '%.40s'", role->valuestring);
}

/* The conversation by the chat template; the last message stands for the prompt in the result, as in -m chat --json. */
static int read_messages(BatchSource *from, Job *job, const cJSON *list, Error *e) {
    Turns turns = {0};
    ChatText text = {0};
    const cJSON *m;
    int status = cJSON_GetArraySize(list) > 0 ? 0 : fail(e, "messages: expected a list of them, found none");
    cJSON_ArrayForEach(m, list) if (!status) status = add_message(&turns, m, e);
    if (!status && !from->has_template) {
        status = chat_template_open(&from->template, from->o->chat_template, from->session->tokenizer,
                                    from->o->checkpoint, e);
        from->has_template = !status;
    }
    if (!status) status = chat_render(&text, &from->template, turns.list, turns.n, time(NULL), e);
    if (!status) {
        status = chat_encode(from->session->tokenizer, &text, &job->ids, &job->n, e);
        Message *last = &turns.list[turns.n - 1];
        job->text = last->text;
        job->size = last->n;
        last->text = NULL;
    }
    chat_text_close(&text);
    turns_close(&turns);
    if (!status && job->n == 0) status = fail(e, "messages: expected some text from the chat template, found none");
    return status;
}

static int read_job(BatchSource *from, Job *job, const cJSON *root, Error *e) {
    const cJSON *prompt = NULL, *item;
    if (!cJSON_IsObject(root)) return fail(e, "line: expected a JSON object, found another type");
    cJSON_ArrayForEach(item, root) {
        bool is_prompt = strcmp(item->string, "prompt") == 0 || strcmp(item->string, "messages") == 0 ||
                         strcmp(item->string, "tokens") == 0;
        if (is_prompt && prompt) return fail(e, "prompt: expected one of prompt, messages and tokens, found more");
        if (is_prompt) prompt = item;
        else if (strcmp(item->string, "id") != 0 && set(&job->o, item, e)) return -1;
    }
    if (!prompt) return fail(e, "prompt: expected one of prompt, messages and tokens, found none");
    if (strcmp(prompt->string, "messages") == 0) return read_messages(from, job, prompt, e);
    if (strcmp(prompt->string, "tokens") == 0 && read_tokens(&job->o, prompt, e)) return -1;
    if (strcmp(prompt->string, "prompt") == 0) {
        if (!cJSON_IsString(prompt)) return fail(e, "prompt: expected a text, found another type");
        job->o.prompt = prompt->valuestring;
        job->o.prompt_bytes = json_bytes(prompt->valuestring, strlen(prompt->valuestring));
    }
    return session_prompt(from->session, &job->o, &job->ids, &job->n, &job->text, &job->size, e);
}

BatchLine *batch_line_read(BatchSource *from, const char *text, size_t n, int number, Error *e) {
    BatchLine *l = calloc(1, sizeof *l);
    if (l) l->job = (Job){.o = *from->o, .number = number};
    if (l) l->job.out = open_memstream(&l->result, &l->n_result);
    if (!l || !l->job.out) {
        fail(e, "batch: memory: expected room for a line, found none");
        free(l);
        return NULL;
    }
    Job *job = &l->job;
    job->o.prompt_file = NULL;
    job->o.quiet = true;
    l->root = json_parse(text, n, "line", &job->error);
    l->id = batch_line_id(l->root, number);
    job->id = l->id;
    if (!l->id) fail(&job->error, "id: memory: expected some, found none");
    else if (l->root) read_job(from, job, l->root, &job->error);
    return l;
}

void batch_line_free(BatchLine *l) {
    if (!l) return;
    if (l->job.out) fclose(l->job.out);
    free(l->job.o.tokens);
    free(l->job.ids);
    free(l->job.text);
    free(l->id);
    free(l->result);
    cJSON_Delete(l->root);
    free(l);
}

void batch_source_close(BatchSource *from) {
    if (from->has_template) chat_template_close(&from->template);
}
