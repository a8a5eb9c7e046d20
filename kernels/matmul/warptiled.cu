/* matmul/warptiled, the top rung of the float32 ladder: which configuration runs, and its launch.
 * The kernel and what it gains are in warptiled.cuh, the configurations in warptiled.h.
 *
 * The choice is made before timing, from the shape and the device: for each configuration that the device can hold,
 * the time of the SM with the most tiles, in multiply-adds at the full rate:
 *
 *   ceil(tiles / SMs) tile_m tile_n (k + 32) / (rate f),   k rounded up to whole slabs
 *
 * Blocks that share an SM share its multiply-adds, so only the count of tiles on the fullest SM matters. 32 steps of k
 * stand for the start and the end of a block, when it waits for memory. f is below 1 where the tiles on an SM leave its
 * four schedulers fewer than two warps each to hide a barrier or a shared-memory read behind: estimated at 0.85 for one
 * warp, in proportion below. */
#include "matmul.h"
#include "warptiled.h"

#include "../cuda/check.h"
#include "../cuda/internal.h"
#include "warptiled.cuh"

#include <math.h>
#include <stdlib.h>

typedef void (*kernel_fn)(const as_warptiled_args);

/* Without linkage: other files have a table of this name, which the linker would take for the same. */
namespace {

struct choice {
    const char *name;
    int tile_m, tile_n, tile_k, threads, shared_bytes;
    double rate;
    kernel_fn full, guarded;
};

template <class C> static constexpr choice row(const char *name, int rate) {
    return {name,
            C::tile_m,
            C::tile_n,
            C::tile_k,
            C::threads,
            C::shared_bytes,
            rate / 100.0,
            as_matmul_warptiled_kernel<C, true>,
            as_matmul_warptiled_kernel<C, false>};
}

#define ROW(name, tile_m, tile_n, tile_k, thread_m, thread_n, lanes_m, stages, blocks, unroll, order, rate)            \
    row<as_warptiled_config<tile_m, tile_n, tile_k, thread_m, thread_n, lanes_m, stages, blocks, unroll, order>>(      \
        name, rate),
static const choice choices[] = {AS_MATMUL_WARPTILED(ROW)};
#undef ROW
static const int n_choices = (int)(sizeof choices / sizeof *choices);

/* What a launch needs, made once for each shape. */
struct plan {
    kernel_fn kernel;
    unsigned blocks;
    int threads, shared_bytes, height;
    as_matmul_shape s;
};

} // namespace

static bool fits_tiles(const choice &c, as_matmul_shape s) {
    return s.m % c.tile_m == 0 && s.n % c.tile_n == 0 && s.k % c.tile_k == 0;
}

/* Blocks of `c` that fit an SM at one time; 0 where not one does. */
static as_status resident(const choice &c, kernel_fn kernel, const cudaDeviceProp &d, int *blocks, as_error *e) {
    *blocks = 0;
    if ((size_t)c.shared_bytes > d.sharedMemPerBlockOptin)
        return AS_OK;
    AS_CUDA(e, cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, c.shared_bytes));
    AS_CUDA(e, cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, (const void *)kernel, c.threads,
                                                             (size_t)c.shared_bytes));
    return AS_OK;
}

/* The formula at the head of this file. */
static double predicted_cost(const choice &c, as_matmul_shape s, int sms, int resident_blocks) {
    const double tiles = ceil((double)s.m / c.tile_m) * ceil((double)s.n / c.tile_n), on_one_sm = ceil(tiles / sms);
    const double warps = fmin(on_one_sm, resident_blocks) * c.threads / 32 / 4; /* a scheduler */
    const double hidden = warps >= 2 ? 1 : warps >= 1 ? 0.85 : 0.85 * warps;
    const double depth = ceil((double)s.k / c.tile_k) * c.tile_k;
    return on_one_sm * c.tile_m * c.tile_n * (depth + 32) / (c.rate * hidden);
}

