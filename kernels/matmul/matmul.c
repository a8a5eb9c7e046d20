/* matmul on the host, a ladder:
 *
 * naive     i-j-k as a learner writes it. B is read down its columns, so every load is from another cache line, and
 *           the sum is one chain of dependent additions: about one multiply-add in the latency of an addition.
 * swapped   i-k-j: the inner loop runs along rows of B and C, so that it is vectorised and its additions are
 *           independent. Each multiply-add loads B, loads and stores C: bound by the load and store ports in L1 and by
 *           the cache level that holds B, which is read whole for each row.
 * blocked   the same over blocks of B that stay in L2, each reused for all rows, four rows of C at a time so that one
 *           load of B serves four multiply-adds. Compiled for the widest vectors of the machine.
 * tiled     register tiles and packing: tiled.c.
 * packed    packing once, C updated from registers, blocks by the caches' sizes: packed.c.
 * openblas  the library that others are measured by; same thread count, threads on the team's CPUs.
 *
 * Formulas: matmul.h. None allocates in its run hook: buffers are made by prepare. */
#include "matmul.h"

#include "../isa.h"
#include "../threads.h"

#include <cblas.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

as_status as_matmul_naive_cpu(const as_call *call, as_error *e) {
    (void)e;
    as_matmul_shape s = as_matmul_shape_of(call->params);
    const float *a = call->operand[0], *b = call->operand[1];
    float *c = call->operand[2];
    for (int64_t i = 0; i < s.m; i++)
        for (int64_t j = 0; j < s.n; j++) {
            float sum = 0;
            for (int64_t k = 0; k < s.k; k++)
                sum += a[i * s.k + k] * b[k * s.n + j];
            c[i * s.n + j] = sum;
        }
    return AS_OK;
}

static int64_t at_most(int64_t value, int64_t limit) { return value < limit ? value : limit; }

as_status as_matmul_swapped_cpu(const as_call *call, as_error *e) {
    (void)e;
    const as_matmul_shape s = as_matmul_shape_of(call->params);
    const float *restrict a = call->operand[0], *restrict b = call->operand[1];
    float *restrict c = call->operand[2];
    memset(c, 0, (size_t)(s.m * s.n) * sizeof *c);
    for (int64_t i = 0; i < s.m; i++)
        for (int64_t k = 0; k < s.k; k++)
            for (int64_t j = 0; j < s.n; j++)
                c[i * s.n + j] += a[i * s.k + k] * b[k * s.n + j];
    return AS_OK;
}

/* ---- blocked ---- */

/* 64 x 512 floats of B are 128 KiB: half of a small L2. */
enum { BLOCK_K = 64, BLOCK_N = 512, BLOCK_ROWS = 4 };

/* `rows` rows of C, [0, width) of their columns, += A[rows x depth] B[depth x width]. */
#define DEFINE_BLOCK(name, target)                                                                                     \
    target static void name(int rows, int64_t depth, int64_t width, const float *a, int64_t lda,                       \
                            const float *restrict b, int64_t stride, float *restrict c) {                              \
        if (rows == BLOCK_ROWS) {                                                                                      \
            float *restrict c1 = c + stride, *restrict c2 = c + 2 * stride, *restrict c3 = c + 3 * stride;             \
            for (int64_t k = 0; k < depth; k++) {                                                                      \
                const float a0 = a[k], a1 = a[lda + k], a2 = a[2 * lda + k], a3 = a[3 * lda + k];                      \
                for (int64_t j = 0; j < width; j++) {                                                                  \
                    const float x = b[k * stride + j];                                                                 \
                    c[j] += a0 * x;                                                                                    \
                    c1[j] += a1 * x;                                                                                   \
                    c2[j] += a2 * x;                                                                                   \
                    c3[j] += a3 * x;                                                                                   \
                }                                                                                                      \
            }                                                                                                          \
            return;                                                                                                    \
        }                                                                                                              \
        for (int r = 0; r < rows; r++)                                                                                 \
            for (int64_t k = 0; k < depth; k++)                                                                        \
                for (int64_t j = 0; j < width; j++)                                                                    \
                    c[r * stride + j] += a[r * lda + k] * b[k * stride + j];                                           \
    }

