/* Vector code of the decoder on the host, made for each instruction set from one text (vector_body.h). All of it works
 * on the calling thread. */
#pragma once

#include "../../harness/rng.h"
#include "../isa.h"

#include <stdbool.h>

enum {
    AS_ATTEND_ROWS = 32,  /* most queries of one call */
    AS_ATTEND_BLOCK = 64, /* positions whose scores are held at a time */
};

/* Attention of some queries that share a kv head, over positions [from, to): softmax is kept as its running maximum,
 * sum and unscaled output, so that a range may be cut anywhere and its pieces put together (online softmax, Milakov &
 * Gimelshein 2018; FlashAttention, Dao et al. 2022). */
typedef struct as_attend {
    const void *keys, *values; /* of position 0; [positions][head_dim] */
    as_dtype type;
    int head_dim;
    int64_t from, to;
    int rows;             /* queries, at most AS_ATTEND_ROWS */
    const float *q;       /* [rows][head_dim], times 1 / sqrt(head_dim) */
    const int64_t *limit; /* [rows]: positions that each sees, at least from + 1; NULL: all */
    float *most, *sum;    /* [rows]; before the first piece -INFINITY and 0 */
    float *out;           /* [rows][head_dim]; before the first piece 0 */
    float *score;         /* [rows][AS_ATTEND_BLOCK] of scratch */
} as_attend;

typedef struct as_vector {
    /* out[r * stride + i] = (or +=) scale * sum over k of x[r][k] w[i][k], for n rows of w and `rows` rows of x */
    void (*product)(as_dtype type, const void *w, int64_t n, int64_t k, const float *x, int64_t rows, float scale,
                    float *out, int64_t stride, bool add);
    /* One row of x against bf16: `spread` puts k elements of x in the order that `stream_bf16` takes them in. */
    void (*spread)(const float *x, int64_t k, float *out);
    void (*stream_bf16)(const uint16_t *w, int64_t n, int64_t k, const float *spread, float scale, float *out,
                        bool add);
    /* out = x / sqrt(mean(x^2) + epsilon) * w */
    void (*norm)(as_dtype type, const void *w, const float *x, int64_t n, float epsilon, float *out);
    /* Pairs (i, i + half) of one head, in place. */
    void (*rotate)(float *v, int half, const float *cosine, const float *sine);
    /* out = gate / (1 + exp(-gate)) * up */
    void (*activate)(const float *gate, const float *up, int64_t n, float *out);
    void (*attend)(const as_attend *a);
} as_vector;

const as_vector *as_vector_for(as_isa isa);

/* One row of x in bf16 against n rows of w, 32 products an instruction (AVX512-BF16); k a multiple of 32. Only where
 * as_isa_bf16 says so. */
void as_vector_product_bf16(const uint16_t *w, int64_t n, int64_t k, const uint16_t *x, float scale, float *out,
                            bool add);
void as_vector_round_bf16(const float *x, int64_t n, uint16_t *out);
