/* What a CUDA device can do at best; ceiling.h states operands and amounts.
 *
 *   read    level=hbm, l2: a grid that stays resident, eight independent 16-byte loads in flight for each thread:
 *           2 blocks of 512 threads an SM hold 128 KiB in flight there, several times what latency x bandwidth asks.
 *           Loads bypass L1. The words are summed, so that every byte must arrive. bytes * passes read.
 *   copy    level=hbm: one block for each 16 KiB, four 16-byte loads a thread, then four stores. 2 * bytes.
 *   fma     eight independent chains a thread hide the pipe's latency by themselves; blocks of 64 threads spread
 *           evenly, so that the last wave costs under 1%. 2 * threads * chains * steps operations.
 *   link    one cudaMemcpyAsync between pinned host memory and the device. bytes, copied once.
 *   launch  a graph of AS_CEILING_LAUNCHES empty kernels, launched once. */
#include "ceiling.h"

#include "../cuda/chain.h"
#include "../cuda/check.h"
#include "../cuda/internal.h"

enum { READ_THREADS = 512, READ_BLOCKS_PER_SM = 2, READ_IN_FLIGHT = 8 };
enum { COPY_THREADS = 256, COPY_IN_FLIGHT = 4 };
enum { FMA_THREADS = 64, FMA_UNROLL = 32 };

/* Sums of all blocks and the blocks that have added theirs. The last one publishes and clears them: no second launch
 * in the timed region. One stream uses them at a time. */
static __device__ unsigned long long as_ceiling_total;
static __device__ unsigned as_ceiling_arrived;

/* Sum over a block; valid in thread 0. `shared` holds one value a warp. */
template <int THREADS> static __device__ unsigned long long block_sum(unsigned long long value) {
    __shared__ unsigned long long shared[THREADS / 32];
    for (int step = 16; step > 0; step /= 2)
        value += __shfl_down_sync(0xFFFFFFFFu, value, step);
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int warp = 1; warp < THREADS / 32; warp++)
            value += shared[warp];
    return value;
}

/* Called by thread 0 of every block. True in the last one, with the total; the globals are then ready for reuse. */
static __device__ bool grid_sum(unsigned long long value, unsigned long long *total) {
    atomicAdd(&as_ceiling_total, value);
    __threadfence();
    if (atomicAdd(&as_ceiling_arrived, 1u) + 1 != gridDim.x)
        return false;
    *total = atomicExch(&as_ceiling_total, 0ull);
    atomicExch(&as_ceiling_arrived, 0u);
    return true;
}

/* Cached in L2 alone; volatile, so that no pass is merged with another. */
static __device__ __forceinline__ uint4 load_l2(const uint4 *p) {
    uint4 v;
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    return v;
}

static __global__ void __launch_bounds__(READ_THREADS, READ_BLOCKS_PER_SM)
    as_ceiling_read_kernel(const uint4 *__restrict__ words, uint64_t count, int64_t passes, uint32_t *out) {
    const uint64_t stride = (uint64_t)gridDim.x * READ_THREADS;
    const uint64_t first = (uint64_t)blockIdx.x * READ_THREADS + threadIdx.x;
    uint32_t sum = 0;
    for (int64_t pass = 0; pass < passes; pass++) {
        for (uint64_t i = first; i < count; i += READ_IN_FLIGHT * stride) {
            uint4 v[READ_IN_FLIGHT];
#pragma unroll
            for (int j = 0; j < READ_IN_FLIGHT; j++)
                v[j] = i + j * stride < count ? load_l2(words + i + j * stride) : make_uint4(0, 0, 0, 0);
#pragma unroll
            for (int j = 0; j < READ_IN_FLIGHT; j++)
                sum += v[j].x + v[j].y + v[j].z + v[j].w;
        }
    }
    const unsigned long long block = block_sum<READ_THREADS>(sum);
    unsigned long long total;
    if (threadIdx.x == 0 && grid_sum(block, &total))
        *out = (uint32_t)total;
}

as_status as_ceiling_read_cuda(const as_call *call, as_error *e) {
    const as_ceiling_size size = as_ceiling_size_cuda(call->params, call->device);
    const unsigned blocks = (unsigned)as_cuda_of(call->device)->properties.multiProcessorCount * READ_BLOCKS_PER_SM;
    as_ceiling_read_kernel<<<blocks, READ_THREADS, 0, as_cuda_stream(call->stream)>>>(
        (const uint4 *)call->operand[0], (uint64_t)size.bytes / sizeof(uint4), size.passes,
        (uint32_t *)call->operand[1]);
    AS_CUDA_LAUNCHED(e);
    return AS_OK;
}

