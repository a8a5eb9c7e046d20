/* C[m x n] = A[m x k] B[k x n], alpha = 1, beta = 0. Axis `type` says what the matrices hold and how B lies: types.h.
 * Default f32: row-major, no transposition.
 *
 * Work: 2 m n k operations (one multiply and one add for each of m n k terms); at least (m k + k n) elements read and
 * m n written, each once.
 * Operands in order: A, B (inputs), C (output). */
#pragma once

#include "../table.h"
#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Axis `config` of packed in bf16 on this CPU: packed_bf16.c. */
#define AS_PACKED_NAMES "amx, dot, widen"

/* Rows of the register tile that tiled and packed take on this CPU: sampled verification visits every edge of it. */
int64_t as_matmul_tile_rows_cpu(void);

#define AS_MATMUL_CPU(X)                                                                                               \
    X(matmul, naive, AS_DETERMINISTIC, "triple loop i-j-k, one dot product for each element; one thread")              \
    X(matmul, swapped, AS_DETERMINISTIC, "triple loop i-k-j, inner loop along rows: vectorised; one thread")           \
    X(matmul, blocked, AS_DETERMINISTIC, "i-k-j over blocks of B that stay in L2, four rows at a time")

#define AS_MATMUL_CPU_STATE(X)                                                                                         \
    X(matmul, tiled, AS_DETERMINISTIC, "cache-blocked, register-blocked, packed; row panels over threads")             \
    X(matmul, packed, AS_DETERMINISTIC,                                                                                \
      "packed once, tiles of C from registers, blocks by cache sizes; grid of threads")                                \
    X(matmul, openblas, 0, "cblas_sgemm of OpenBLAS")

#define AS_MATMUL_CUDA(X)                                                                                              \
    X(matmul, strided, AS_DETERMINISTIC | AS_CAPTURE,                                                                  \
      "one thread for each element, a warp down a column: uncoalesced")                                                \
    X(matmul, naive, AS_DETERMINISTIC | AS_CAPTURE,                                                                    \
      "one thread for each element, 16 x 16 a block, operands from global memory")                                     \
    X(matmul, coalesced, AS_DETERMINISTIC | AS_CAPTURE, "one thread for each element, a warp along a row")             \
    X(matmul, tiled16, AS_DETERMINISTIC | AS_CAPTURE, "16 x 16 tiles in shared memory")                                \
    X(matmul, tiled32, AS_DETERMINISTIC | AS_CAPTURE, "32 x 32 tiles in shared memory")                                \
    X(matmul, tile1d, AS_DETERMINISTIC | AS_CAPTURE, "8 x 1 elements in registers, 64 x 64 tiles in shared memory")    \
    X(matmul, tile2d, AS_DETERMINISTIC | AS_CAPTURE, "8 x 8 elements in registers, 128 x 128 tiles in shared memory")  \
    X(matmul, vectorised, AS_DETERMINISTIC | AS_CAPTURE, "8 x 8 in quads of 16 bytes, A transposed in shared memory")  \
    X(matmul, double_buffered, AS_DETERMINISTIC | AS_CAPTURE,                                                          \
      "the same, the next slab in flight: two slabs, one barrier")

/* Axis `config` picks one of the configurations of warptiled.h, mma.h, wgmma.h. */
#define AS_MATMUL_CUDA_STATE(X)                                                                                        \
    X(matmul, warptiled, AS_DETERMINISTIC | AS_CAPTURE, "warp tiles, cp.async stages, register banks; by shape")       \
    X(matmul, wmma, AS_DETERMINISTIC | AS_CAPTURE, "tensor cores by nvcuda::wmma, tiles in shared memory")

/* cublaslt times its candidates in prepare and may take another one next time: not declared deterministic. */
#define AS_MATMUL_CUDA_LIBRARY(X)                                                                                      \
    X(matmul, mma, AS_DETERMINISTIC | AS_CAPTURE, "mma.sync, ldmatrix, cp.async stages, swizzled shared memory")       \
    X(matmul, wgmma, AS_DETERMINISTIC | AS_CAPTURE,                                                                    \
      "Hopper: wgmma, bulk tensor copies, warp specialisation, clusters, persistent")                                  \
    X(matmul, cublas, AS_DETERMINISTIC | AS_CAPTURE, "cublasSgemm, full fp32 (no TF32)")                               \
    X(matmul, cublaslt, AS_CAPTURE, "cublasLtMatmul, best of the library's candidates, timed in prepare")

AS_MATMUL_CPU(AS_PROTOTYPE_CPU)
AS_MATMUL_CPU_STATE(AS_PROTOTYPE_CPU_STATE)
AS_MATMUL_CUDA(AS_PROTOTYPE_CUDA)
AS_MATMUL_CUDA_STATE(AS_PROTOTYPE_CUDA_STATE)
AS_MATMUL_CUDA_LIBRARY(AS_PROTOTYPE_CUDA_LIBRARY)

typedef struct as_matmul_shape {
    int64_t m, n, k;
} as_matmul_shape;

/* Axes n, m, k; m = 0 and k = 0 stand for n. */
static inline as_matmul_shape as_matmul_shape_of(const as_params *p) {
    as_matmul_shape s;
    s.n = as_params_int(p, "n");
    s.m = as_params_int(p, "m");
    s.k = as_params_int(p, "k");
    if (s.m == 0)
        s.m = s.n;
    if (s.k == 0)
        s.k = s.n;
    return s;
}

/* Float64 reference on the host, plain loops: expected = sum a b, scale = sum |a| |b|, for chosen rows. */
as_status as_matmul_reference(const as_reference *r, as_error *e);

/* The same for the whole output by a plain float64 kernel, one thread for each element. Operands: A, B (of the type,
 * device memory), expected, scale (double, m * n each, device memory). */
as_status as_matmul_ref64_cuda(const as_call *call, as_error *e);

#ifdef __cplusplus
}
#endif
