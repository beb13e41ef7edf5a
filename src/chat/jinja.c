#include "chat/jinja.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chat/jinja_eval.h"
#include "chat/unicode.h"
#include "base/text.h"

void chat_text_close(ChatText *c) {
    free(c->text);
    free(c->plain);
    *c = (ChatText){0};
}

/* Bytes as a string, each of them marked or none. */
static Value text_value(Jinja *j, const char *s, size_t n, unsigned char mark) {
    Builder b = {0};
    builder_reserve(j, &b, n);
    for (size_t i = 0, length; i < n; i += length) {
        uint32_t c = utf8_next(s + i, n - i, &length);
        builder_code(j, &b, c, mark);
    }
    return v_str(builder_done(j, &b));
}

/* Bytes that a value is written in, more or less. */
static size_t json_size(const cJSON *x) {
    size_t n = 8 + (x->string ? strlen(x->string) : 0) + (cJSON_IsString(x) ? strlen(x->valuestring) : 0);
    const cJSON *child;
    cJSON_ArrayForEach(child, x) n += json_size(child);
    return n;
}

static Value json_to_value(Jinja *j, const cJSON *x, const char *key) {
    j_enter(j);
    Value v = v_none();
    if (cJSON_IsBool(x)) v = v_bool(cJSON_IsTrue(x));
    else if (cJSON_IsNumber(x)) {
        double f = x->valuedouble;
        v = floor(f) == f && fabs(f) < 1e15 ? v_int((int64_t)f) : v_float(f);
    } else if (cJSON_IsString(x))
        v = text_value(j, x->valuestring, strlen(x->valuestring), !key || strcmp(key, "role") != 0);
    else if (cJSON_IsArray(x)) {
        List *l = list_new(j, 0);
        const cJSON *item;
        cJSON_ArrayForEach(item, x) list_add(j, l, json_to_value(j, item, NULL));
        v = v_list(l);
    } else if (cJSON_IsObject(x)) {
        Dict *d = dict_new(j);
        const cJSON *item;
        cJSON_ArrayForEach(item, x) dict_set(j, d, v_text(j, item->string), json_to_value(j, item, item->string));
        v = v_dict(d);
    }
    j_leave(j);
    return v;
}

static Value messages_value(Jinja *j, const Message *m, int n) {
    static const char *const roles[] = {"system", "user", "assistant"};
    List *l = list_new(j, n);
    for (int i = 0; i < n; i++) {
        Dict *d = dict_new(j);
        dict_set(j, d, v_text(j, "role"), v_text(j, roles[m[i].role]));
        dict_set(j, d, v_text(j, "content"), text_value(j, m[i].text, m[i].n, 1));
        list_add(j, l, v_dict(d));
    }
    return v_list(l);
}

static void set(Jinja *j, Scope *s, const char *name, Value v) { scope_set(j, s, j_intern(j, name, strlen(name)), v); }

static Scope *variables(Jinja *j, const JinjaInput *in) {
    Scope *globals = scope_new(j, NULL);
    for (const Function *f = jinja_functions; f->name; f++)
        set(j, globals, f->name, (Value){T_FUNCTION, {.function = f}});
    set(j, globals, "self", (Value){T_NAMESPACE, {.dict = dict_new(j)}}); /* of blocks; it has none */
    Scope *s = scope_new(j, globals);
    set(j, s, "messages", messages_value(j, in->messages, in->n_messages));
    set(j, s, "tools", v_none());
    set(j, s, "documents", v_none());
    set(j, s, "add_generation_prompt", v_bool(in->add_generation_prompt));
    if (in->bos) set(j, s, "bos_token", v_text(j, in->bos));
    if (in->eos) set(j, s, "eos_token", v_text(j, in->eos));
    const cJSON *x;
    cJSON_ArrayForEach(x, in->extra) {
        bool token = strlen(x->string) > 6 && strcmp(x->string + strlen(x->string) - 6, "_token") == 0;
        set(j, s, x->string, json_to_value(j, x, token ? "role" : x->string));
    }
    Scope *top = scope_new(j, s);
    top->top = true;
    return top;
}

/* Copies the result off the heap; -1 when there is no memory. */
static int take_out(ChatText *out, const Builder *b) {
    out->text = malloc(b->n + 1);
    out->plain = calloc(b->n + 1, 1);
    if (!out->text || !out->plain) {
        chat_text_close(out);
        return -1;
    }
    if (b->n) memcpy(out->text, b->s, b->n);
    if (b->mark) memcpy(out->plain, b->mark, b->n);
    out->text[b->n] = 0;
    out->n = b->n;
    return 0;
}

int jinja_render(ChatText *out, const char *source, size_t n, const JinjaInput *in, Error *e) {
    size_t bad;
    *out = (ChatText){0};
    if (!utf8_valid(source, n, &bad))
        return fail(e, "chat template: byte %zu: expected UTF-8, found something else", bad);
    Builder text = {0};
    size_t seen = n;
    for (int i = 0; i < in->n_messages; i++) seen += in->messages[i].n;
    if (in->extra) seen += json_size(in->extra);
    Jinja j = {.max_steps = in->max_steps ? in->max_steps : JINJA_STEPS, .now = in->now, .out = &text, .e = e};
    j.max_heap = JINJA_HEAP + JINJA_HEAP_PER_BYTE * (seen < SIZE_MAX / 64 ? seen : SIZE_MAX / 64);
    int status = -1;
    if (setjmp(j.escape) == 0) {
        Nodes body = jinja_parse(&j, source, n);
        exec_all(&j, &body, variables(&j, in));
        if (take_out(out, &text)) j_fail(&j, "memory: expected %zu bytes, found less", text.n);
        status = 0;
    }
    j_free(&j);
    return status;
}
