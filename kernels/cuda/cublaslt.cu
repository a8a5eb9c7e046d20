/* The few entry points of cuBLASLt that the suites use, found by dlsym. Their types are declared here from the public
 * interface (docs.nvidia.com/cuda/cublas), so that neither header nor library is needed to build. */
#include "cublaslt.h"

#include "check.h"
#include "library.h"

#include <dlfcn.h>
#include <float.h>
#include <stdlib.h>

typedef void *opaque;
enum { NATIVE_OK = 0, OPERATION_T = 1, TRANSPOSE_A = 3, FAST_ACCUMULATION = 25, MOST_WORKSPACE = 1 };
enum { CANDIDATES = 16, TRIALS = 3, CALLS = 4 };
static const size_t WORKSPACE_BYTES = (size_t)64 << 20;

struct algorithm {
    uint64_t data[8];
};
struct candidate {
    algorithm algo;
    size_t workspace_bytes;
    int state;
    float waves;
    int reserved[4];
};

static struct library {
    int (*create)(opaque *);
    int (*desc_create)(opaque *, int compute, int scale);
    int (*desc_destroy)(opaque);
    int (*desc_set)(opaque, int attribute, const void *, size_t);
    int (*layout_create)(opaque *, int type, uint64_t rows, uint64_t columns, int64_t leading);
    int (*layout_destroy)(opaque);
    int (*preference_create)(opaque *);
    int (*preference_destroy)(opaque);
    int (*preference_set)(opaque, int attribute, const void *, size_t);
    int (*heuristic)(opaque, opaque, opaque, opaque, opaque, opaque, opaque, int, candidate *, int *);
    int (*matmul)(opaque, opaque, const void *, const void *, opaque, const void *, opaque, const void *, const void *,
                  opaque, void *, opaque, const algorithm *, void *, size_t, cudaStream_t);
    const char *(*status_string)(int);
    opaque handle; /* one a process: kept until it ends */
} lt;

struct as_cublaslt {
    as_cublaslt_problem p;
    opaque desc, a, b, d, preference;
    void *workspace;
    algorithm algo;
};

static as_status fail(as_error *e, int code, const char *what) {
    return as_fail_code(e,
                        code == 3    ? AS_ENOMEM
                        : code == 15 ? AS_EABSENT
                                     : AS_EFAIL,
                        code, "%s: %s (%d)", what, lt.status_string ? lt.status_string(code) : "cuBLASLt error", code);
}
#define LT(e, what, call)                                                                                              \
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
    find(f, "cublasLtGetStatusString", &l.status_string);
    const bool whole = find(f, "cublasLtCreate", &l.create) && find(f, "cublasLtMatmulDescCreate", &l.desc_create) &&
                       find(f, "cublasLtMatmulDescDestroy", &l.desc_destroy) &&
                       find(f, "cublasLtMatmulDescSetAttribute", &l.desc_set) &&
                       find(f, "cublasLtMatrixLayoutCreate", &l.layout_create) &&
                       find(f, "cublasLtMatrixLayoutDestroy", &l.layout_destroy) &&
                       find(f, "cublasLtMatmulPreferenceCreate", &l.preference_create) &&
                       find(f, "cublasLtMatmulPreferenceDestroy", &l.preference_destroy) &&
                       find(f, "cublasLtMatmulPreferenceSetAttribute", &l.preference_set) &&
                       find(f, "cublasLtMatmulAlgoGetHeuristic", &l.heuristic) && find(f, "cublasLtMatmul", &l.matmul);
    if (whole)
        lt = l;
    return whole;
}

as_status as_cublaslt_load(as_error *e) {
    return lt.matmul ? AS_OK : as_library_find("cuBLASLt", "libcublasLt", resolve, e);
}

/* One product by the given algorithm. The factors 1 and 0 are of the scale's type. */
static as_status issue(as_cublaslt *l, const algorithm *algo, const void *a, const void *b, void *d,
                       cudaStream_t stream, as_error *e) {
    static const float one = 1.0f, zero = 0.0f;
    static const int32_t one_i = 1, zero_i = 0;
    const bool whole = l->p.scale == AS_LT_I32;
    LT(e, "cublasLtMatmul",
       lt.matmul(lt.handle, l->desc, whole ? (const void *)&one_i : &one, a, l->a, b, l->b,
                 whole ? (const void *)&zero_i : &zero, d, l->d, d, l->d, algo, l->workspace, WORKSPACE_BYTES, stream));
    return AS_OK;
}

