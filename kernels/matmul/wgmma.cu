/* matmul/wgmma: which configuration runs, and its launch. The kernel and what it gains are in wgmma.cuh, the
 * configurations in wgmma.h.
 *
 * The choice is made before timing: for each configuration the time of the fullest cluster, in products at the full
 * rate,
 *
 *   ceil(clusters of tiles / clusters that run at one time) tile_m tile_n (slabs + 2) / rate
 *
 * Two slabs stand for the start and the end of a tile. */
#include "matmul.h"
#include "wgmma.h"

#include "../cuda/check.h"
#include "../cuda/internal.h"
#include "../tensor/tensor_map.h"
#include "wgmma.cuh"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

typedef void (*kernel_fn)(const CUtensorMap, const CUtensorMap, const CUtensorMap, const as_wgmma_args);

/* Without linkage: other files have a table of this name, which the linker would take for the same. */
namespace {

struct choice {
    const char *name;
    int tile_m, tile_n, cluster_m, cluster_n, store, height, rate, threads, shared_bytes;
    kernel_fn kernel;
};

template <class C> static constexpr choice row(const char *name, int store, int height, int rate) {
    return {name,
            C::tile_m,
            C::tile_n,
            C::cluster_m,
            C::cluster_n,
            store,
            height,
            rate,
            C::threads,
            C::shared_bytes,
            as_matmul_wgmma_kernel<C>};
}

enum {
    CONFIGS = 0
#define COUNT(...) +1
    AS_MATMUL_WGMMA(COUNT)
#undef COUNT
};

/* The table of one type. Wide types have nothing to defer. */
template <int ELEMENT> struct table {
    static constexpr bool narrow = as_wgmma_element<ELEMENT>::out_bytes == 2;
#define ROW(name, tile_m, tile_n, stages, cluster_m, cluster_n, store, height, rate)                                   \
    row<as_wgmma_config<ELEMENT, tile_m, tile_n, stages, cluster_m, cluster_n, store == AS_WGMMA_DEFERRED && narrow>>( \
        name, store, height, rate),
    static constexpr choice rows[CONFIGS] = {AS_MATMUL_WGMMA(ROW)};
#undef ROW
};

/* What a launch needs, made once for each set of operands: the maps hold their addresses. */
struct plan {
    CUtensorMap a, b, c;
    as_wgmma_args args;
    const choice *chosen;
    unsigned blocks;
};

struct element_of {
    const choice *rows;
    CUtensorMapDataType in, out;
    int bytes, out_bytes;
};

} // namespace

static element_of describe(as_matmul_element element) {
    switch (element) {
    case AS_MM_BF16:
        return {table<AS_MM_BF16>::rows, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, 2};
    case AS_MM_F16:
        return {table<AS_MM_F16>::rows, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, 2};
    case AS_MM_E4M3:
        return {table<AS_MM_E4M3>::rows, CU_TENSOR_MAP_DATA_TYPE_UINT8, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 1, 2};
    case AS_MM_S8: return {table<AS_MM_S8>::rows, CU_TENSOR_MAP_DATA_TYPE_UINT8, CU_TENSOR_MAP_DATA_TYPE_INT32, 1, 4};
    case AS_MM_TF32:
        return {table<AS_MM_TF32>::rows, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, 4};
    default: return {NULL, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, 4};
    }
}

as_status as_matmul_wgmma_available_cuda(as_device *device, as_error *e) { return as_wgmma_available(device, e); }

static int64_t divide_up(int64_t x, int64_t y) { return (x + y - 1) / y; }

static cudaLaunchConfig_t launch_of(const choice &c, unsigned blocks, cudaStream_t stream, cudaLaunchAttribute *room) {
    cudaLaunchConfig_t l = {};
    *room = cudaLaunchAttribute{}; /* its padding is looked at too */
    room->id = cudaLaunchAttributeClusterDimension;
    room->val.clusterDim.x = (unsigned)(c.cluster_m * c.cluster_n);
    room->val.clusterDim.y = room->val.clusterDim.z = 1;
    l.gridDim = dim3(blocks);
    l.blockDim = dim3((unsigned)c.threads);
    l.dynamicSmemBytes = (size_t)c.shared_bytes;
    l.stream = stream;
    l.attrs = room;
    l.numAttrs = 1;
    return l;
}

