/* How one multiprocessor reaches its memories; memory.h states operations and operands. One block, so that the series
 * `cycles` (of the first thread, from a barrier to a barrier) divided by the accesses is the cost of one.
 *
 *   shared      32 banks of 4 bytes: a warp's access takes as many cycles as the busiest bank has different words, and
 *               at least 1 (4 bytes a lane), 2 (8) or 4 (16). Predicted degree at 4 bytes: gcd(stride, 32), as long as
 *               the words differ. Eight warps with eight loads in flight each hide the latency
 *   constant    one address in a warp is one cycle or so; k different ones are served one after another
 *   registers   64 values a thread, 255 registers allowed: nothing leaves the register file
 *   spilled     the same code with 32 registers: the values live in local memory and each step moves them through L1
 *   l2_distance each line of a set in L2, loaded around L1 by one thread, timed one by one; the clock's own cost is in
 *               it. L2 is in two halves on large GPUs: a line in the far half costs more */
#include "memory.h"

#include "../cuda/check.h"
#include "../cuda/internal.h"

#include <stdlib.h>

enum { ACCESS_THREADS = 32 * AS_MEMORY_SHARED_WARPS };

static __device__ void add_to(uint32_t sum, uint32_t *out) {
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_down_sync(0xFFFFFFFFu, sum, step);
    if (threadIdx.x % 32 == 0)
        atomicAdd(out, sum);
}

static as_status clear_out(const as_call *call, as_error *e) {
    AS_CUDA(e, cudaMemsetAsync(call->operand[1], 0, sizeof(uint32_t), as_cuda_stream(call->stream)));
    return AS_OK;
}

/* ---- shared ---- */

/* Volatile for both compilers, that of PTX too, which else takes loads of equal addresses out of the loop. */
template <int WORDS> static __device__ __forceinline__ uint32_t load_shared(unsigned address);
template <> __device__ __forceinline__ uint32_t load_shared<1>(unsigned address) {
    uint32_t x;
    asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(x) : "r"(address));
    return x;
}
template <> __device__ __forceinline__ uint32_t load_shared<2>(unsigned address) {
    uint32_t x, y;
    asm volatile("ld.volatile.shared.v2.u32 {%0, %1}, [%2];" : "=r"(x), "=r"(y) : "r"(address));
    return x + y;
}
template <> __device__ __forceinline__ uint32_t load_shared<4>(unsigned address) {
    uint32_t x, y, z, w;
    asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x), "=r"(y), "=r"(z), "=r"(w)
                 : "r"(address));
    return x + y + z + w;
}

template <int WORDS>
static __global__ void __launch_bounds__(ACCESS_THREADS)
    as_memory_shared_kernel(const uint32_t *words, int64_t stride, uint32_t *out, double *cycles) {
    __shared__ __align__(16) uint32_t shared[AS_MEMORY_SHARED_WORDS];
    for (int i = threadIdx.x; i < AS_MEMORY_SHARED_WORDS; i += ACCESS_THREADS)
        shared[i] = words[i];
    unsigned address[8];
    for (int j = 0; j < 8; j++)
        address[j] =
            (unsigned)__cvta_generic_to_shared(shared + as_memory_shared_word(threadIdx.x % 32, j, stride, WORDS));
    uint32_t sum = 0;
    __syncthreads();
    const long long begin = clock64();
    for (int step = 0; step < AS_MEMORY_SHARED_STEPS; step += 8)
#pragma unroll
        for (int j = 0; j < 8; j++)
            sum += load_shared<WORDS>(address[j]);
    __syncthreads();
    if (threadIdx.x == 0)
        *cycles = (double)(clock64() - begin);
    add_to(sum, out);
}