/* Height of a group of tiles: the blocks that run at one time cover about a square of C. */
static int group_height(const choice &c, int sms, int resident_blocks) {
    const double h = sqrt((double)sms * resident_blocks * c.tile_n / c.tile_m);
    return h < 1 ? 1 : (int)h;
}

/* As much of an SM's memory for shared use as the resident blocks need; the rest stays cache. */
static as_status prefer_shared(kernel_fn kernel, int shared_bytes, int blocks, const cudaDeviceProp &d, as_error *e) {
    const double need = (double)blocks * ((double)shared_bytes + (double)d.reservedSharedMemPerBlock);
    const int percent = (int)fmin(100, ceil(100 * need / (double)d.sharedMemPerMultiprocessor));
    AS_CUDA(e, cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributePreferredSharedMemoryCarveout, percent));
    return AS_OK;
}

static as_status choose(as_matmul_shape s, int wanted, const cudaDeviceProp &d, plan *out, as_error *e) {
    double best = INFINITY;
    int best_blocks = 0;
    if (s.k > INT_MAX / 2 || s.n > INT_MAX / 2)
        return as_fail(e, AS_EUSAGE, "matmul/warptiled takes n and k up to 2^30");
    for (int i = 0; i < n_choices; i++) {
        const choice &c = choices[i];
        if (wanted >= 0 && i != wanted)
            continue;
        const kernel_fn kernel = fits_tiles(c, s) ? c.full : c.guarded;
        int blocks = 0;
        AS_TRY(resident(c, kernel, d, &blocks, e));
        if (blocks == 0 && wanted >= 0)
            return as_fail(e, AS_EABSENT, "config %s needs %d bytes of shared memory a block, %s has %zu", c.name,
                           c.shared_bytes, d.name, d.sharedMemPerBlockOptin);
        const double cost = blocks ? predicted_cost(c, s, d.multiProcessorCount, blocks) : INFINITY;
        if (cost >= best)
            continue;
        best = cost;
        best_blocks = blocks;
        *out = {kernel, 0, c.threads, c.shared_bytes, group_height(c, d.multiProcessorCount, blocks), s};
        AS_TRY(as_tile_grid(s.m, s.n, c.tile_m, c.tile_n, &out->blocks, e));
    }
    if (!isfinite(best))
        return as_fail(e, AS_EABSENT, "no configuration of matmul/warptiled fits %s", d.name);
    return prefer_shared(out->kernel, out->shared_bytes, best_blocks, d, e);
}

as_status as_matmul_warptiled_prepare_cuda(const as_call *call, void **state, as_error *e) {
    const char *config = as_params_text(call->params, "config");
    const int wanted = as_warptiled_row(config);
    if (wanted < -1)
        return as_fail(e, AS_EUSAGE, "matmul/warptiled has no config %s; use %s", config, AS_WARPTILED_NAMES);
    plan *p = (plan *)calloc(1, sizeof *p);
    if (!p)
        return as_fail(e, AS_ENOMEM, "no memory for the plan of matmul/warptiled");
    const as_status s = choose(as_matmul_shape_of(call->params), wanted, as_cuda_of(call->device)->properties, p, e);
    if (s != AS_OK) {
        free(p);
        return s;
    }
    *state = p;
    return AS_OK;
}

void as_matmul_warptiled_finish_cuda(void *state) { free(state); }

as_status as_matmul_warptiled_cuda(const as_call *call, as_error *e) {
    const plan *p = (const plan *)call->state;
    const as_warptiled_args args = {(const float *)call->operand[0],
                                    (const float *)call->operand[1],
                                    (float *)call->operand[2],
                                    p->s.m,
                                    p->s.n,
                                    p->s.k,
                                    p->height,
                                    1.0f};
    p->kernel<<<p->blocks, p->threads, p->shared_bytes, as_cuda_stream(call->stream)>>>(args);
    AS_CUDA_LAUNCHED(e);
    return AS_OK;
}
