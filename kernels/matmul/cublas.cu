/* The vendor's products: matmul/cublas (float32) and matmul/cublaslt (every type). cuBLAS is column-major: it computes
 * C^T = B^T A^T with the row-major buffers as they are. A transposed B (types.h) is what it calls op(A) = A^T. */
#include "matmul.h"

#include "../cuda/check.h"
#include "../cuda/cublas.h"
#include "../cuda/cublaslt.h"
#include "../cuda/internal.h"

as_status as_matmul_cublas_available_cuda(as_device *device, as_error *e) {
    (void)device;
    return as_cublas_load(e);
}

as_status as_matmul_cublas_prepare_cuda(const as_call *call, void **state, as_error *e) {
    as_cublas_handle *handle = NULL;
    AS_TRY(as_cublas_create(&handle, e));
    *state = handle;
    return as_cublas_use_stream(handle, as_cuda_stream(call->stream), e);
}

void as_matmul_cublas_finish_cuda(void *state) { as_cublas_destroy((as_cublas_handle *)state); }

as_status as_matmul_cublas_cuda(const as_call *call, as_error *e) {
    const as_matmul_shape s = as_matmul_shape_of(call->params);
    as_cublas_handle *handle = (as_cublas_handle *)call->state;
    AS_TRY(as_cublas_use_stream(handle, as_cuda_stream(call->stream), e));
    return as_cublas_sgemm(handle, s.n, s.m, s.k, (const float *)call->operand[1], s.n, (const float *)call->operand[0],
                           s.k, (float *)call->operand[2], s.n, e);
}

as_status as_matmul_cublaslt_available_cuda(as_device *device, as_error *e) {
    (void)device;
    return as_cublaslt_load(e);
}

static as_cublaslt_problem problem_of(const as_call *call) {
    const as_matmul_shape s = as_matmul_shape_of(call->params);
    const as_matmul_type *t = as_matmul_type_of(call->params);
    as_cublaslt_problem p = {s.n, s.m, s.k, t->b_transposed, AS_LT_F32, AS_LT_F32, AS_LT_COMPUTE_F32, AS_LT_F32, false};
    switch (t->element) {
    case AS_MM_F32: p.compute = AS_LT_COMPUTE_F32_PEDANTIC; break;
    case AS_MM_TF32: p.compute = AS_LT_COMPUTE_TF32; break;
    case AS_MM_BF16: p.in = p.out = AS_LT_BF16; break;
    case AS_MM_F16: p.in = p.out = AS_LT_F16; break;
    case AS_MM_E4M3:
        p.in = AS_LT_F8E4M3;
        p.out = AS_LT_BF16;
        p.fast_accumulation = true;
        break;
    case AS_MM_S8:
        p.in = AS_LT_I8;
        p.out = p.scale = AS_LT_I32;
        p.compute = AS_LT_COMPUTE_I32;
        break;
    }
    return p;
}

as_status as_matmul_cublaslt_prepare_cuda(const as_call *call, void **state, as_error *e) {
    as_cublaslt *l = NULL;
    const as_cublaslt_problem p = problem_of(call);
    AS_TRY(as_cublaslt_create(&p, call->operand[1], call->operand[0], call->operand[2], as_cuda_stream(call->stream),
                              &l, e));
    *state = l;
    return AS_OK;
}

void as_matmul_cublaslt_finish_cuda(void *state) { as_cublaslt_destroy((as_cublaslt *)state); }

as_status as_matmul_cublaslt_cuda(const as_call *call, as_error *e) {
    return as_cublaslt_run((as_cublaslt *)call->state, call->operand[1], call->operand[0], call->operand[2],
                           as_cuda_stream(call->stream), e);
}