as_status as_memory_shared_cuda(const as_call *call, as_error *e) {
    const int64_t stride = as_params_int(call->params, "stride"), width = as_params_int(call->params, "width");
    const uint32_t *words = (const uint32_t *)call->operand[0];
    uint32_t *out = (uint32_t *)call->operand[1];
    cudaStream_t stream = as_cuda_stream(call->stream);
    AS_TRY(clear_out(call, e));
    if (width == 4)
        as_memory_shared_kernel<1><<<1, ACCESS_THREADS, 0, stream>>>(words, stride, out, call->extra);
    else if (width == 8)
        as_memory_shared_kernel<2><<<1, ACCESS_THREADS, 0, stream>>>(words, stride, out, call->extra);
    else
        as_memory_shared_kernel<4><<<1, ACCESS_THREADS, 0, stream>>>(words, stride, out, call->extra);
    AS_CUDA_LAUNCHED(e);
    return AS_OK;
}

/* ---- constant ---- */

static __constant__ uint32_t as_memory_table[AS_MEMORY_CONSTANT_WORDS];

static __device__ __forceinline__ uint32_t load_constant(const uint32_t *p) {
    uint32_t x;
    asm volatile("ld.const.u32 %0, [%1];" : "=r"(x) : "l"(__cvta_generic_to_constant(p)));
    return x;
}

/* `zero` is 0, which the compiler does not know: constant loads have no volatile form, and from equal addresses they
 * would be taken out of the loop. */

static __global__ void __launch_bounds__(ACCESS_THREADS)
    as_memory_constant_kernel(int64_t distinct, int zero, uint32_t *out, double *cycles) {
    const uint32_t *from = as_memory_table + as_memory_constant_word(threadIdx.x % 32, 0, distinct);
    uint32_t sum = 0;
    __syncthreads();
    const long long begin = clock64();
#pragma unroll 1
    for (int step = 0; step < AS_MEMORY_SHARED_STEPS; step += 32, from += zero)
#pragma unroll
        for (int j = 0; j < 32; j++)
            sum += load_constant(from + j);
    __syncthreads();
    if (threadIdx.x == 0)
        *cycles = (double)(clock64() - begin);
    add_to(sum, out);
}

/* All copies of all constant cases have the same seeded words: one table serves them. */
as_status as_memory_constant_prepare_cuda(const as_call *call, void **state, as_error *e) {
    *state = NULL;
    AS_CUDA(e,
            cudaMemcpyToSymbol(as_memory_table, call->operand[0], sizeof as_memory_table, 0, cudaMemcpyDeviceToDevice));
    AS_CUDA(e, cudaDeviceSynchronize());
    return AS_OK;
}
void as_memory_constant_finish_cuda(void *) {}

as_status as_memory_constant_cuda(const as_call *call, as_error *e) {
    AS_TRY(clear_out(call, e));
    as_memory_constant_kernel<<<1, ACCESS_THREADS, 0, as_cuda_stream(call->stream)>>>(
        as_params_int(call->params, "distinct"), 0, (uint32_t *)call->operand[1], call->extra);
    AS_CUDA_LAUNCHED(e);
    return AS_OK;
}

/* ---- registers and spilled ---- */

static __device__ __forceinline__ void arithmetic(const uint32_t *words, uint32_t *out, double *cycles) {
    enum { N = AS_MEMORY_SPILL_VALUES };
    uint32_t v[N], sum = 0;
#pragma unroll
    for (int j = 0; j < N; j++)
        v[j] = words[j] + threadIdx.x;
    __syncthreads();
    const long long begin = clock64();
#pragma unroll 1
    for (int step = 0; step < AS_MEMORY_SPILL_STEPS; step++)
#pragma unroll
        for (int j = 0; j < N; j++)
            v[j] = v[j] * 5 + v[(j + 1) % N];
    __syncthreads();
    if (threadIdx.x == 0)
        *cycles = (double)(clock64() - begin);
#pragma unroll
    for (int j = 0; j < N; j++)
        sum += v[j];
    add_to(sum, out);
}

static __global__ void __launch_bounds__(AS_MEMORY_SPILL_THREADS)
    as_memory_registers_kernel(const uint32_t *words, uint32_t *out, double *cycles) {
    arithmetic(words, out, cycles);
}

/* 32 registers a thread, where the toolkit can say so (12.4); older ones get 64, by blocks of 1024: still too few. */
#if CUDART_VERSION >= 12040
#define FEW_REGISTERS __maxnreg__(32)
#else
#define FEW_REGISTERS __launch_bounds__(1024)
#endif
static __global__ void FEW_REGISTERS as_memory_spilled_kernel(const uint32_t *words, uint32_t *out, double *cycles) {
    arithmetic(words, out, cycles);
}

