/* Suite matmul: fp32 matrix products, square and ragged. */
#include "../kernels/matmul/matmul.h"
#include "../kernels/matmul/warptiled.h"
#include "suites.h"

#include <math.h>
#include <string.h>

static const as_axis axes[] = {
    {"n", "0", true, false, "elements", "columns of B and C; must be given"},
    {"m", "0", true, false, "elements", "rows of A and C; 0 = n"},
    {"k", "0", true, false, "elements", "columns of A, rows of B; 0 = n"},
    AS_AXIS_THREADS,
    AS_AXIS_CACHE,
    {"config", "auto", false, false, "", "cuda warptiled only: " AS_WARPTILED_NAMES},
};

static const as_variant variants[] = {
    AS_MATMUL_CPU(AS_ROW_CPU)             //
    AS_MATMUL_CPU_STATE(AS_ROW_CPU_STATE) //
#ifdef ASSAY_CUDA
    AS_MATMUL_CUDA(AS_ROW_CUDA)                 //
    AS_MATMUL_CUDA_STATE(AS_ROW_CUDA_STATE)     //
    AS_MATMUL_CUDA_LIBRARY(AS_ROW_CUDA_LIBRARY) //
#endif
    {.name = NULL},
};

/* The rungs of the CUDA ladder that are worth a wait at 8192. */
#define UPPER_RUNGS "tile1d,tile2d,vectorised,double_buffered,warptiled,cublas"
#define LADDER "naive,coalesced,tiled16,tiled32," UPPER_RUNGS

/* Each configuration of warptiled: the run that its table and the choice by shape are checked with. */
#define CONFIG_POINT(name, ...) {AS_PUBLISH, "cuda", "warptiled", "n=1024,4096,8192;config=" name, 5},

/* The loops on the cpu stay at small sizes: they are there to be compared with, not to be waited for. */
static const as_point points[] = {
    {AS_QUICK, "cpu", "*", "n=256", 0},
    {AS_QUICK, "cpu", "naive,packed,openblas", "n=1,17", 1},
    {AS_QUICK, "cpu", "packed,openblas", "n=33;m=1000;k=17", 1},
    {AS_QUICK, "cpu", "packed,openblas", "n=256;threads=all", 1},
    {AS_QUICK, "cpu", "packed,openblas", "n=1000;threads=1,all", 0},
    {AS_QUICK, "cpu", "tiled,packed,openblas", "n=1024;threads=1,all", 0},
    {AS_QUICK, "cuda", LADDER, "n=4096", 0},
    {AS_QUICK, "cuda", "warptiled,cublas", "n=1024", 0},
    {AS_QUICK, "cuda", "warptiled,cublas", "n=1000", 1},
    {AS_QUICK, "cuda", "warptiled,cublas", "n=33;m=1000;k=17", 1},
    {AS_QUICK, "cuda", "cublas", "n=1024;cache=cold", 2},
    {AS_STANDARD, "cpu", "naive,swapped", "n=512", 2},
    {AS_STANDARD, "cpu", "swapped,blocked,tiled", "n=1,17", 2},
    {AS_STANDARD, "cpu", "naive,swapped,blocked,tiled", "n=33;m=1000;k=17", 2},
    {AS_STANDARD, "cpu", "blocked", "n=512,1024;threads=1,all", 2},
    {AS_STANDARD, "cpu", "tiled", "n=512;threads=1,all", 2},
    {AS_STANDARD, "cpu", "packed,openblas", "n=512,2048,4096;threads=1,all", 2},
    {AS_STANDARD, "cpu", "*", "n=256;cache=cold", 3},
    {AS_STANDARD, "cuda", "strided,naive,coalesced,tiled16,tiled32,tile1d,tile2d,vectorised,double_buffered", "n=1024",
     2},
    {AS_STANDARD, "cuda", "warptiled,cublas", "n=1,256", 2},
    {AS_STANDARD, "cuda", "*", "n=512,2048", 2},
    {AS_STANDARD, "cuda", UPPER_RUNGS, "n=8192", 2},
    {AS_STANDARD, "cuda", "*", "n=17", 3},
    {AS_STANDARD, "cuda", "*", "n=256;cache=cold", 3},
    {AS_PUBLISH, "cpu", "packed,openblas", "n=8192;threads=all", 4},
    {AS_PUBLISH, "cpu", "packed,openblas", "n=7,100,129,1023,1025", 4},
    {AS_PUBLISH, "cuda", "*", "n=7,100,129,1023,1025", 4},
    {AS_PUBLISH, "cuda", "strided", "n=4096", 4},
    {AS_PUBLISH, "cuda", "tiled16,tiled32", "n=8192", 4},
    {AS_PUBLISH, "cuda", "*", "n=2048;cache=cold", 4},
    AS_MATMUL_WARPTILED(CONFIG_POINT) //
    {.variants = NULL},
};

/* Rough rates for the planner only: floating-point operations a nanosecond, on the slow side of what a variant does,
 * and nanoseconds of a call that does nothing. */
