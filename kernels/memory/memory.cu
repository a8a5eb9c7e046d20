/* Memory on a GPU; memory.h states operations and operands. What each should show:
 *
 *   read, write, triad   16-byte accesses by a grid that fills the device; bandwidth by working set: L2, then HBM
 *   chase                latency by working set: L1, L2, HBM, and with a stride above 2 MiB the reach of the TLB. One
 *                        thread on a multiprocessor walks alone. ld.ca, so that L1 takes part. The next load is issued
 *                        before the hash of the address at hand is computed
 *   strided              a warp's load of 32 neighbours is 4 sectors of 32 bytes; at stride 8 and more it is 32 sectors
 *                        for the same useful bytes: predicted an eighth of the rate
 *   atomic               one target: one addition a clock or less of one L2 slice, with warp-level merging by hardware
 *                        where there is; many targets: the rate of all slices
 *   shared, constant, registers, spilled, l2_distance: one block on one multiprocessor, in access.cu */
#include "memory.h"

#include "../cuda/check.h"
#include "../cuda/internal.h"

#include <stdlib.h>

enum { THREADS = 256 };

/* Blocks for `words` 16-byte words, as many as fill the device at most. */
static unsigned blocks_for(const as_call *call, uint64_t words) {
    const uint64_t most = (uint64_t)as_cuda_of(call->device)->properties.multiProcessorCount * (2048 / THREADS);
    const uint64_t needed = (words + THREADS - 1) / THREADS;
    return (unsigned)(needed < most ? needed : most);
}

/* ---- bandwidth ---- */

/* Adds a block's sum to *out, which the launcher has cleared: one addition a block, since those to one address queue. */
static __device__ void add_sum(uint32_t sum, uint32_t *out) {
    __shared__ uint32_t total;
    if (threadIdx.x == 0)
        total = 0;
    __syncthreads();
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_down_sync(0xFFFFFFFFu, sum, step);
    if (threadIdx.x % 32 == 0)
        atomicAdd(&total, sum);
    __syncthreads();
    if (threadIdx.x == 0)
        atomicAdd(out, total);
}

/* Around L1, as a sum of a set that one multiprocessor's share of fits there would not show L2. */
static __device__ __forceinline__ uint4 load_cg(const uint4 *p) {
    uint4 v;
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    return v;
}

static __global__ void __launch_bounds__(THREADS)
    as_memory_read_kernel(const uint4 *__restrict__ words, uint64_t count, uint32_t *out) {
    enum { IN_FLIGHT = 4 };
    const uint64_t step = (uint64_t)gridDim.x * THREADS;
    uint32_t sum = 0;
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += IN_FLIGHT * step) {
        uint4 v[IN_FLIGHT];
#pragma unroll
        for (int j = 0; j < IN_FLIGHT; j++)
            v[j] = i + j * step < count ? load_cg(words + i + j * step) : make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int j = 0; j < IN_FLIGHT; j++)
            sum += v[j].x + v[j].y + v[j].z + v[j].w;
    }
    add_sum(sum, out);
}

static __global__ void __launch_bounds__(THREADS)
    as_memory_write_kernel(uint4 *__restrict__ words, uint64_t count, const uint32_t *value) {
    const uint32_t v = *value;
    const uint64_t step = (uint64_t)gridDim.x * THREADS;
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += step)
        words[i] = make_uint4(v, v, v, v);
}

static __global__ void __launch_bounds__(THREADS)
    as_memory_triad_kernel(float4 *__restrict__ a, const float4 *__restrict__ b, const float4 *__restrict__ c,
                           uint64_t count) {
    const uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count)
        return;
    const float4 x = b[i], y = c[i];
    a[i] = make_float4(x.x + 3 * y.x, x.y + 3 * y.y, x.z + 3 * y.z, x.w + 3 * y.w);
}

as_status as_memory_read_cuda(const as_call *call, as_error *e) {
    uint32_t *out = (uint32_t *)call->operand[1];
    AS_CUDA(e, cudaMemsetAsync(out, 0, sizeof *out, as_cuda_stream(call->stream)));
    as_memory_read_kernel<<<blocks_for(call, (uint64_t)as_params_int(call->params, "bytes") / 16 / 4), THREADS, 0,
                            as_cuda_stream(call->stream)>>>(
        (const uint4 *)call->operand[0], (uint64_t)as_params_int(call->params, "bytes") / sizeof(uint4), out);
    AS_CUDA_LAUNCHED(e);
    return AS_OK;
}

