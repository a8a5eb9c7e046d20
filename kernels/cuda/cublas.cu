/* The few entry points of cuBLAS that the suites use, found by dlsym. Their types are declared here from the public
 * interface (docs.nvidia.com/cuda/cublas), so that neither header nor library is needed to build. */
#include "cublas.h"

#include "check.h"
#include "library.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>

typedef void *native_handle;
enum { NATIVE_OK = 0, OPERATION_N = 0, PEDANTIC_MATH = 2, ATOMICS_NOT_ALLOWED = 0, POINTERS_ON_HOST = 0 };
/* What NVIDIA advises for Hopper; ample for older architectures. */
static const size_t WORKSPACE_BYTES = (size_t)32 << 20;

static struct library {
    int (*create)(native_handle *);
    int (*destroy)(native_handle);
    int (*set_stream)(native_handle, cudaStream_t);
    int (*set_workspace)(native_handle, void *, size_t);
    int (*set_math_mode)(native_handle, int);
    int (*set_atomics_mode)(native_handle, int);
    int (*set_pointer_mode)(native_handle, int);
    int (*sgemm)(native_handle, int, int, int, int, int, const float *, const float *, int, const float *, int,
                 const float *, float *, int);
    /* Sizes in 64 bits; since cuBLAS 12, NULL before. */
    int (*sgemm_64)(native_handle, int, int, int64_t, int64_t, int64_t, const float *, const float *, int64_t,
                    const float *, int64_t, const float *, float *, int64_t);
    const char *(*status_string)(int);
} cublas;

struct as_cublas_handle {
    native_handle native;
    cudaStream_t stream;
    void *workspace;
};

static as_status fail(as_error *e, int code, const char *what) {
    return as_fail_code(e, code == 3 ? AS_ENOMEM : AS_EFAIL, code, "%s: %s (%d)", what,
                        cublas.status_string ? cublas.status_string(code) : "cuBLAS error", code);
}
#define CUBLAS(e, what, call)                                                                                          \
    do {                                                                                                               \
        int code_ = (call);                                                                                            \
        if (code_ != NATIVE_OK)                                                                                        \
            return fail((e), code_, (what));                                                                           \
    } while (0)

template <typename F> static bool find(void *file, const char *name, F *out) {
    *out = (F)dlsym(file, name);
    return *out != NULL;
}

static bool resolve(void *f) {
    struct library l = {};
    find(f, "cublasSgemm_v2_64", &l.sgemm_64);
    find(f, "cublasGetStatusString", &l.status_string);
    const bool whole =
        find(f, "cublasCreate_v2", &l.create) && find(f, "cublasDestroy_v2", &l.destroy) &&
        find(f, "cublasSetStream_v2", &l.set_stream) && find(f, "cublasSetWorkspace_v2", &l.set_workspace) &&
        find(f, "cublasSetMathMode", &l.set_math_mode) && find(f, "cublasSetAtomicsMode", &l.set_atomics_mode) &&
        find(f, "cublasSetPointerMode_v2", &l.set_pointer_mode) && find(f, "cublasSgemm_v2", &l.sgemm);
    if (whole)
        cublas = l;
    return whole;
}

as_status as_cublas_load(as_error *e) {
    return cublas.sgemm ? AS_OK : as_library_find("cuBLAS", "libcublas", resolve, e);
}

static as_status set_up(as_cublas_handle *h, as_error *e) {
    CUBLAS(e, "cublasCreate", cublas.create(&h->native));
    AS_CUDA(e, cudaMalloc(&h->workspace, WORKSPACE_BYTES));
    CUBLAS(e, "cublasSetMathMode", cublas.set_math_mode(h->native, PEDANTIC_MATH));
    CUBLAS(e, "cublasSetAtomicsMode", cublas.set_atomics_mode(h->native, ATOMICS_NOT_ALLOWED));
    CUBLAS(e, "cublasSetPointerMode", cublas.set_pointer_mode(h->native, POINTERS_ON_HOST));
    CUBLAS(e, "cublasSetWorkspace", cublas.set_workspace(h->native, h->workspace, WORKSPACE_BYTES));
    return AS_OK;
}

as_status as_cublas_create(as_cublas_handle **out, as_error *e) {
    *out = NULL;
    AS_TRY(as_cublas_load(e));
    as_cublas_handle *h = (as_cublas_handle *)calloc(1, sizeof *h);
    if (!h)
        return as_fail(e, AS_ENOMEM, "out of host memory for a cuBLAS handle");
    const as_status s = set_up(h, e);
    if (s == AS_OK)
        *out = h;
    else
        as_cublas_destroy(h);
    return s;
}

void as_cublas_destroy(as_cublas_handle *h) {
    if (!h)
        return;
    if (h->native)
        (void)cublas.destroy(h->native);
    if (h->workspace)
        (void)cudaFree(h->workspace);
    free(h);
}

as_status as_cublas_use_stream(as_cublas_handle *h, cudaStream_t stream, as_error *e) {
    if (h->stream == stream)
        return AS_OK;
    CUBLAS(e, "cublasSetStream", cublas.set_stream(h->native, stream));
    /* Setting the stream takes the workspace back to the default pool. */
    CUBLAS(e, "cublasSetWorkspace", cublas.set_workspace(h->native, h->workspace, WORKSPACE_BYTES));
    h->stream = stream;
    return AS_OK;
}

as_status as_cublas_sgemm(as_cublas_handle *h, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                          const float *b, int64_t ldb, float *c, int64_t ldc, as_error *e) {
    const float one = 1.0f, zero = 0.0f;
    const bool wide = m > INT_MAX || n > INT_MAX || k > INT_MAX || lda > INT_MAX || ldb > INT_MAX || ldc > INT_MAX;
    if (!wide)
        CUBLAS(e, "cublasSgemm",
               cublas.sgemm(h->native, OPERATION_N, OPERATION_N, (int)m, (int)n, (int)k, &one, a, (int)lda, b, (int)ldb,
                            &zero, c, (int)ldc));
    else if (cublas.sgemm_64)
        CUBLAS(e, "cublasSgemm_64",
               cublas.sgemm_64(h->native, OPERATION_N, OPERATION_N, m, n, k, &one, a, lda, b, ldb, &zero, c, ldc));
    else
        return as_fail(e, AS_EABSENT, "this cuBLAS takes no size over 2^31 - 1; use cuBLAS 12 or later");
    return AS_OK;
}
