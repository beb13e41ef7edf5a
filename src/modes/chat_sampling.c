/* How a model wants to be sampled in a chat. */
#include <math.h>
#include <unistd.h>

#include "io/json.h"
#include "modes/chat_mode.h"

enum { TEMPERATURE, TOP_P, TOP_K, N_VALUES };
static const char *const json_keys[N_VALUES] = {"temperature", "top_p", "top_k"};
static const char *const gguf_keys[N_VALUES] = {"general.sampling.temp", "general.sampling.top_p",
                                                "general.sampling.top_k"};

/* generation_config.json of a Hugging Face directory; NaN: not there. */
static int read_json(double values[N_VALUES], const Checkpoint *ck, Error *e) {
    char path[4096];
    if (ck->format != FORMAT_HF_DIR ||
        snprintf(path, sizeof path, "%s/generation_config.json", ck->path) >= (int)sizeof path || access(path, F_OK))
        return 0;
    cJSON *config = json_read(path, e);
    int status = config ? 0 : -1;
    for (int i = 0; i < N_VALUES && !status; i++) status = json_number(&values[i], config, json_keys[i], path, e);
    cJSON_Delete(config);
    return status;
}

static int read_gguf(double values[N_VALUES], const Checkpoint *ck, Error *e) {
    for (int i = 0; ck->format == FORMAT_GGUF && i < N_VALUES; i++)
        if (gguf_find(&ck->gguf, gguf_keys[i]) && gguf_get_float(&ck->gguf, gguf_keys[i], &values[i], e) < 0) return -1;
    return 0;
}

int chat_sampling(Options *o, const Checkpoint *ck, Error *e) {
    double values[N_VALUES] = {NAN, NAN, NAN};
    if (read_json(values, ck, e) || read_gguf(values, ck, e)) return -1;
    double t = values[TEMPERATURE], p = values[TOP_P], k = values[TOP_K];
    if (!o->temperature_given) o->sampler.temperature = t >= 0 && t <= 100 ? (float)t : 0.7f;
    if (!o->top_p_given && p > 0 && p <= 1) o->sampler.top_p = (float)p;
    if (!o->top_k_given && k >= 0 && k < 1e6) o->sampler.top_k = (int)k;
    return 0;
}
