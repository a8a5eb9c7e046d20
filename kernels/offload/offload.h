/* When does the GPU pay? The same operations on the CPU and on a GPU, there with the data resident (transfers=no) and
 * with all inputs sent and the output fetched each time (transfers=yes, pinned host memory).
 *
 *   copy      y = x, n floats                               bytes 8 n
 *   axpy      z = 3 x + y, n floats                         flops 2 n, bytes 12 n
 *   softmax   rows of AS_OFFLOAD_ROW floats, n in all       flops 5 n (subtract, exp counted as 1, add, divide, compare)
 *             y = exp(x - max) / sum                        bytes 8 n
 *   matmul    C = A B, n x n, fp32                          flops 2 n^3, bytes 12 n^2
 *   batched   n products of 32 x 32 matrices                flops 65536 n, bytes 12288 n
 *
 * The CPU takes the best that this suite has: vectors of the machine, the team's threads, matmul/packed; the GPU
 * matmul/warptiled. Operands in order: inputs, output. */
#pragma once

#include "../table.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { AS_OFFLOAD_ROW = 1024, AS_OFFLOAD_SIDE = 32 };

typedef enum as_offload_op {
    AS_OFFLOAD_COPY,
    AS_OFFLOAD_AXPY,
    AS_OFFLOAD_SOFTMAX,
    AS_OFFLOAD_MATMUL,
    AS_OFFLOAD_BATCHED
} as_offload_op;

#define AS_OFFLOAD(X, on_copy)                                                                                         \
    X(offload, copy, on_copy, "y = x")                                                                                 \
    X(offload, axpy, on_copy, "z = 3 x + y")                                                                           \
    X(offload, softmax, on_copy, "softmax of rows of 1024")                                                            \
    X(offload, matmul, on_copy, "C = A B, n x n")                                                                      \
    X(offload, batched, on_copy, "n products of 32 x 32 matrices")
#define AS_OFFLOAD_CPU_STATE(X) AS_OFFLOAD(X, AS_DETERMINISTIC)
#define AS_OFFLOAD_CUDA_STATE(X) AS_OFFLOAD(X, AS_DETERMINISTIC)

AS_OFFLOAD_CPU_STATE(AS_PROTOTYPE_CPU_STATE)
AS_OFFLOAD_CUDA_STATE(AS_PROTOTYPE_CUDA_STATE)

/* Elements of each input and of the output, and the number of inputs. */
typedef struct as_offload_size {
    int inputs;
    int64_t in, out;
} as_offload_size;

static inline as_offload_size as_offload_size_of(as_offload_op op, int64_t n) {
    const int64_t square = op == AS_OFFLOAD_MATMUL    ? n * n
                           : op == AS_OFFLOAD_BATCHED ? n * AS_OFFLOAD_SIDE * AS_OFFLOAD_SIDE
                                                      : n;
    as_offload_size s;
    s.inputs = op == AS_OFFLOAD_COPY || op == AS_OFFLOAD_SOFTMAX ? 1 : 2;
    s.in = s.out = square;
    return s;
}

/* Parameters of a matrix product n x n as the hooks of matmul read them. */
as_status as_offload_matmul_params(int64_t n, as_params *out, as_error *e) AS_MUST_CHECK;

/* Float64, plain loops. The key of the first input names the operation (docs: suites/offload.c). */
as_status as_offload_reference(const as_reference *r, as_error *e);

#ifdef __cplusplus
}
#endif
