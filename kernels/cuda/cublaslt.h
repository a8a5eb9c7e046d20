/* cuBLASLt, loaded at run time: one matrix product by the best of the library's own candidates. */
#pragma once

#include "../../harness/status.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Loads libcublasLt.so.13 or .12 once a process. AS_EABSENT with the reason where neither loads. */
as_status as_cublaslt_load(as_error *e) AS_MUST_CHECK;

/* Column-major D[m x n] = op(A) B: A is k x m where `transposed`, else m x k; B is k x n; leading dimensions are the
 * columns' lengths. Types and computation by cuBLAS's numbers (AS_LT_...). */
typedef struct as_cublaslt_problem {
    int64_t m, n, k;
    bool transposed;
    int in, out, compute, scale;
    bool fast_accumulation; /* 8-bit floats: no partial sums moved out of the tensor cores */
} as_cublaslt_problem;

enum {
    AS_LT_F32 = 0,
    AS_LT_F16 = 2,
    AS_LT_I8 = 3,
    AS_LT_I32 = 10,
    AS_LT_BF16 = 14,
    AS_LT_F8E4M3 = 28,
    AS_LT_COMPUTE_F32 = 68,
    AS_LT_COMPUTE_F32_PEDANTIC = 69,
    AS_LT_COMPUTE_I32 = 72,
    AS_LT_COMPUTE_TF32 = 77,
};

typedef struct as_cublaslt as_cublaslt;

/* Asks the library for its candidates with a workspace of 64 MiB, times each on these operands (device memory; `d` is
 * overwritten) and keeps the fastest. AS_EABSENT where the library has no algorithm for the problem. */
as_status as_cublaslt_create(const as_cublaslt_problem *p, const void *a, const void *b, void *d, cudaStream_t stream,
                             as_cublaslt **out, as_error *e) AS_MUST_CHECK;
void as_cublaslt_destroy(as_cublaslt *l); /* NULL allowed */

/* Issues the product. Allocates nothing and may be captured in a graph. */
as_status as_cublaslt_run(as_cublaslt *l, const void *a, const void *b, void *d, cudaStream_t stream,
                          as_error *e) AS_MUST_CHECK;

#ifdef __cplusplus
}
#endif
