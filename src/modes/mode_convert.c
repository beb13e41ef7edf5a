#include <string.h>

#include "modes/modes.h"
#include "gen/session.h"
#include "kernels/quantize.h"

int mode_convert(const Options *o, FILE *out, Error *e) {
    Session s;
    ConvertOptions options = {
        .output = o->output, .type = -1, .kv_heads = o->kv_heads, .stop = &interrupted, .temporary = unfinished};
    if (!o->output) {
        fail(e, "--output: expected the name of the file to write, found none");
        return 2;
    }
    for (int t = 0; o->type && t < DTYPE_Q8_GROUP; t++)
        if (strcmp(o->type, dtype_info[t].name) == 0 && dtype_can_quantize((DType)t)) options.type = t;
    if (o->type && options.type < 0) {
        fail(e, "--type: expected f32, f16, bf16, q8_0, q4_0 or q4_1, found %.40s", o->type);
        return 2;
    }
    if (session_open(&s, o, 0, e)) return 1;
    bool carried;
    int status = checkpoint_convert(&s.checkpoint, &s.model.config, &s.model.weights, &options, &carried, e);
    if (!status && !o->quiet)
        fprintf(o->log, "%s: written%s\n", o->output,
                carried ? ", tokenizer included" : " (give the tokenizer with -z)");
    (void)out;
    session_close(&s);
    if (status && interrupted) {
        e->text[0] = 0; /* a write that the signal cut short is no failure */
        return 130;
    }
    return status ? 1 : 0;
}
