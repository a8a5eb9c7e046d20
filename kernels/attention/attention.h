/* Attention alone, as a decoder does it. Operands in order:
 *
 *   q       input  [batch][tokens][heads][head_dim]
 *   k, v    input  [batch][kv_heads][context][head_dim]; each kv head is shared by heads / kv_heads query heads
 *   out     output [batch][tokens][heads][head_dim], of the inputs' type
 *
 * Phase decode: tokens = 1, which attends to all `context` entries. Phase prefill: tokens = context, token t attends to
 * entries 0 to t (causal). Scores are divided by sqrt(head_dim).
 *
 * flops: decode 4 batch heads head_dim context; prefill 2 batch heads head_dim context (context + 1).
 * bytes: each operand once. */
#pragma once

#include "../table.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct as_attention_shape {
    bool prefill;
    as_dtype type; /* AS_F32 or AS_BF16 */
    int64_t batch, heads, kv_heads, head_dim, context, tokens;
} as_attention_shape;

as_attention_shape as_attention_shape_of(const as_params *p);
double as_attention_flops(const as_attention_shape *s);
double as_attention_query_elements(const as_attention_shape *s); /* of q, and of out */
double as_attention_entry_elements(const as_attention_shape *s); /* of k, and of v */

/* Bound of |out - reference| in units of the reference's scale; attention.c derives it. */
double as_attention_tolerance(const as_attention_shape *s);
as_status as_attention_reference(const as_reference *r, as_error *e);

#define AS_ATTENTION_CPU(X)                                                                                            \
    X(attention, naive, AS_DETERMINISTIC, "scores, softmax, weighted sum, a head after another; one thread")

#define AS_ATTENTION_CUDA_STATE(X)                                                                                     \
    X(attention, simple, AS_DETERMINISTIC | AS_CAPTURE,                                                                \
      "a warp an entry (decode, split over the GPU) or a query (prefill), an entry at a time")                         \
    X(attention, tensor, AS_DETERMINISTIC | AS_CAPTURE,                                                                \
      "bf16, head_dim 64 and 128: tensor cores by mma.sync; decode split over the GPU, prefill in tiles")

AS_ATTENTION_CPU(AS_PROTOTYPE_CPU)
AS_ATTENTION_CUDA_STATE(AS_PROTOTYPE_CUDA_STATE)

/* AS_EUSAGE where the variant has no kernel for the shape. */
as_status as_attention_check_cuda(const char *variant, const char *config, const as_attention_shape *s,
                                  as_error *e) AS_MUST_CHECK;

#ifdef __cplusplus
}
#endif
