/* A Llama-architecture decoder: one decode step, a prefill, or a greedy generation. Axis `phase` says which.
 * Operands in order:
 *
 *   weights  input, the model's block (model.h), element type by axis `type`
 *   kv       phase decode only; input, keys and values of `context` earlier tokens of each batch row; element type as
 *            the weights. [layers][2: keys, values][batch][kv_heads][capacity][head_dim], capacity = context + 1: the
 *            step writes its own token's entry, at position `context`, before it reads it, so that every variant finds
 *            the same past. Keys are stored rotated. In the other phases the variant's state holds the cache.
 *   tokens   input, u32 random bits; token id = bits mod vocab. decode: [batch]; prefill, generate: [batch][prompt].
 *   logits   output, f32 [batch][vocab], of each row's last position; phase generate has instead
 *   chosen   output, u32 [batch][tokens]: at each step the lowest id of those with the largest logit. The first comes
 *            from the prefill, each other one from a decode step on the one before it: tokens - 1 steps.
 *            The last operand is what is verified.
 *
 * For each layer: h = rmsnorm(x, attn_norm); q, k, v = qkv h; rotate q and k (pairs (i, i + head_dim / 2), angle
 * position * theta^(-2 i / head_dim), as Hugging Face's files expect); attention of q over all positions up to its own,
 * scores / sqrt(head_dim), each kv head shared by heads / kv_heads heads; x += o attention; h = rmsnorm(x, mlp_norm);
 * x += down (silu(gate h) * (up h)). Then logits = head rmsnorm(x, final_norm). Sums are kept in f32 at least; what is
 * stored between operations is of the axis's type or wider. Every product with a matrix is multiplied by the matrix's
 * scale (model.h). Sines and cosines come from as_rotary_table, which works in double: float angles are off by 2^-24 of
 * the position.
 *
 * Work of a decode step: flops 2 batch (parameters read) + 4 batch layers heads head_dim (context + 1); bytes: the
 * weights read once for the whole batch, and each row's keys and values, read; the new entries, written.
 * Work of a prefill of T tokens: flops 2 batch T (parameters read - head) + 2 batch d_model vocab
 * + 2 batch layers heads head_dim T (T + 1); bytes: the weights once, keys and values written. */
#pragma once

#include "../table.h"
#include "model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum as_phase { AS_PHASE_DECODE, AS_PHASE_PREFILL, AS_PHASE_GENERATE } as_phase;

/* What the axes say. */
typedef struct as_step {
    const as_model *model;
    as_phase phase;
    as_dtype type;   /* of weights, keys and values: AS_F32 or AS_BF16 */
    int64_t batch;   /* rows: sequences that go through together */
    int64_t context; /* decode: earlier tokens; else 0 */
    int64_t prompt;  /* tokens of a row that go through the model at once: 1 for decode */
    int64_t tokens;  /* generate: new tokens; else 0 */
} as_step;

/* From a case's axes; they have been checked (suites/inference/decoder.c). */
as_step as_step_of(const as_params *p);

/* Operands by name; kv, logits and chosen are NULL in phases that have none. */
typedef struct as_step_io {
    const void *weights;
    void *kv;
    const uint32_t *tokens;
    float *logits;
    uint32_t *chosen;
} as_step_io;
as_step_io as_step_operands(const as_step *s, void *const *operand);

/* Positions that the cache holds for each row. */
static inline int64_t as_step_capacity(const as_step *s) {
    return s->context + s->prompt + (s->tokens > 0 ? s->tokens - 1 : 0);
}
/* Elements of kv. */
static inline int64_t as_step_kv_elements(const as_step *s) {
    return as_model_kv_elements(s->model) * s->batch * as_step_capacity(s);
}
/* Element offset of entry (layer, which: 0 keys, 1 values, row, kv head, position 0). */
static inline int64_t as_step_kv_offset(const as_step *s, int layer, int which, int64_t row, int head) {
    const as_model *m = s->model;
    return (((int64_t)(layer * 2 + which) * s->batch + row) * m->kv_heads + head) * as_step_capacity(s) * m->head_dim;
}

/* Work of one operation. Generate: its prefill and its steps, summed. */
double as_step_flops(const as_step *s);
double as_step_bytes_read(const as_step *s);
double as_step_bytes_written(const as_step *s);

/* cosine and sine of position * theta^(-2 i / head_dim), [positions][head_dim / 2] each, from position `first` on. */
void as_rotary_table(const as_model *m, int64_t first, int64_t positions, float *cosine, float *sine);

/* How far a logit may be from the float64 reference, in units of the reference's scale (decoder_reference.c): what
 * storing in `type` between operations, and sums in f32, cost. */
double as_step_tolerance(const as_step *s);

/* Float64 reference: logits of chosen rows. Phase generate: the tokens that were chosen, each of which must have a
 * logit within the tolerance of the largest one, given those before it; where it has not, the right token. */
as_status as_decoder_reference(const as_reference *r, as_error *e);

/* Extra series of every variant; NaN where the phase has none. */
enum { AS_EXTRA_TTFT, AS_EXTRA_ITL };
#define AS_DECODER_SERIES                                                                                              \
    {"ttft_ns", "ns", false, false, true}, { "itl_ns", "ns", false, false, true }

#define AS_INFERENCE_CPU_BREAKDOWN(X)                                                                                  \
    X(inference, naive, AS_DETERMINISTIC | AS_SINGLE, "plain loops, an operation at a time; one thread",               \
      AS_DECODER_SERIES)                                                                                               \
    X(inference, simd, AS_DETERMINISTIC | AS_SINGLE,                                                                   \
      "AVX2 or AVX-512, chosen at run time; every operation over the team", AS_DECODER_SERIES)                         \
    X(inference, openblas, AS_SINGLE,                                                                                  \
      "products by cblas_sgemv and cblas_sgemm (images: im2col), the rest as simd; f32", AS_DECODER_SERIES)

AS_INFERENCE_CPU_BREAKDOWN(AS_PROTOTYPE_CPU_BREAKDOWN)

/* Bytes of a host variant's state: activations, rotary table and, where it is no operand, the cache. */
int64_t as_decoder_state_bytes_cpu(const as_step *s);

#ifdef __cplusplus
}
#endif
