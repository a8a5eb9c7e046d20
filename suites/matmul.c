/* Suite matmul: matrix products by element type, square and ragged. */
#include "../kernels/matmul/matmul.h"
#include "../kernels/matmul/mma.h"
#include "../kernels/matmul/warptiled.h"
#include "../kernels/matmul/wgmma.h"
#include "suites.h"

#include <string.h>

static const as_axis axes[] = {
    {"n", "0", true, false, "elements", "columns of B and C; must be given"},
    {"m", "0", true, false, "elements", "rows of A and C; 0 = n"},
    {"k", "0", true, false, "elements", "columns of A, rows of B; 0 = n"},
    AS_AXIS_THREADS,
    AS_AXIS_CACHE,
    {"config", "auto", false, false, "",
     "cpu: packed in bf16: " AS_PACKED_NAMES "; cuda: warptiled: " AS_WARPTILED_NAMES "; mma: " AS_MMA_NAMES
     "; wgmma: " AS_WGMMA_NAMES},
    {"type", "f32", false, false, "", "elements of A and B, B transposed for all but f32: " AS_MATMUL_TYPE_NAMES},
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

/* The float32 rungs on CUDA; those that are worth a wait at 8192. */
#define UPPER_RUNGS "tile1d,tile2d,vectorised,double_buffered,warptiled,cublas"
#define LADDER "naive,coalesced,tiled16,tiled32," UPPER_RUNGS
#define F32 "strided," LADDER

/* Each configuration: the runs that the tables and the choice by shape are checked with. */
#define CONFIG_POINT(name, ...) {AS_PUBLISH, "cuda", "warptiled", "n=1024,4096,8192;config=" name, 5},
#define MMA_POINT(name, ...) {AS_PUBLISH, "cuda", "mma", "n=4096;type=bf16,s8;config=" name, 6},
#define WGMMA_POINT(name, ...) {AS_PUBLISH, "cuda", "wgmma", "n=4096,8192;type=tf32,bf16,e4m3,s8;config=" name, 6},

/* The loops on the cpu stay at small sizes: they are there to be compared with, not to be waited for. */
static const as_point points[] = {
    {AS_QUICK, "cpu", "*", "n=256", 0},
    {AS_QUICK, "cpu", "naive,packed,openblas", "n=1,17", 1},
    {AS_QUICK, "cpu", "packed,openblas", "n=256;threads=all", 1},
    {AS_QUICK, "cpu", "packed,openblas", "n=1000;threads=1,all", 0},
    {AS_QUICK, "cpu", "tiled,packed,openblas", "n=1024;threads=1,all", 0},
    {AS_QUICK, "cuda", LADDER, "n=4096", 0},
    {AS_QUICK, "cuda", "warptiled,cublas", "n=1024", 0},

    {AS_QUICK, "cuda", "wmma,mma,wgmma,cublaslt", "n=4096;type=bf16", 0},
    {AS_QUICK, "cuda", "wgmma,cublaslt", "n=4096;type=e4m3", 1},
    {AS_STANDARD, "cpu", "packed", "n=512,1024,2048,4096;type=bf16;threads=1,all", 2},
    {AS_STANDARD, "cpu", "packed", "n=1024;type=bf16;config=amx,dot,widen", 2},
    {AS_STANDARD, "cpu", "packed", "n=33;m=1000;k=17;type=bf16", 2},
    {AS_STANDARD, "cpu", "naive,swapped", "n=512", 2},
    {AS_STANDARD, "cpu", "swapped,blocked,tiled", "n=1,17", 2},
    {AS_STANDARD, "cpu", "naive,swapped,blocked,tiled,packed,openblas", "n=33;m=1000;k=17", 2},
    {AS_STANDARD, "cpu", "blocked", "n=512,1024;threads=1,all", 2},
    {AS_STANDARD, "cpu", "tiled", "n=512;threads=1,all", 2},
    {AS_STANDARD, "cpu", "packed,openblas", "n=512,2048,4096;threads=1,all", 2},
    {AS_STANDARD, "cpu", "*", "n=256;cache=cold", 3},
    {AS_STANDARD, "cuda", "strided,naive,coalesced,tiled16,tiled32,tile1d,tile2d,vectorised,double_buffered", "n=1024",
     2},
    {AS_STANDARD, "cuda", "cublas", "n=1024;cache=cold", 2},
    {AS_STANDARD, "cuda", "warptiled,cublas", "n=1,256,1000", 2},
    {AS_STANDARD, "cuda", "warptiled,cublas", "n=33;m=1000;k=17", 2},
    {AS_STANDARD, "cuda", "wgmma,cublaslt", "n=4096;type=tf32,s8", 2},
    {AS_STANDARD, "cuda", "mma", "n=4096;type=e4m3", 2},
    {AS_STANDARD, "cuda", F32, "n=512,2048", 2},
    {AS_STANDARD, "cuda", UPPER_RUNGS, "n=8192", 2},
    {AS_STANDARD, "cuda", F32, "n=17", 3},
    {AS_STANDARD, "cuda", F32, "n=256;cache=cold", 3},
    {AS_STANDARD, "cuda", "wmma", "n=4096;type=tf32,f16,s8", 3},
    {AS_STANDARD, "cuda", "mma", "n=4096;type=tf32,f16,s8", 3},
    {AS_STANDARD, "cuda", "wgmma,cublaslt", "n=4096;type=f16", 3},
    {AS_STANDARD, "cuda", "cublaslt", "n=4096,8192", 3},
    {AS_STANDARD, "cuda", "wgmma,cublaslt", "n=8192;type=bf16,e4m3", 2},
    {AS_STANDARD, "cuda", "wgmma,cublaslt", "n=8192;type=tf32,f16,s8", 3},
    {AS_STANDARD, "cuda", "wmma,mma", "n=8192;type=bf16", 3},
    {AS_STANDARD, "cuda", "wgmma,cublaslt", "n=1024,2048;type=bf16,e4m3", 3},
    {AS_STANDARD, "cuda", "wmma,mma,wgmma,cublaslt", "n=1000;m=777;k=1040;type=bf16", 3},
    {AS_STANDARD, "cuda", "mma,wgmma", "n=4104;m=4000;k=592;type=bf16,e4m3,s8", 3},
    {AS_STANDARD, "cuda", "mma,wgmma", "n=1001;m=777;k=1040;type=tf32,f16,e4m3,s8", 3},
    {AS_STANDARD, "cuda", "wmma,mma", "n=129;m=65;k=77;type=tf32,bf16,f16,s8", 3},
    {AS_PUBLISH, "cpu", "packed,openblas", "n=8192;threads=all", 4},
    {AS_PUBLISH, "cpu", "packed,openblas", "n=7,100,129,1023,1025", 4},
    {AS_PUBLISH, "cuda", F32, "n=7,100,129,1023,1025", 4},
    {AS_PUBLISH, "cuda", "strided", "n=4096", 4},
    {AS_PUBLISH, "cuda", "tiled16,tiled32", "n=8192", 4},
    {AS_PUBLISH, "cuda", F32, "n=2048;cache=cold", 4},
    AS_MATMUL_WARPTILED(CONFIG_POINT) //
    AS_MATMUL_MMA(MMA_POINT)          //
    AS_MATMUL_WGMMA(WGMMA_POINT)      //
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
    {"cuda", "warptiled", 20000, 5000}, {"cuda", "cublas", 20000, 5000},     {"cuda", "wmma", 50000, 5000},
    {"cuda", "mma", 100000, 5000},      {"cuda", "wgmma", 250000, 5000},     {"cuda", "cublaslt", 250000, 5000},
};

static double guess_of(const char *on, const char *variant, double flops) {
    for (int i = 0; i < AS_COUNT(guesses); i++)
        if (strcmp(guesses[i].on, on) == 0 && strcmp(guesses[i].variant, variant) == 0)
            return guesses[i].call_ns + flops / guesses[i].flops_per_ns;
    return 0;
}

/* A variant without a guess is taken for the plain one of its device. */
static double predict(const as_variant *v, const as_matmul_type *t, double flops) {
    const bool f32 = strcmp(v->name, "cublaslt") == 0 && t->element == AS_MM_F32;
    const double ns = guess_of(v->on, f32 ? "cublas" : v->name, flops);
    return ns > 0 ? ns : guess_of(v->on, "naive", flops);
}

static as_operand matrix(const char *name, as_role role, as_dtype type, int64_t count, uint32_t key) {
    return (as_operand){.name = name,
                        .role = role,
                        .memory = AS_MEM_DEVICE,
                        .type = type,
                        .dist = AS_NORMAL,
                        .count = count,
                        .key = key};
}

/* Types that a variant takes; those that do not stand here take f32. */
static const struct {
    const char *on, *variant, *types;
} takes[] = {
    {"cpu", "packed", "f32, bf16"},
    {"cuda", "wmma", "tf32, bf16, f16, s8"},
    {"cuda", "mma", "tf32, bf16, f16, e4m3, s8"},
    {"cuda", "wgmma", "tf32, bf16, f16, e4m3, s8"},
    {"cuda", "cublaslt", AS_MATMUL_TYPE_NAMES},
};

static bool listed(const char *list, const char *name) {
    const size_t n = strlen(name);
    for (const char *at = strstr(list, name); at; at = strstr(at + 1, name))
        if ((at == list || at[-1] == ' ') && (at[n] == ',' || at[n] == '\0'))
            return true;
    return false;
}

static as_status check_type(const as_variant *v, const char *type, as_matmul_shape s, as_error *e) {
    const as_matmul_type *t = as_matmul_type_named(type);
    const char *types = "f32";
    for (int i = 0; i < AS_COUNT(takes); i++)
        if (strcmp(takes[i].on, v->on) == 0 && strcmp(takes[i].variant, v->name) == 0)
            types = takes[i].types;
    if (!t || !listed(types, type))
        return as_fail(e, AS_EUSAGE, "matmul/%s on %s has no type %.20s; it takes %s", v->name, v->on, type, types);
    if (t->element == AS_MM_S8 && s.k > 1 << 17)
        return as_fail(e, AS_EUSAGE, "matmul in s8: k goes up to 131072, where sums still fit 32 bits");
    const int64_t per_16_bytes = 16 / (int64_t)as_dtype_bytes(t->in);
    if (strcmp(v->name, "wgmma") == 0 && s.k % per_16_bytes != 0)
        return as_fail(e, AS_EUSAGE,
                       "matmul/wgmma: the copy engine takes rows of whole 16 bytes; k must be a multiple of %lld in %s "
                       "(mma takes any)",
                       (long long)per_16_bytes, type);
    return AS_OK;
}

static as_status check_config(const as_variant *v, const char *config, const char *type, as_error *e) {
    const bool cuda = strcmp(v->on, "cuda") == 0;
    const char *names = "leave it at auto";
    int row = -2;
    if (strcmp(config, "auto") == 0)
        return AS_OK;
    if (cuda && strcmp(v->name, "warptiled") == 0)
        row = as_warptiled_row(config), names = AS_WARPTILED_NAMES;
    else if (cuda && strcmp(v->name, "mma") == 0)
        row = as_mma_row(config), names = AS_MMA_NAMES;
    else if (cuda && strcmp(v->name, "wgmma") == 0)
        row = as_wgmma_row(config), names = AS_WGMMA_NAMES;
    else if (!cuda && strcmp(v->name, "packed") == 0 && strcmp(type, "bf16") == 0)
        row = listed(AS_PACKED_NAMES, config) ? 0 : -1, names = AS_PACKED_NAMES;
    if (row >= 0)
        return AS_OK;
    return as_fail(e, AS_EUSAGE, "matmul/%s on %s: config %.40s is unknown; %s", v->name, v->on, config, names);
}

static as_status check(const as_params *p, const as_variant *v, as_matmul_shape s, as_error *e) {
    const int64_t limit = 1 << 20; /* products of two sides stay far below 2^63, offsets in bytes too */
    if (s.n == 0)
        return as_fail(e, AS_EUSAGE, "matmul: n must be given (n:1024)");
    if (s.m > limit || s.n > limit || s.k > limit)
        return as_fail(e, AS_EUSAGE, "matmul: n, m and k go up to %lld", (long long)limit);
    const bool alone = strcmp(v->name, "naive") == 0 || strcmp(v->name, "swapped") == 0;
    if (strcmp(v->on, "cpu") == 0 && alone && as_params_int(p, "threads") != 1)
        return as_fail(e, AS_EUSAGE, "matmul/%s runs on one thread: leave threads at 1", v->name);
    const char *type = as_params_text(p, "type");
    AS_TRY(check_config(v, as_params_text(p, "config"), type, e));
    return check_type(v, type, s, e);
}

static as_status describe(const as_params *p, const as_variant *v, const as_device *d, as_work *w, as_error *e) {
    AS_TRY(as_suite_check_common(p, d, e));
    const as_matmul_shape s = as_matmul_shape_of(p);
    AS_TRY(check(p, v, s, e));
    const as_matmul_type *t = as_matmul_type_of(p);
    *w = (as_work){0};
    w->operand[w->operands++] = matrix("a", AS_IN, t->in, s.m * s.k, 1);
    w->operand[w->operands++] = matrix("b", AS_IN, t->in, s.k * s.n, 2);
    w->operand[w->operands++] = matrix("c", AS_OUT, t->out, s.m * s.n, 0);
    w->flops = 2.0 * (double)s.m * (double)s.n * (double)s.k;
    w->bytes_read = (double)as_dtype_bytes(t->in) * (double)(s.m * s.k + s.k * s.n);
    w->bytes_written = (double)as_dtype_bytes(t->out) * (double)(s.m * s.n);
    w->convention = "each element of A and B read once, of C written once";
    w->working_set_bytes = (int64_t)(w->bytes_read + w->bytes_written);
    w->bound[w->bounds++] = (as_bound){t->ceiling, w->flops};
    w->bound[w->bounds++] = (as_bound){"memory", w->bytes_read + w->bytes_written};
    w->check = AS_CHECK_REFERENCE;
    w->tolerance = as_matmul_tolerance(t, s.k);
    w->rows = s.m;
    w->columns = s.n;
    w->tile = strcmp(v->on, "cpu") != 0 ? 256 : t->element == AS_MM_BF16 ? 32 : as_matmul_tile_rows_cpu();
    w->predicted_ns = predict(v, t, w->flops);
    return AS_OK;
}

const as_suite as_matmul_suite = {
    .name = "matmul",
    .summary = "matrix product C = A B, by element type",
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