/* Whole blocks issue all their loads before the first store; the last block may be ragged. */
static __global__ void __launch_bounds__(COPY_THREADS)
    as_ceiling_copy_kernel(const uint4 *__restrict__ src, uint4 *__restrict__ dst, uint64_t count) {
    const uint64_t begin = (uint64_t)blockIdx.x * (COPY_THREADS * COPY_IN_FLIGHT), first = begin + threadIdx.x;
    if (begin + COPY_THREADS * COPY_IN_FLIGHT <= count) {
        uint4 v[COPY_IN_FLIGHT];
#pragma unroll
        for (int j = 0; j < COPY_IN_FLIGHT; j++)
            v[j] = src[first + j * COPY_THREADS];
#pragma unroll
        for (int j = 0; j < COPY_IN_FLIGHT; j++)
            dst[first + j * COPY_THREADS] = v[j];
    } else {
        for (uint64_t i = first; i < count; i += COPY_THREADS)
            dst[i] = src[i];
    }
}

as_status as_ceiling_copy_cuda(const as_call *call, as_error *e) {
    const as_ceiling_size size = as_ceiling_size_cuda(call->params, call->device);
    const uint64_t count = (uint64_t)size.bytes / sizeof(uint4), per_block = COPY_THREADS * COPY_IN_FLIGHT;
    as_ceiling_copy_kernel<<<(unsigned)((count + per_block - 1) / per_block), COPY_THREADS, 0,
                             as_cuda_stream(call->stream)>>>((const uint4 *)call->operand[0], (uint4 *)call->operand[1],
                                                             count);
    AS_CUDA_LAUNCHED(e);
    return AS_OK;
}

/* x = x * one + one, `steps` times. The factors are arguments, so that no step is folded; the chains start from
 * zero * j, equal values that the compiler must take for different ones. x counts its own steps, exactly. */
template <typename T>
static __global__ void __launch_bounds__(FMA_THREADS) as_ceiling_fma_kernel(T zero, T one, int steps, double *out) {
    T x[AS_CEILING_FMA_CHAINS];
#pragma unroll
    for (int j = 0; j < AS_CEILING_FMA_CHAINS; j++)
        x[j] = zero * (T)j;
#pragma unroll 1
    for (int i = 0; i < steps; i += FMA_UNROLL) {
#pragma unroll
        for (int u = 0; u < FMA_UNROLL; u++)
#pragma unroll
            for (int j = 0; j < AS_CEILING_FMA_CHAINS; j++)
                x[j] = fma(x[j], one, one);
    }
    unsigned long long done = 0;
#pragma unroll
    for (int j = 0; j < AS_CEILING_FMA_CHAINS; j++)
        done += (unsigned long long)x[j];
    const unsigned long long block = block_sum<FMA_THREADS>(done);
    unsigned long long total;
    if (threadIdx.x == 0 && grid_sum(block, &total))
        *out = (double)total;
}

as_status as_ceiling_fma_cuda(const as_call *call, as_error *e) {
    static_assert(AS_CEILING_FMA_STEPS % FMA_UNROLL == 0, "every step is done once");
    static_assert(AS_CEILING_FMA_THREADS % FMA_THREADS == 0, "every thread exists");
    const unsigned blocks = AS_CEILING_FMA_THREADS / FMA_THREADS;
    double *out = (double *)call->operand[0];
    if (strcmp(as_params_text(call->params, "type"), "f64") == 0)
        as_ceiling_fma_kernel<double>
            <<<blocks, FMA_THREADS, 0, as_cuda_stream(call->stream)>>>(0.0, 1.0, AS_CEILING_FMA_STEPS, out);
    else
        as_ceiling_fma_kernel<float>
            <<<blocks, FMA_THREADS, 0, as_cuda_stream(call->stream)>>>(0.0f, 1.0f, AS_CEILING_FMA_STEPS, out);
    AS_CUDA_LAUNCHED(e);
    return AS_OK;
}

as_status as_ceiling_link_cuda(const as_call *call, as_error *e) {
    const bool down = strcmp(as_params_text(call->params, "dir"), "d2h") == 0;
    AS_CUDA(e, cudaMemcpyAsync(call->operand[1], call->operand[0], AS_CEILING_LINK_BYTES,
                               down ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice, as_cuda_stream(call->stream)));
    return AS_OK;
}

as_status as_ceiling_launch_prepare_cuda(const as_call *call, void **state, as_error *e) {
    as_cuda_link link;
    link.spin_ns = 0;
    link.counter = call->counter;
    cudaGraphExec_t exec = NULL;
    AS_TRY(as_cuda_chain_prepare(&link, AS_CEILING_LAUNCHES, as_cuda_stream(call->stream), &exec, e));
    *state = exec;
    return AS_OK;
}

as_status as_ceiling_launch_cuda(const as_call *call, as_error *e) {
    AS_CUDA(e, cudaGraphLaunch((cudaGraphExec_t)call->state, as_cuda_stream(call->stream)));
    return AS_OK;
}

void as_ceiling_launch_finish_cuda(void *state) {
    if (state)
        (void)cudaGraphExecDestroy((cudaGraphExec_t)state);
}