as_status as_memory_write_cuda(const as_call *call, as_error *e) {
    as_memory_write_kernel<<<blocks_for(call, (uint64_t)as_params_int(call->params, "bytes") / 16), THREADS, 0,
                             as_cuda_stream(call->stream)>>>(
        (uint4 *)call->operand[1], (uint64_t)as_params_int(call->params, "bytes") / sizeof(uint4),
        (const uint32_t *)call->operand[0]);
    AS_CUDA_LAUNCHED(e);
    return AS_OK;
}

as_status as_memory_triad_cuda(const as_call *call, as_error *e) {
    const uint64_t count = (uint64_t)as_params_int(call->params, "bytes") / 12 / 4;
    as_memory_triad_kernel<<<(unsigned)((count + THREADS - 1) / THREADS), THREADS, 0, as_cuda_stream(call->stream)>>>(
        (float4 *)call->operand[2], (const float4 *)call->operand[0], (const float4 *)call->operand[1], count);
    AS_CUDA_LAUNCHED(e);
    return AS_OK;
}

/* ---- patterns and contention ---- */

static __global__ void __launch_bounds__(THREADS)
    as_memory_strided_kernel(const uint32_t *__restrict__ words, uint64_t count, int64_t stride, uint32_t *out) {
    enum { IN_FLIGHT = 8 };
    const uint64_t step = (uint64_t)gridDim.x * THREADS;
    uint32_t sum = 0;
    for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += IN_FLIGHT * step) {
        uint32_t v[IN_FLIGHT];
#pragma unroll
        for (int j = 0; j < IN_FLIGHT; j++)
            v[j] = i + j * step < count ? __ldcg(words + (i + j * step) * stride) : 0;
#pragma unroll
        for (int j = 0; j < IN_FLIGHT; j++)
            sum += v[j];
    }
    add_sum(sum, out);
}

as_status as_memory_strided_cuda(const as_call *call, as_error *e) {
    uint32_t *out = (uint32_t *)call->operand[1];
    AS_CUDA(e, cudaMemsetAsync(out, 0, sizeof *out, as_cuda_stream(call->stream)));
    as_memory_strided_kernel<<<blocks_for(call, (uint64_t)as_params_int(call->params, "bytes") / 4 / 8), THREADS, 0,
                               as_cuda_stream(call->stream)>>>(
        (const uint32_t *)call->operand[0] + as_params_int(call->params, "offset"),
        (uint64_t)as_params_int(call->params, "bytes") / 4, as_params_int(call->params, "stride"), out);
    AS_CUDA_LAUNCHED(e);
    return AS_OK;
}

static __global__ void __launch_bounds__(THREADS) as_memory_atomic_kernel(uint32_t *counters, uint32_t targets) {
    const uint32_t step = gridDim.x * THREADS;
    for (uint32_t i = blockIdx.x * THREADS + threadIdx.x; i < AS_MEMORY_ATOMIC_OPS; i += step)
        atomicAdd(counters + i % targets, 1u);
}

as_status as_memory_atomic_cuda(const as_call *call, as_error *e) {
    const int64_t targets = as_params_int(call->params, "targets");
    uint32_t *counters = (uint32_t *)call->operand[1];
    AS_CUDA(e, cudaMemsetAsync(counters, 0, (size_t)targets * sizeof *counters, as_cuda_stream(call->stream)));
    as_memory_atomic_kernel<<<blocks_for(call, AS_MEMORY_ATOMIC_OPS), THREADS, 0, as_cuda_stream(call->stream)>>>(
        counters, (uint32_t)targets);
    AS_CUDA_LAUNCHED(e);
    return AS_OK;
}

/* ---- chase ---- */

typedef struct chase_state {
    as_memory_walk walk;
    unsigned char *lines;
    uint32_t *start;
} chase_state;

void as_memory_chase_finish_cuda(void *state) {
    chase_state *t = (chase_state *)state;
    if (t) {
        (void)cudaFree(t->lines);
        (void)cudaFree(t->start);
    }
    free(t);
}