DEFINE_BLOCK(block_base, )
DEFINE_BLOCK(block_avx2, AS_TARGET_AVX2)
DEFINE_BLOCK(block_avx512, AS_TARGET_AVX512)

typedef struct blocked_job {
    as_matmul_shape s;
    const float *a, *b;
    float *c;
} blocked_job;

static void blocked_member(int member, int size, void *context) {
    const blocked_job *job = context;
    const as_matmul_shape s = job->s;
    const as_isa isa = as_isa_best();
    const int64_t groups = (s.m + BLOCK_ROWS - 1) / BLOCK_ROWS;
    const int64_t from = groups * member / size * BLOCK_ROWS;
    const int64_t to = at_most(groups * (member + 1) / size * BLOCK_ROWS, s.m);
    if (from >= to)
        return;
    memset(job->c + from * s.n, 0, (size_t)((to - from) * s.n) * sizeof *job->c);
    for (int64_t n0 = 0; n0 < s.n; n0 += BLOCK_N)
        for (int64_t k0 = 0; k0 < s.k; k0 += BLOCK_K)
            for (int64_t i = from; i < to; i += BLOCK_ROWS) {
                const int rows = (int)at_most(to - i, BLOCK_ROWS);
                const int64_t depth = at_most(s.k - k0, BLOCK_K), width = at_most(s.n - n0, BLOCK_N);
                const float *a = job->a + i * s.k + k0, *b = job->b + k0 * s.n + n0;
                float *c = job->c + i * s.n + n0;
                switch (isa) {
                case AS_ISA_AVX512: block_avx512(rows, depth, width, a, s.k, b, s.n, c); break;
                case AS_ISA_AVX2: block_avx2(rows, depth, width, a, s.k, b, s.n, c); break;
                case AS_ISA_BASE: block_base(rows, depth, width, a, s.k, b, s.n, c); break;
                }
            }
}

as_status as_matmul_blocked_cpu(const as_call *call, as_error *e) {
    (void)e;
    blocked_job job = {as_matmul_shape_of(call->params), call->operand[0], call->operand[1], call->operand[2]};
    as_team_run(call->team, blocked_member, &job);
    return AS_OK;
}

/* ---- OpenBLAS ---- */

static void start_openblas(void *context) {
    enum { SIDE = 256 }; /* large enough that OpenBLAS uses all its threads, and so creates them */
    float *x = context;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, SIDE, SIDE, SIDE, 1, x, SIDE, x, SIDE, 0, x + SIDE * SIDE,
                SIDE);
}

/* Creates OpenBLAS's own threads while the caller may run on all CPUs of the team, so that they may too. */
as_status as_matmul_openblas_prepare_cpu(const as_call *call, void **state, as_error *e) {
    int size = as_team_size(call->team);
    *state = NULL;
    openblas_set_num_threads(size);
    if (openblas_get_num_threads() != size)
        return as_fail(e, AS_EABSENT, "this OpenBLAS uses at most %d threads, not %d", openblas_get_num_threads(),
                       size);
    float *x = calloc(2 * 256 * 256, sizeof *x);
    if (!x)
        return as_fail(e, AS_ENOMEM, "no memory to start the threads of OpenBLAS");
    as_status s = as_threads_spawn(call->team, start_openblas, x, e);
    free(x);
    return s;
}

void as_matmul_openblas_finish_cpu(void *state) { (void)state; }

as_status as_matmul_openblas_cpu(const as_call *call, as_error *e) {
    as_matmul_shape s = as_matmul_shape_of(call->params);
    if (s.m > INT_MAX || s.n > INT_MAX || s.k > INT_MAX)
        return as_fail(e, AS_EUSAGE, "matmul/openblas takes sides up to %d", INT_MAX);
    openblas_set_num_threads(as_team_size(call->team)); /* a store when it already is; other cases may differ */
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)s.m, (int)s.n, (int)s.k, 1.0f, call->operand[0],
                (int)s.k, call->operand[1], (int)s.n, 0.0f, call->operand[2], (int)s.n);
    return AS_OK;
}
