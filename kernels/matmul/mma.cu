/* matmul/mma: which configuration runs, and its launch. The kernel is in mma.cuh, the configurations in mma.h. Chosen
 * before timing by the fullest SM: ceil(tiles / SMs) tile_m tile_n / rate, as warptiled.cu explains. */
#include "matmul.h"
#include "mma.h"

#include "../cuda/check.h"
#include "../cuda/internal.h"
#include "mma.cuh"

#include <math.h>
#include <stdlib.h>

typedef void (*kernel_fn)(const as_mma_args);

/* Without linkage: other files have a table of this name, which the linker would take for the same. */
namespace {

struct choice {
    const char *name;
    int tile_m, tile_n, threads, shared_bytes, rate;
    kernel_fn aligned, gathered;
};

template <class C> static constexpr choice row(const char *name, int rate) {
    return {name,
            C::tile_m,
            C::tile_n,
            C::threads,
            C::shared_bytes,
            rate,
            as_matmul_mma_kernel<C, true>,
            as_matmul_mma_kernel<C, false>};
}

enum {
    CONFIGS = 0
#define COUNT(...) +1
    AS_MATMUL_MMA(COUNT)
#undef COUNT
};

template <int ELEMENT> struct table {
#define ROW(name, tile_m, tile_n, warps_m, warps_n, stages, blocks, rate)                                              \
    row<as_mma_config<ELEMENT, tile_m, tile_n, warps_m, warps_n, stages, blocks>>(name, rate),
    static constexpr choice rows[CONFIGS] = {AS_MATMUL_MMA(ROW)};
#undef ROW
};

} // namespace

static const choice *rows_of(as_matmul_element element) {
    switch (element) {
    case AS_MM_TF32: return table<AS_MM_TF32>::rows;
    case AS_MM_BF16: return table<AS_MM_BF16>::rows;
    case AS_MM_F16: return table<AS_MM_F16>::rows;
    case AS_MM_E4M3: return table<AS_MM_E4M3>::rows;
    case AS_MM_S8: return table<AS_MM_S8>::rows;
    default: return NULL;
    }
}

/* What a launch needs, made once for each shape. */
struct plan {
    kernel_fn kernel;
    unsigned blocks;
    int threads, shared_bytes, height;
};

as_status as_matmul_mma_available_cuda(as_device *device, as_error *e) {
    const cudaDeviceProp &d = as_cuda_of(device)->properties;
    if (d.major < 8)
        return as_fail(e, AS_EABSENT, "matmul/mma is for compute capability 8.0 and later; %.80s has %d.%d", d.name,
                       d.major, d.minor);
    return AS_OK;
}

static as_status choose(as_matmul_shape s, const choice *rows, bool aligned, int wanted, const cudaDeviceProp &d,
                        plan *out, as_error *e) {
    double best = INFINITY;
    for (int i = 0; i < CONFIGS; i++) {
        const choice &c = rows[i];
        if ((wanted >= 0 && i != wanted) || (size_t)c.shared_bytes > d.sharedMemPerBlockOptin)
            continue;
        const double tiles = ceil((double)s.m / c.tile_m) * ceil((double)s.n / c.tile_n);
        const double cost = ceil(tiles / d.multiProcessorCount) * c.tile_m * c.tile_n / c.rate;
        if (cost >= best)
            continue;
        best = cost;
        const double square = sqrt((double)d.multiProcessorCount * c.tile_n / c.tile_m);
        *out = {aligned ? c.aligned : c.gathered, 0, c.threads, c.shared_bytes, (int)square};
        AS_TRY(as_tile_grid(s.m, s.n, c.tile_m, c.tile_n, &out->blocks, e));
    }
    if (!isfinite(best))
        return as_fail(e, AS_EABSENT, "no configuration of matmul/mma fits the shared memory of %.80s", d.name);
    AS_CUDA(e, cudaFuncSetAttribute((const void *)out->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    out->shared_bytes));
    return AS_OK;
}

as_status as_matmul_mma_prepare_cuda(const as_call *call, void **state, as_error *e) {
    const char *config = as_params_text(call->params, "config");
    const int wanted = as_mma_row(config);
    if (wanted < -1)
        return as_fail(e, AS_EUSAGE, "matmul/mma has no config %s; use %s", config, AS_MMA_NAMES);
    const as_matmul_type *t = as_matmul_type_of(call->params);
    const as_matmul_shape s = as_matmul_shape_of(call->params);
    const cudaDeviceProp &d = as_cuda_of(call->device)->properties;
    const choice *rows = rows_of(t->element);
    if (!rows)
        return as_fail(e, AS_EUSAGE, "matmul/mma has no type f32; use warptiled");
    if (t->element == AS_MM_E4M3 && 10 * d.major + d.minor < 89)
        return as_fail(e, AS_EABSENT, "e4m3 needs compute capability 8.9; %.80s has %d.%d", d.name, d.major, d.minor);
    plan *p = (plan *)calloc(1, sizeof *p);
    if (!p)
        return as_fail(e, AS_ENOMEM, "no memory for the plan of matmul/mma");
    const bool aligned = s.k * as_element_bytes(t->element) % 16 == 0;
    const as_status status = choose(s, rows, aligned, wanted, d, p, e);
    if (status == AS_OK)
        *state = p;
    else
        free(p);
    return status;
}

void as_matmul_mma_finish_cuda(void *state) { free(state); }

as_status as_matmul_mma_cuda(const as_call *call, as_error *e) {
    const plan *p = (const plan *)call->state;
    const as_matmul_shape s = as_matmul_shape_of(call->params);
    const as_mma_args args = {call->operand[0], call->operand[1], call->operand[2], s.m, s.n, s.k, p->height};
    p->kernel<<<p->blocks, p->threads, p->shared_bytes, as_cuda_stream(call->stream)>>>(args);
    AS_CUDA_LAUNCHED(e);
    return AS_OK;
}