typedef struct guess {
    const char *on, *variant;
    double flops_per_ns, call_ns;
} guess;
static const guess guesses[] = {
    {"cpu", "naive", 0.5, 20},          {"cpu", "swapped", 4, 20},           {"cpu", "blocked", 8, 500},
    {"cpu", "tiled", 25, 2000},         {"cpu", "packed", 25, 2000},         {"cpu", "openblas", 25, 2000},
    {"cuda", "strided", 200, 3000},     {"cuda", "naive", 1500, 3000},       {"cuda", "coalesced", 1500, 3000},
    {"cuda", "tiled16", 5000, 3000},    {"cuda", "tiled32", 5000, 3000},     {"cuda", "tile1d", 8000, 3000},
    {"cuda", "tile2d", 12000, 3000},    {"cuda", "vectorised", 15000, 3000}, {"cuda", "double_buffered", 15000, 3000},
    {"cuda", "warptiled", 20000, 5000}, {"cuda", "cublas", 20000, 5000},
};

static double guess_of(const char *on, const char *variant, double flops) {
    for (int i = 0; i < AS_COUNT(guesses); i++)
        if (strcmp(guesses[i].on, on) == 0 && strcmp(guesses[i].variant, variant) == 0)
            return guesses[i].call_ns + flops / guesses[i].flops_per_ns;
    return 0;
}

/* A variant without a guess is taken for the plain one of its device. */
static double predict(const as_variant *v, double flops) {
    const double ns = guess_of(v->on, v->name, flops);
    return ns > 0 ? ns : guess_of(v->on, "naive", flops);
}

static as_operand matrix(const char *name, as_role role, int64_t count, uint32_t key) {
    return (as_operand){.name = name,
                        .role = role,
                        .memory = AS_MEM_DEVICE,
                        .type = AS_F32,
                        .dist = AS_NORMAL,
                        .count = count,
                        .key = key};
}

static as_status describe(const as_params *p, const as_variant *v, const as_device *d, as_work *w, as_error *e) {
    AS_TRY(as_suite_check_common(p, d, e));
    as_matmul_shape s = as_matmul_shape_of(p);
    const int64_t limit = 1 << 20; /* products of two sides stay far below 2^63, offsets in bytes too */
    if (s.n == 0)
        return as_fail(e, AS_EUSAGE, "matmul: n must be given (n:1024)");
    if (s.m > limit || s.n > limit || s.k > limit)
        return as_fail(e, AS_EUSAGE, "matmul: n, m and k go up to %lld", (long long)limit);
    const bool alone = strcmp(v->name, "naive") == 0 || strcmp(v->name, "swapped") == 0;
    if (strcmp(v->on, "cpu") == 0 && alone && as_params_int(p, "threads") != 1)
        return as_fail(e, AS_EUSAGE, "matmul/%s runs on one thread: leave threads at 1", v->name);
    const char *config = as_params_text(p, "config");
    const bool configured = strcmp(v->on, "cuda") == 0 && strcmp(v->name, "warptiled") == 0;
    if (strcmp(config, "auto") != 0 && (!configured || as_warptiled_row(config) < 0))
        return as_fail(e, AS_EUSAGE, "matmul/%s on %s: config %s is unknown; %s", v->name, v->on, config,
                       configured ? AS_WARPTILED_NAMES : "leave it at auto");
    *w = (as_work){0};
    w->operand[w->operands++] = matrix("a", AS_IN, s.m * s.k, 1);
    w->operand[w->operands++] = matrix("b", AS_IN, s.k * s.n, 2);
    w->operand[w->operands++] = matrix("c", AS_OUT, s.m * s.n, 0);
    w->flops = 2.0 * (double)s.m * (double)s.n * (double)s.k;
    w->bytes_read = 4.0 * (double)(s.m * s.k + s.k * s.n);
    w->bytes_written = 4.0 * (double)(s.m * s.n);
    w->convention = "each element of A and B read once, of C written once";
    w->working_set_bytes = (int64_t)(w->bytes_read + w->bytes_written);
    w->bound[w->bounds++] = (as_bound){"flops.f32", w->flops};
    w->bound[w->bounds++] = (as_bound){"memory", w->bytes_read + w->bytes_written};
    w->check = AS_CHECK_REFERENCE;
    /* |error| <= 4 u sqrt(k) sum |a||b|, u = 2^-24: rounding errors of a sum of k terms behave like a random walk
     * (Higham & Mary, SIAM J. Sci. Comput. 41, 2019). A wrong or missing term is of the order sum |a||b| / k, above
     * this bound while k^(3/2) < 2^22, that is k < 26,000. */
    w->tolerance = 4 * 0x1p-24 * sqrt((double)s.k);
    w->rows = s.m;
    w->columns = s.n;
    w->tile = strcmp(v->on, "cpu") == 0 ? as_matmul_tile_rows_cpu() : 256;
    w->predicted_ns = predict(v, w->flops);
    return AS_OK;
}

const as_suite as_matmul_suite = {
    .name = "matmul",
    .summary = "fp32 matrix product C = A B",
    .axes = axes,
    .n_axes = AS_COUNT(axes),
    .variants = variants,
    .points = points,
    .describe = describe,
    .reference = as_matmul_reference,
#ifdef ASSAY_CUDA
    .device_reference_on = "cuda",
    .device_reference = as_matmul_ref64_cuda,
#endif
};
