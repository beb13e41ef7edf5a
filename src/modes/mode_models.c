/* models - what -m models finds by name: family, size and type of each, or why it would be refused. */
#include <string.h>

#include "base/text.h"
#include "gen/models.h"
#include "modes/modes.h"
#include "gen/session.h"

enum { NAME_COLUMNS = 60 };

/* The type of the most bytes. */
static const char *main_type(const Checkpoint *c) {
    double bytes[DTYPE_COUNT] = {0};
    int best = 0;
    for (size_t i = 0; i < c->n_tensors; i++) {
        const Mat *w = &c->tensors[i].mat;
        bytes[w->dtype] += (double)w->rows * (double)w->stride_bytes;
    }
    for (int t = 1; t < DTYPE_COUNT; t++)
        if (bytes[t] > bytes[best]) best = t;
    return dtype_info[best].name;
}

static void print_model(FILE *out, const Options *o, const FoundModel *m, bool first) {
    Checkpoint c;
    Config config;
    Weights weights;
    Error why = {0};
    bool open = checkpoint_open(&c, m->path, &why) == 0;
    bool good = open && checkpoint_bind(&c, &config, &weights, &why) == 0;
    char name[4 * NAME_COLUMNS + 1];
    text_show(name, sizeof name, m->name, strlen(m->name), NAME_COLUMNS, true);
    if (o->json) {
        fputs(first ? "{\"name\": " : ",\n {\"name\": ", out);
        text_print_json(out, m->name, strlen(m->name));
        fputs(", \"path\": ", out);
        text_print_json(out, m->path, strlen(m->path));
        if (good)
            fprintf(out, ", \"family\": \"%s\", \"params\": %zu, \"weights_bytes\": %zu, \"type\": \"%s\"}", c.arch,
                    c.params, c.weights_bytes, main_type(&c));
        else {
            fputs(", \"refused\": ", out);
            text_print_json(out, why.text, strlen(why.text));
            fputc('}', out);
        }
    } else if (good) {
        fprintf(out, "%-36s %-8s %7.1f M %9.1f MB  %s\n", name, c.arch, (double)c.params / 1e6,
                (double)c.weights_bytes / 1e6, main_type(&c));
    } else {
        fprintf(out, "%-36s refused: %s\n", name, why.text);
    }
    if (open) checkpoint_close(&c);
}

int mode_models(const Options *o, FILE *out, Error *e) {
    ModelList m;
    if (models_scan(&m, e)) return 1;
    if (o->json) fputs("{\"models\": [", out);
    for (int i = 0; i < m.n && !interrupted; i++) print_model(out, o, &m.list[i], i == 0);
    if (o->json) fputs("]}\n", out);
    if (m.n == 0 && !o->quiet)
        fputs("models: none in the directories of RUN_MODELS or in the cache of Hugging Face's hub\n", o->log);
    models_close(&m);
    return interrupted ? 130 : 0;
}
