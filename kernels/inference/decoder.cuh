/* What the rungs share: a pass of some tokens of each row through the model, the workspace between its kernels, the
 * order of its operations. A decode step is a pass of one token a row, a prefill one of the whole prompt; a generation
 * has one of each on one cache. */
#pragma once

#include "../cuda/cublaslt.h"
#include "../cuda/internal.h"
#include "attention_tiles.cuh"
#include "decoder_cuda.h"
#include "gemv.cuh"
#include "issue.cuh"
#include "skinny.cuh"

enum as_product_name { AS_P_QKV, AS_P_O, AS_P_GATE_UP, AS_P_DOWN, AS_P_HEAD, AS_PRODUCTS };

/* Stages of a layer in order, for the breakdown. */
enum as_decoder_stage {
    AS_S_EMBED,
    AS_S_ATTN_NORM,
    AS_S_QKV,
    AS_S_ROTARY,
    AS_S_ATTENTION,
    AS_S_JOIN,
    AS_S_O,
    AS_S_MLP_NORM,
    AS_S_GATE_UP,
    AS_S_SILU,
    AS_S_DOWN,
    AS_S_FINAL_NORM,
    AS_S_HEAD,
    AS_S_SCALE,
    AS_STAGES
};

struct as_decoder;
/* Told before each kernel is issued. NULL function: nobody listens. */
typedef struct as_listener {
    as_status (*stage)(void *context, as_decoder_stage stage, int layer, as_error *e);
    void *context;
    bool between; /* it issues something of its own before each kernel: no overlap then */
} as_listener;

typedef struct as_decoder_matrix {
    as_tensor tensor; /* of layer 0 */
    int64_t stride;   /* elements from layer to layer */
} as_decoder_matrix;

typedef enum as_rung { AS_RUNG_NAIVE, AS_RUNG_EAGER, AS_RUNG_GRAPH, AS_RUNG_FUSED, AS_RUNG_PERSISTENT } as_rung;

struct as_decoder {
    as_step step;
    const as_model *m;
    as_rung rung;
    bool fused;     /* fused and persistent */
    int row_tokens; /* of each row in this pass */
    int tokens;     /* of all rows */
    int multiprocessors;
    size_t most_shared; /* bytes a block may have */
    bool tensor_cores;  /* that take bf16: compute capability 8.0 */
    /* Operands. */
    const char *weights;
    char *cache;           /* operand kv, or the state's own */
    const uint32_t *token; /* [batch][row_tokens] */
    float *logits;         /* [batch][vocab] */
    /* Workspace: one allocation. T: the type of the weights. */
    char *memory;
    float *x;      /* [tokens][d_model] */
    char *h;       /* T [tokens][d_model] */
    char *product; /* T [tokens][most rows of a product]; naive: float, as are h, q, mixed, act */
    char *q;       /* T [tokens][heads head_dim] */
    char *mixed;   /* T [tokens][heads head_dim] */
    char *act;     /* T [tokens][d_ff] */
    float *partial;
    float2 *state;
    unsigned *arrived; /* [batch kv_heads]; then the barriers of persistent: 2 */
    int *position;     /* of the pass's first token */
    double *turns;
    int splits;
    as_decoder_matrix matrix[AS_T_HEAD + 1];
    as_cublaslt *library[AS_PRODUCTS];
    as_listener listener;
    uint64_t *stamp; /* persistent: where it leaves times of its stages (persistent.cu); NULL: nowhere */
};

template <typename T> static inline const T *as_weights(const as_decoder *d, as_tensor_role role, int layer) {
    const as_decoder_matrix *m = &d->matrix[role];
    return (const T *)d->weights + m->tensor.offset + layer * m->stride;
}
template <typename T> static inline as_cache<T> as_cache_of(const as_decoder *d, int layer) {
    const as_model *m = d->m;
    const int64_t one = as_step_kv_offset(&d->step, 0, 1, 0, 0);
    as_cache<T> c = {};
    c.keys = (T *)d->cache + 2 * layer * one;
    c.values = c.keys + one;
    c.capacity = as_step_capacity(&d->step);
    c.position = d->position;
    c.turns = d->turns;
    c.heads = m->heads, c.kv_heads = m->kv_heads, c.head_dim = m->head_dim;
    return c;
}
template <typename T> static inline as_attention<T> as_attention_of(const as_decoder *d, int layer) {
    const as_cache<T> c = as_cache_of<T>(d, layer);
    as_attention<T> a = {};
    a.queries = (const T *)d->q;
    a.keys = c.keys, a.values = c.values, a.capacity = c.capacity, a.position = c.position;
    a.batch = (int)d->step.batch, a.heads = c.heads, a.kv_heads = c.kv_heads, a.head_dim = c.head_dim;
    a.splits = d->splits;
    a.partial = d->partial, a.state = d->state;
    a.arrived = d->fused ? d->arrived : NULL;
    a.out = (T *)d->mixed;
    return a;
}
/* The product of the weights of `role` in `layer`, for one token of each row of the batch. */
template <typename T> static inline as_product<T> as_product_of(const as_decoder *d, as_tensor_role role, int layer) {
    const as_tensor *t = &d->matrix[role].tensor;
    as_product<T> p = {};
    p.weights = as_weights<T>(d, role, layer);
    p.rows = (int)t->rows, p.columns = (int)t->columns, p.batch = d->tokens;
    p.scale = t->scale;
    p.epsilon = d->m->norm_epsilon;
    return p;
}
static inline as_status as_decoder_stage_begins(const as_decoder *d, as_decoder_stage s, int layer, as_error *e) {
    return d->listener.stage ? d->listener.stage(d->listener.context, s, layer, e) : AS_OK;
}

/* Bytes of the workspace of a pass, and without a device's number of multiprocessors a bound of it. */
size_t as_decoder_memory_bytes(const as_step *s, as_rung rung, int row_tokens, int multiprocessors);
/* A pass of `row_tokens` tokens of each row, its first at `position`. */
as_status as_decoder_create(const as_call *call, as_rung rung, int row_tokens, int position, const as_step_io *io,
                            as_decoder **out, as_error *e);
void as_decoder_destroy(as_decoder *d); /* NULL allowed */
/* Issues the whole pass to `stream`: as the rung does, naive ones with a wait after each layer. */
as_status as_decoder_issue(as_decoder *d, cudaStream_t stream, as_error *e);
as_status as_decoder_issue_naive(as_decoder *d, cudaStream_t stream, as_error *e);      /* decoder_naive.cu */
as_status as_decoder_issue_persistent(as_decoder *d, cudaStream_t stream, as_error *e); /* persistent.cu */
/* Attention of many tokens over themselves: queries in d->q, cache written. (attention_prefill.cu) */
as_status as_decoder_issue_prefill_attention(as_decoder *d, int layer, const as_issue *how, as_error *e);