as_status as_memory_registers_cuda(const as_call *call, as_error *e) {
    AS_TRY(clear_out(call, e));
    as_memory_registers_kernel<<<1, AS_MEMORY_SPILL_THREADS, 0, as_cuda_stream(call->stream)>>>(
        (const uint32_t *)call->operand[0], (uint32_t *)call->operand[1], call->extra);
    AS_CUDA_LAUNCHED(e);
    return AS_OK;
}

as_status as_memory_spilled_cuda(const as_call *call, as_error *e) {
    AS_TRY(clear_out(call, e));
    as_memory_spilled_kernel<<<1, AS_MEMORY_SPILL_THREADS, 0, as_cuda_stream(call->stream)>>>(
        (const uint32_t *)call->operand[0], (uint32_t *)call->operand[1], call->extra);
    AS_CUDA_LAUNCHED(e);
    return AS_OK;
}

/* ---- l2_distance ---- */

typedef struct distance_state {
    int64_t lines;
    uint32_t *device, *host; /* cycles of each line */
} distance_state;

void as_memory_l2_distance_finish_cuda(void *state) {
    distance_state *t = (distance_state *)state;
    if (t) {
        (void)cudaFree(t->device);
        free(t->host);
    }
    free(t);
}

as_status as_memory_l2_distance_prepare_cuda(const as_call *call, void **state, as_error *e) {
    distance_state *t = (distance_state *)calloc(1, sizeof *t);
    if (!t)
        return as_fail(e, AS_ENOMEM, "no host memory for memory/l2_distance");
    t->lines = as_params_int(call->params, "bytes") / AS_MEMORY_LINE_BYTES;
    t->host = (uint32_t *)malloc((size_t)t->lines * sizeof *t->host);
    if (t->host && cudaMalloc((void **)&t->device, (size_t)t->lines * sizeof *t->device) == cudaSuccess) {
        *state = t;
        return AS_OK;
    }
    (void)cudaGetLastError();
    as_memory_l2_distance_finish_cuda(t);
    return as_fail(e, AS_ENOMEM, "no memory for the latencies of memory/l2_distance");
}

/* Twice over the set: the first pass brings it into L2. */
static __global__ void as_memory_l2_distance_kernel(const uint32_t *words, int64_t lines, uint32_t *latency,
                                                    uint32_t *out) {
    uint32_t sum = 0;
    for (int pass = 0; pass < 2; pass++) {
        sum = 0;
        for (int64_t i = 0; i < lines; i++) {
            uint32_t x;
            long long begin, end;
            asm volatile("mov.u64 %0, %%clock64;" : "=l"(begin)::"memory");
            asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(x) : "l"(words + i * (AS_MEMORY_LINE_BYTES / 4)));
            sum += x;
            asm volatile("mov.u64 %0, %%clock64;" : "=l"(end) : "r"(sum) : "memory"); /* not before x has come */
            latency[i] = (uint32_t)(end - begin);
        }
    }
    *out = sum;
}

static int by_cycles(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

as_status as_memory_l2_distance_cuda(const as_call *call, as_error *e) {
    const distance_state *t = (const distance_state *)call->state;
    cudaStream_t stream = as_cuda_stream(call->stream);
    as_memory_l2_distance_kernel<<<1, 1, 0, stream>>>((const uint32_t *)call->operand[0], t->lines, t->device,
                                                      (uint32_t *)call->operand[1]);
    AS_CUDA_LAUNCHED(e);
    AS_CUDA(e, cudaMemcpyAsync(t->host, t->device, (size_t)t->lines * sizeof *t->host, cudaMemcpyDeviceToHost, stream));
    AS_CUDA(e, cudaStreamSynchronize(stream));
    qsort(t->host, (size_t)t->lines, sizeof *t->host, by_cycles);
    call->extra[0] = t->host[t->lines / 10];
    call->extra[1] = t->host[t->lines * 9 / 10];
    return AS_OK;
}
