/* The decoder on the host: one forward pass for all rungs, over a table of operations that each rung fills. Activations
 * are f32 everywhere; weights, keys and values are of the step's type. */
#pragma once

#include "../../harness/parts.h"
#include "decoder.h"

typedef struct as_decoder_cpu as_decoder_cpu;

/* Tokens that go through the model together: t of each batch row, from position `first` on. */
typedef struct as_chunk {
    int64_t t, first;
    const uint32_t *tokens; /* [batch][stride]; the first t of each row */
    int64_t stride;
    void *kv; /* cache of the step's capacity */
} as_chunk;

/* Rows are (batch row, token): batch * t of them, but for the head. */
typedef struct as_decoder_ops {
    /* out[rows][n] = or += scale * x[rows][k] w[n][k]^T */
    void (*product)(const as_decoder_cpu *d, const as_tensor *w, const float *x, int64_t rows, float *out, bool add);
    void (*norm)(const as_decoder_cpu *d, const as_tensor *w, const float *x, int64_t rows, float *out);
    /* Queries and keys in d->qkv, in place. */
    void (*rotate)(const as_decoder_cpu *d, const as_chunk *c);
    /* d->attention from the queries in d->qkv and the cache, the chunk's own entries written. */
    void (*attend)(const as_decoder_cpu *d, const as_chunk *c, int layer);
    /* d->active = silu(gate) * up */
    void (*activate)(const as_decoder_cpu *d, int64_t rows);
} as_decoder_ops;

/* What a stage took, in order; filled only in the instrumented pass. */
typedef struct as_mark {
    const char *phase, *path;
    int layer; /* -1: none */
    int64_t ns;
    double bytes, flops;
} as_mark;

/* For tests: the values that a stage leaves. */
typedef void (*as_tap_fn)(void *context, const char *path, int layer, const float *values, int64_t rows,
                          int64_t columns);

struct as_decoder_cpu {
    as_step step;
    const as_decoder_ops *ops;
    as_team *team;
    const void *weights;
    int64_t rows; /* that the buffers hold */
    float *x, *h, *qkv, *attention, *gate_up, *active, *last, *logits;
    float *cosine, *sine; /* [capacity][head_dim / 2] */
    void *kv;             /* NULL in phase decode: the cache is an operand */
    uint32_t *next;       /* generate: [batch], the tokens of the step under way */
    float *scratch;       /* of the rung: scratch_floats of each member */
    size_t scratch_floats;
    struct as_partial *partial; /* of the rung: two of each member */

    as_mark *mark; /* NULL: not instrumented */
    int marks, most_marks;
    int64_t last_ns;
    as_tap_fn tap;
    void *tap_context;
};

/* State for the call's parameters, `scratch_floats` of scratch and `partial_bytes` of partials for each member of its
 * team. AS_ENOMEM. */
as_status as_decoder_cpu_create(as_decoder_cpu **out, const as_call *call, const as_decoder_ops *ops,
                                size_t scratch_floats, size_t partial_bytes, as_error *e) AS_MUST_CHECK;
void as_decoder_cpu_free(as_decoder_cpu *d); /* NULL allowed */

/* One operation. */
as_status as_decoder_cpu_run(const as_call *call, as_error *e);
/* One instrumented operation. */
as_status as_decoder_cpu_breakdown(const as_call *call, as_parts *parts, as_error *e);

/* ---- for the rungs ---- */

static inline const void *as_decoder_weight(const as_decoder_cpu *d, const as_tensor *w) {
    return (const char *)d->weights + (size_t)w->offset * as_dtype_bytes(d->step.type);
}
static inline int64_t as_decoder_qkv_columns(const as_model *m) {
    return (int64_t)(m->heads + 2 * m->kv_heads) * m->head_dim;
}
static inline const void *as_decoder_entry(const as_decoder_cpu *d, const as_chunk *c, int layer, int which,
                                           int64_t row, int head) {
    return (const char *)c->kv +
           (size_t)as_step_kv_offset(&d->step, layer, which, row, head) * as_dtype_bytes(d->step.type);
}