/* Clusters that run at one time; 0 where not one fits. */
static as_status resident(const choice &c, int sms, int *clusters, as_error *e) {
    cudaLaunchAttribute room;
    const unsigned blocks = (unsigned)(sms / (c.cluster_m * c.cluster_n) * c.cluster_m * c.cluster_n);
    const cudaLaunchConfig_t l = launch_of(c, blocks, NULL, &room);
    AS_CUDA(e,
            cudaFuncSetAttribute((const void *)c.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, c.shared_bytes));
    AS_CUDA(e, cudaOccupancyMaxActiveClusters(clusters, c.kernel, &l));
    return AS_OK;
}

static as_status choose(as_matmul_shape s, const element_of &t, int wanted, const cudaDeviceProp &d, plan *out,
                        as_error *e) {
    double best = INFINITY;
    const int64_t slabs = divide_up(s.k * t.bytes, 128);
    for (int i = 0; i < CONFIGS; i++) {
        const choice &c = t.rows[i];
        int clusters = 0;
        if (wanted >= 0 && i != wanted)
            continue;
        AS_TRY(resident(c, d.multiProcessorCount, &clusters, e));
        if (clusters == 0)
            continue;
        const int64_t down = divide_up(s.m, c.tile_m * c.cluster_m), across = divide_up(s.n, c.tile_n * c.cluster_n);
        const double waves = ceil((double)(down * across) / clusters);
        const double cost = waves * c.tile_m * c.tile_n * (double)(slabs + 2) / c.rate;
        if (down * across > INT_MAX / 4 || cost >= best)
            continue;
        best = cost;
        const double square = sqrt((double)clusters * c.tile_n * c.cluster_n / (c.tile_m * c.cluster_m));
        out->chosen = &c;
        out->args = {NULL,
                     (int)s.m,
                     (int)s.n,
                     (int)slabs,
                     (int)down,
                     (int)across,
                     c.height > 0 ? c.height
                     : square < 1 ? 1
                                  : (int)square,
                     c.store != AS_WGMMA_DIRECT && s.n * t.out_bytes % 16 == 0};
        out->blocks = (unsigned)(down * across < clusters ? down * across : clusters) * c.cluster_m * c.cluster_n;
    }
    if (!isfinite(best))
        return as_fail(e, AS_EABSENT, "no configuration of matmul/wgmma fits %.80s", d.name);
    return AS_OK;
}

static as_status encode(const as_call *call, as_matmul_shape s, const element_of &t, plan *p, as_error *e) {
    const choice &c = *p->chosen;
    AS_TRY(as_tensor_map(&p->a, t.in, t.bytes, call->operand[0], s.m, s.k, c.tile_m / c.cluster_n, e));
    AS_TRY(as_tensor_map(&p->b, t.in, t.bytes, call->operand[1], s.n, s.k, c.tile_n / c.cluster_m, e));
    p->args.c = call->operand[2];
    return p->args.by_copy_engine ? as_tensor_map(&p->c, t.out, t.out_bytes, call->operand[2], s.m, s.n, 64, e) : AS_OK;
}

as_status as_matmul_wgmma_prepare_cuda(const as_call *call, void **state, as_error *e) {
    const char *config = as_params_text(call->params, "config");
    const int wanted = as_wgmma_row(config);
    if (wanted < -1)
        return as_fail(e, AS_EUSAGE, "matmul/wgmma has no config %s; use %s", config, AS_WGMMA_NAMES);
    const as_matmul_shape s = as_matmul_shape_of(call->params);
    const element_of t = describe(as_matmul_type_of(call->params)->element);
    if (!t.rows)
        return as_fail(e, AS_EUSAGE, "matmul/wgmma has no type f32; use warptiled");
    plan *p = NULL;
    if (posix_memalign((void **)&p, alignof(CUtensorMap), sizeof *p) != 0)
        return as_fail(e, AS_ENOMEM, "no memory for the plan of matmul/wgmma");
    as_status status = choose(s, t, wanted, as_cuda_of(call->device)->properties, p, e);
    if (status == AS_OK)
        status = encode(call, s, t, p, e);
    if (status == AS_OK)
        *state = p;
    else
        free(p);
    return status;
}

void as_matmul_wgmma_finish_cuda(void *state) { free(state); }

as_status as_matmul_wgmma_cuda(const as_call *call, as_error *e) {
    const plan *p = (const plan *)call->state;
    cudaLaunchAttribute room;
    const cudaLaunchConfig_t l = launch_of(*p->chosen, p->blocks, as_cuda_stream(call->stream), &room);
    AS_CUDA(e, cudaLaunchKernelEx(&l, p->chosen->kernel, p->a, p->b, p->c, p->args));
    return AS_OK;
}
