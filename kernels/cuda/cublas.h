/* cuBLAS, loaded at run time: a machine without it has its reason recorded and everything else works. */
#pragma once

#include "../../harness/status.h"

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct as_cublas_handle as_cublas_handle;

/* Loads libcublas.so.13 or .12 once a process. AS_EABSENT with the reason where neither loads. */
as_status as_cublas_load(as_error *e) AS_MUST_CHECK;

/* A handle in pedantic float32 (no TF32, no reduced precision, no atomics) with a workspace of its own, so that its
 * calls allocate nothing and may be captured in a graph. */
as_status as_cublas_create(as_cublas_handle **out, as_error *e) AS_MUST_CHECK;
void as_cublas_destroy(as_cublas_handle *h); /* NULL allowed */

/* Later calls go to `stream`. Costs nothing if it is the current one. */
as_status as_cublas_use_stream(as_cublas_handle *h, cudaStream_t stream, as_error *e) AS_MUST_CHECK;

/* Column-major C[m x n] = A[m x k] B[k x n] with leading dimensions lda, ldb, ldc (elements). Sizes over 2^31 - 1
 * need cuBLAS 12: AS_EABSENT without. */
as_status as_cublas_sgemm(as_cublas_handle *h, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                          const float *b, int64_t ldb, float *c, int64_t ldc, as_error *e) AS_MUST_CHECK;

#ifdef __cplusplus
}
#endif