static as_status set_up(as_cublaslt *l, as_error *e) {
    const as_cublaslt_problem *p = &l->p;
    const int32_t transpose = OPERATION_T;
    const int8_t fast = 1;
    if (!lt.handle)
        LT(e, "cublasLtCreate", lt.create(&lt.handle));
    LT(e, "cublasLtMatmulDescCreate", lt.desc_create(&l->desc, p->compute, p->scale));
    if (p->transposed)
        LT(e, "the transposition of A", lt.desc_set(l->desc, TRANSPOSE_A, &transpose, sizeof transpose));
    if (p->fast_accumulation)
        LT(e, "fast accumulation", lt.desc_set(l->desc, FAST_ACCUMULATION, &fast, sizeof fast));
    const int64_t rows = p->transposed ? p->k : p->m, columns = p->transposed ? p->m : p->k;
    LT(e, "the layout of A", lt.layout_create(&l->a, p->in, (uint64_t)rows, (uint64_t)columns, rows));
    LT(e, "the layout of B", lt.layout_create(&l->b, p->in, (uint64_t)p->k, (uint64_t)p->n, p->k));
    LT(e, "the layout of D", lt.layout_create(&l->d, p->out, (uint64_t)p->m, (uint64_t)p->n, p->m));
    LT(e, "cublasLtMatmulPreferenceCreate", lt.preference_create(&l->preference));
    LT(e, "the workspace", lt.preference_set(l->preference, MOST_WORKSPACE, &WORKSPACE_BYTES, sizeof WORKSPACE_BYTES));
    AS_CUDA(e, cudaMalloc(&l->workspace, WORKSPACE_BYTES));
    return AS_OK;
}

/* Least time of CALLS calls in ns; DBL_MAX for a candidate that the library then refuses to run. */
static as_status time_one(as_cublaslt *l, const candidate *c, const void *a, const void *b, void *d,
                          cudaStream_t stream, const cudaEvent_t event[2], double *ms, as_error *e) {
    float elapsed = 0;
    *ms = DBL_MAX;
    if (issue(l, &c->algo, a, b, d, stream, e) != AS_OK)
        return AS_OK;
    AS_CUDA(e, cudaEventRecord(event[0], stream));
    for (int i = 0; i < CALLS; i++)
        AS_TRY(issue(l, &c->algo, a, b, d, stream, e));
    AS_CUDA(e, cudaEventRecord(event[1], stream));
    AS_CUDA(e, cudaStreamSynchronize(stream));
    AS_CUDA(e, cudaEventElapsedTime(&elapsed, event[0], event[1]));
    *ms = (double)elapsed;
    return AS_OK;
}

/* Candidates take turns, so that a change of the clock falls on all of them. */
static as_status choose(as_cublaslt *l, const void *a, const void *b, void *d, cudaStream_t stream,
                        const cudaEvent_t event[2], as_error *e) {
    candidate found[CANDIDATES] = {};
    double least[CANDIDATES], ms;
    int n = 0, best = 0;
    const int code = lt.heuristic(lt.handle, l->desc, l->a, l->b, l->d, l->d, l->preference, CANDIDATES, found, &n);
    if (code != NATIVE_OK || n == 0)
        return as_fail_code(e, AS_EABSENT, code, "cuBLASLt has no algorithm for %lld x %lld x %lld of this type (%d)",
                            (long long)l->p.m, (long long)l->p.n, (long long)l->p.k, code);
    for (int trial = 0; trial < TRIALS; trial++)
        for (int i = 0; i < n; i++) {
            AS_TRY(time_one(l, &found[i], a, b, d, stream, event, &ms, e));
            least[i] = trial == 0 || ms < least[i] ? ms : least[i];
        }
    for (int i = 1; i < n; i++)
        if (least[i] < least[best])
            best = i;
    if (least[best] == DBL_MAX)
        return as_fail(e, AS_EABSENT, "cuBLASLt runs none of its own candidates for this product");
    l->algo = found[best].algo;
    return AS_OK;
}

as_status as_cublaslt_create(const as_cublaslt_problem *p, const void *a, const void *b, void *d, cudaStream_t stream,
                             as_cublaslt **out, as_error *e) {
    cudaEvent_t event[2] = {};
    *out = NULL;
    AS_TRY(as_cublaslt_load(e));
    as_cublaslt *l = (as_cublaslt *)calloc(1, sizeof *l);
    if (!l)
        return as_fail(e, AS_ENOMEM, "out of host memory for a product by cuBLASLt");
    l->p = *p;
    as_status s = set_up(l, e);
    for (int i = 0; i < 2 && s == AS_OK; i++)
        AS_CUDA_GOTO(e, s, cudaEventCreate(&event[i]));
    if (s == AS_OK)
        s = choose(l, a, b, d, stream, event, e);
out:
    for (int i = 0; i < 2; i++)
        if (event[i])
            (void)cudaEventDestroy(event[i]);
    if (s == AS_OK)
        *out = l;
    else
        as_cublaslt_destroy(l);
    return s;
}

void as_cublaslt_destroy(as_cublaslt *l) {
    if (!l)
        return;
    if (l->preference)
        (void)lt.preference_destroy(l->preference);
    if (l->a)
        (void)lt.layout_destroy(l->a);
    if (l->b)
        (void)lt.layout_destroy(l->b);
    if (l->d)
        (void)lt.layout_destroy(l->d);
    if (l->desc)
        (void)lt.desc_destroy(l->desc);
    if (l->workspace)
        (void)cudaFree(l->workspace);
    free(l);
}

as_status as_cublaslt_run(as_cublaslt *l, const void *a, const void *b, void *d, cudaStream_t stream, as_error *e) {
    return issue(l, &l->algo, a, b, d, stream, e);
}
