/* One step of a Llama-architecture decoder. Operands in order:
 *
 *   weights  input, the model's block (model.h), element type by axis `type`
 *   kv       input, keys and values of `context` earlier tokens (phase decode) of each batch row; element type as the
 *            weights. [layers][2: keys, values][batch][kv_heads][capacity][head_dim], capacity = context + 1: the step
 *            writes its own token's entry, at position `context`, before it reads it, so that every variant finds the
 *            same past. Keys are stored rotated.
 *   tokens   input, u32 random bits; token id = bits mod vocab. decode: [batch]; prefill: [batch][prompt].
 *   logits   output, f32 [batch][vocab], of each row's last position. The last operand: it is what is verified.
 *
 * Phase prefill has no operand kv: the variant's state holds the cache it writes, at positions 0 .. prompt - 1.
 *
 * For each layer: h = rmsnorm(x, attn_norm); q, k, v = qkv h; rotate q and k (pairs (i, i + head_dim / 2), angle
 * position * theta^(-2 i / head_dim), as Hugging Face's files expect); attention of q over all positions up to its own,
 * scores / sqrt(head_dim), each kv head shared by heads / kv_heads heads; x += o attention; h = rmsnorm(x, mlp_norm);
 * x += down (silu(gate h) * (up h)). Then logits = head rmsnorm(x, final_norm). Sums are kept in f32 at least; what is
 * stored between operations is of the axis's type or wider. Every product with a matrix is multiplied by the matrix's
 * scale (model.h).
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

enum { AS_DECODER_WEIGHTS, AS_DECODER_KV, AS_DECODER_TOKENS, AS_DECODER_LOGITS };

/* What the axes say. */
typedef struct as_step {
    const as_model *model;
    as_dtype type; /* of weights, keys and values: AS_F32 or AS_BF16 */
    int64_t batch;
    int64_t context; /* decode: earlier tokens; prefill: 0 */
    int64_t prompt;  /* tokens of this step and row: 1 for decode */
} as_step;

static inline int64_t as_step_capacity(const as_step *s) { return s->context + s->prompt; }
/* Elements of kv. */
static inline int64_t as_step_kv_elements(const as_step *s) {
    return as_model_kv_elements(s->model) * s->batch * as_step_capacity(s);
}
/* Element offset of entry (layer, which: 0 keys, 1 values, row, kv head, position 0). */
static inline int64_t as_step_kv_offset(const as_step *s, int layer, int which, int64_t row, int head) {
    const as_model *m = s->model;
    return (((int64_t)(layer * 2 + which) * s->batch + row) * m->kv_heads + head) * as_step_capacity(s) * m->head_dim;
}

#ifdef __cplusplus
}
#endif