static __global__ void as_memory_link_kernel(unsigned char *lines, const uint32_t *next, int64_t count,
                                             uint64_t stride) {
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (int64_t)gridDim.x * blockDim.x)
        *(unsigned char **)(lines + (uint64_t)i * stride) = lines + next[i] * stride;
}

static as_status build(const as_call *call, chase_state *t, uint32_t *keys, uint32_t *next, as_error *e) {
    const uint64_t stride = (uint64_t)as_params_int(call->params, "stride");
    const size_t index_bytes = (size_t)t->walk.lines * sizeof *next;
    uint32_t start[64], *device_next = NULL;
    as_status status = AS_OK;
    AS_CUDA(e, cudaMemcpy(keys, call->operand[0], index_bytes, cudaMemcpyDeviceToHost));
    as_memory_cycle(keys, t->walk.lines, next);
    as_memory_starts(next, t->walk, start);
    AS_CUDA(e, cudaMalloc((void **)&t->lines, (size_t)t->walk.lines * stride));
    AS_CUDA(e, cudaMalloc((void **)&t->start, sizeof start));
    AS_CUDA(e, cudaMemcpy(t->start, start, sizeof start, cudaMemcpyHostToDevice));
    AS_CUDA(e, cudaMalloc((void **)&device_next, index_bytes));
    AS_CUDA_GOTO(e, status, cudaMemcpy(device_next, next, index_bytes, cudaMemcpyHostToDevice));
    as_memory_link_kernel<<<1024, THREADS>>>(t->lines, device_next, t->walk.lines, stride);
    AS_CUDA_GOTO(e, status, cudaGetLastError());
    AS_CUDA_GOTO(e, status, cudaDeviceSynchronize());
out:
    (void)cudaFree(device_next);
    return status;
}

as_status as_memory_chase_prepare_cuda(const as_call *call, void **state, as_error *e) {
    chase_state *t = (chase_state *)calloc(1, sizeof *t);
    if (!t)
        return as_fail(e, AS_ENOMEM, "no host memory for memory/chase");
    t->walk = as_memory_walk_of(call->params, false);
    uint32_t *keys = (uint32_t *)malloc((size_t)t->walk.lines * sizeof *keys);
    uint32_t *next = (uint32_t *)malloc((size_t)t->walk.lines * sizeof *next);
    const as_status status =
        keys && next ? build(call, t, keys, next, e) : as_fail(e, AS_ENOMEM, "no host memory for memory/chase");
    free(keys);
    free(next);
    if (status != AS_OK)
        as_memory_chase_finish_cuda(t);
    else
        *state = t;
    return status;
}

static __device__ __forceinline__ const unsigned char *load_next(const unsigned char *p) {
    const unsigned char *next;
    asm volatile("ld.global.ca.u64 %0, [%1];" : "=l"(next) : "l"(p));
    return next;
}

/* One walker a block. The first one's cycles go to *cycles, which the host reads after the operation. */
static __global__ void as_memory_chase_kernel(const unsigned char *lines, const uint32_t *start, int64_t steps,
                                              uint64_t stride, uint32_t *out, double *cycles) {
    const unsigned char *p = lines + start[blockIdx.x] * stride;
    uint32_t hash = 0;
    const long long begin = clock64();
    for (int64_t i = 0; i < steps; i++) {
        const unsigned char *next = load_next(p);
        hash = 3 * hash + (uint32_t)(p - lines);
        p = next;
    }
    const uint32_t end = (uint32_t)((uint64_t)(p - lines) / stride); /* waits for the last load */
    if (blockIdx.x == 0)
        *cycles = (double)(clock64() - begin);
    atomicAdd(out, hash);
    atomicAdd(out + 1, end);
}

as_status as_memory_chase_cuda(const as_call *call, as_error *e) {
    const chase_state *t = (const chase_state *)call->state;
    uint32_t *out = (uint32_t *)call->operand[1];
    AS_CUDA(e, cudaMemsetAsync(out, 0, 2 * sizeof *out, as_cuda_stream(call->stream)));
    as_memory_chase_kernel<<<(unsigned)t->walk.walkers, 1, 0, as_cuda_stream(call->stream)>>>(
        t->lines, t->start, t->walk.steps, (uint64_t)as_params_int(call->params, "stride"), out, call->extra);
    AS_CUDA_LAUNCHED(e);
    return AS_OK;
}
