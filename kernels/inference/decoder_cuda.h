/* The decoder's rungs on a CUDA device. Each is a whole operation as decoder.h states it; a rung keeps what the one
 * before it brought, unless its summary says otherwise.
 *
 *   eager_naive  a kernel for each operation, written as the formula reads; the host waits after each layer's, brings
 *                the tokens from pageable memory and takes the logits back to it, where the next token is chosen.
 *   eager        tuned kernels, launched one by one: products by gemv.cuh (one token) or cuBLASLt, attention split over
 *                the whole GPU. Predicted: bound by launches, some 10 kernels a layer at 3.4 us: llama-8b 8 ms a token,
 *                llama-1b 4.
 *   graph        the same kernels in one graph; the device walks them in under a microsecond each. Predicted: llama-8b
 *                4.4 ms, llama-1b 1.0.
 *   fused        five kernels a layer in place of ten (norm + QKV + rotary + cache, attention with its joining, output
 *                projection + sum, norm + gate + up + SiLU, down + sum), each started while the one before it ends and
 *                its first weights brought to L2 meanwhile, in a graph. From 2 to 16 rows in bf16 skinny.cuh in place
 *                of cuBLASLt, with the norms apart. Predicted: llama-8b 3.75 ms, llama-1b 0.70.
 *   persistent   the step as one cooperative launch: the products' and attention's blocks are those of fused, 5
 *                barriers of the whole GPU a layer in place of launches. Batch 1. Predicted: a barrier costs 1.0 to 1.5
 *                us, as a dependent launch does: within 5% of fused, ahead for the small presets.
 *
 * Prefill: products by cuBLASLt from eager on (the summary says so), attention by attention_prefill.cuh. */
#pragma once

#include "decoder.h"

#ifdef __cplusplus
extern "C" {
#endif

/* cuBLASLt times its candidates in prepare and may take another one next time: rungs that use it are not declared
 * deterministic. */
#define AS_INFERENCE_CUDA_BREAKDOWN(X)                                                                                 \
    X(inference, eager_naive, AS_DETERMINISTIC | AS_HOST_CLOCK | AS_SINGLE,                                            \
      "a simple kernel an operation, a wait a layer, pageable copies, the token chosen on the host",                   \
      AS_DECODER_SERIES)                                                                                               \
    X(inference, eager, 0, "tuned kernels launched one by one; several tokens by cuBLASLt", AS_DECODER_SERIES)         \
    X(inference, graph, 0, "the kernels of eager in a CUDA graph, position and token on the device",                   \
      AS_DECODER_SERIES)                                                                                               \
    X(inference, fused, 0, "five kernels a layer that overlap, in a graph; prefill and over 16 rows by cuBLASLt",      \
      AS_DECODER_SERIES)                                                                                               \
    X(inference, persistent, 0, "a step is one cooperative kernel; batch 1", AS_DECODER_SERIES)

AS_INFERENCE_CUDA_BREAKDOWN(AS_PROTOTYPE_CUDA_BREAKDOWN)

/* What may be tried on a new device, before a case is prepared (tests/gpu/tune_inference_cuda.c does). The values that
 * stand in decoder_state.cu are those of every result. */
typedef struct as_decoder_tuning {
    int gemv_blocks;      /* of gemv.cuh on a multiprocessor: 1 or 2 */
    int prefetch_bytes;   /* of weights that a block asks for before it waits for the kernel before it */
    int barrier_bytes;    /* the same before a barrier of persistent */
    int attention_blocks; /* of decode attention on a multiprocessor */
    bool overlap;         /* dependent launches in fused */
} as_decoder_tuning;
extern as_decoder_tuning as_decoder_tune;

/* AS_EUSAGE where the variant has no kernel for the step; for the suite's describe. */
as_status as_decoder_check_cuda(const char *variant, const as_step *s, as_error *e) AS_MUST_CHECK;

/* Bytes of device memory that the variant's state takes beside the operands, cuBLASLt's workspaces included. */
int64_t as_decoder_state_bytes_cuda(const char *variant, const as_step *s);

/* Whole-output float64 reference: the inputs, in phase generate the tokens chosen, then expected and scale. */
as_status as_decoder_reference_cuda(const as_call *call, as_error *e);

#ifdef __cplusplus
}
#endif
