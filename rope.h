/* rope - swap 3: rotary position embedding on q and k, in place of learned positions.
 *
 * Feature pair i of a head is a point in the plane, rotated by the angle pos * inv_freq[i]:
 *   inv_freq[i] = theta^(-2i / rotary_dim)
 * Source: RoFormer, arXiv:2104.09864, equations 14 and 15. Scaling rules: transformers,
 * modeling_rope_utils.py. Angles are computed in double, tables stored in f32. */
#pragma once
#include <stdbool.h>

#include "base/error.h"

typedef enum {
    ROPE_HALF,  /* pair i is (x[i], x[i + d/2]): Hugging Face */
    ROPE_PAIRS, /* pair i is (x[2i], x[2i + 1]): the paper, llama2.c, GGUF llama */
} RopePairing;

typedef enum {
    ROPE_SCALING_NONE,
    ROPE_SCALING_LINEAR,   /* position interpolation, arXiv:2306.15595 */
    ROPE_SCALING_DYNAMIC,  /* NTK-aware base from the current length */
    ROPE_SCALING_YARN,     /* arXiv:2309.00071 */
    ROPE_SCALING_LLAMA3,   /* Llama 3.1's three wavelength bands */
    ROPE_SCALING_LONGROPE, /* arXiv:2402.13753 */
    ROPE_SCALING_NTK,      /* NTK-aware base, the same at every length */
} RopeScaling;

extern const char *const rope_scaling_name[]; /* by RopeScaling */

enum { ROPE_MAX_PAIRS = 2048 }; /* rotary_dim at most 4096 */

typedef struct {
    double theta;   /* base of the frequencies */
    int rotary_dim; /* features of a head that are rotated: head_dim, or less for partial rotary */
    RopePairing pairing;
    RopeScaling scaling;
    double factor;    /* of every scaling but none */
    int original_ctx; /* length the model was trained at (llama3, yarn, longrope); for linear and
                         dynamic: max_position_embeddings */
    double low_freq_factor, high_freq_factor; /* llama3 */
    double attention_factor;                  /* yarn, longrope: 0 when not given */
    double beta_fast, beta_slow;              /* yarn: 32 and 1 when not given */
    double mscale, mscale_all_dim;            /* yarn: 0 when not given */
    bool truncate;                            /* yarn: true when not given */
    const float *short_factor, *long_factor;  /* longrope: [rotary_dim/2]; borrowed */
    const float *freq_factors;                /* GGUF rope_freqs.weight: [rotary_dim/2]; every
                                                 inv_freq is divided by it; NULL: none */
} RopeConfig;

typedef struct {
    int n_ctx, head_dim, rotary_dim;
    RopePairing pairing;
    float *cos, *sin; /* [n_ctx, rotary_dim/2], the attention factor already multiplied in */
    int from, to;     /* rows that are filled, for `key` */
    int key;          /* rope_table_key() */
} RopeTable;

/* rope_check - refuses what makes no sense: odd or too large rotary_dim, theta <= 0 or not finite,
 * a factor below 1, missing parameters of the scaling. `what` starts the message. */
int rope_check(const RopeConfig *config, int head_dim, const char *what, Error *e);

/* rope_inv_freq - inv_freq[rotary_dim/2] in radians a token, and the factor on cos and sin, for a
 * sequence of seq_len tokens (dynamic and longrope depend on it). Source: ROPE_INIT_FUNCTIONS. */
void rope_inv_freq(double *inv_freq, double *attention_factor, const RopeConfig *config, int seq_len);

/* rope_base - the base that the frequencies are computed with: theta, or what dynamic and static NTK make of it. */
double rope_base(const RopeConfig *config, int seq_len);

/* rope_row - one row of the table: cosine, sine [pairs] of position pos. */
void rope_row(float *cosine, float *sine, const double *inv_freq, double scale, int pairs, int pos);

/* rope_table_fill - cos, sin of positions [0, n_ctx) for a sequence of seq_len tokens. t->cos and
 * t->sin are the caller's memory. */
void rope_table_fill(RopeTable *t, const RopeConfig *config, int seq_len);

/* rope_table_key - what the table depends on besides the config: the same key, the same table. Every rule needs one
 * table, but LongRoPE a second one beyond the original context, and dynamic NTK one for every length beyond it. */
int rope_table_key(const RopeConfig *config, int seq_len);

/* rope_table_reach - fills rows [pos, pos + n) for a sequence of seq_len tokens, unless they are. Keys in the cache
 * keep the rotation they were given, as in transformers. */
void rope_table_reach(RopeTable *t, const RopeConfig *config, int pos, int n, int seq_len);

/* rope_apply - rotate q or k by position, in place.
 *   x       [n_tok, n_heads, head_dim] f32, in/out; row t starts at x + t * stride
 *   pos     position of row 0, in tokens; pos + n_tok <= n_ctx
 * Angle (pos + t) * inv_freq[i], radians. Features from rotary_dim on are left alone. Cannot fail. */
void rope_apply(float *x, int n_tok, int n_heads, int stride, const RopeTable *t, int pos);
