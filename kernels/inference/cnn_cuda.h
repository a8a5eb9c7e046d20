/* Convolutional networks on a CUDA device. Each rung is a whole operation as cnn.h states it.
 *
 *   naive  a plain kernel for each operation, a thread an output, launched one by one.
 *   eager  convolutions as implicit matrix products with bias, shortcut and ReLU in their epilogue: f16, bf16 and tf32
 *          on tensor cores (cnn_mma.cuh), f32 on CUDA cores (cnn_f32.cuh). About 25 launches: 85 us at 3.4 us each.
 *   graph  the same kernels, and the copies of `transfers`, in one graph.
 *
 * Predicted for an H200, batch 128, f16: 3.63e9 x 128 operations at half of the 380 TFLOP/s that matmul/mma reached on it:
 * 2.4 ms, 53,000 images/s. Half, because the stem fills 66% of its terms, and because a tile of 128 x 64 (stage 1) has
 * 43 operations for each byte that it brings from L2, where 380 TFLOP/s would take 9 TB/s: each pixel comes nine times for
 * a 3x3 kernel. Of activations 2.7e6 elements are written and 3.8e6 read an image: 0.4 ms at the memory's rate, if none
 * came from L2. So 46,000 to 53,000, with f16's copies of 38.5 MB (0.7 ms) 35,000 to 41,000. Not yet run on a GPU. Batch 1 is
 * latency: stage 4 has 8 tiles for 132 multiprocessors, and nothing here splits their sums.
 *
 * PyTorch's figures in f32 use TF32 for convolutions unless told otherwise: type:tf32 is their like. */
#pragma once

#include "cnn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Names that the decoder has, too (suites/inference/route.c), and one that it has not. */
#define AS_CNN_CUDA_BREAKDOWN(X)                                                                                       \
    X(cnn, eager, AS_DETERMINISTIC, "implicit matrix products, fused epilogues; launched one by one", {0})             \
    X(cnn, graph, AS_DETERMINISTIC, "the kernels of eager in a CUDA graph", {0})
#define AS_CNN_CUDA_OWN_BREAKDOWN(X)                                                                                   \
    X(cnn, naive, AS_DETERMINISTIC, "images: a plain kernel an operation, a thread an output", {0})

AS_CNN_CUDA_BREAKDOWN(AS_PROTOTYPE_CUDA_BREAKDOWN)
AS_CNN_CUDA_OWN_BREAKDOWN(AS_PROTOTYPE_CUDA_BREAKDOWN)

/* Bytes of device memory that a variant's state takes beside the operands. */
int64_t as_cnn_state_bytes_cuda(const as_cnn_step *s);

/* Whole-output float64 reference: weights, images, then expected and scale. */
as_status as_cnn_reference_cuda(const as_call *call, as_error *e);

#ifdef __cplusplus
}
#endif
