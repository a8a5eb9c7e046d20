/* What a CUDA device can do at best beside memory (bandwidth.cu) and tensor cores (tensor.cu); ceiling.h states operands
 * and amounts.
 *
 *   fma     eight independent chains a thread hide the pipe's latency by themselves; blocks of 64 threads spread
 *           evenly, so that the last wave costs under 1%. 2 * threads * chains * steps operations.
 *   atomic  level=l2: neighbouring lanes add to neighbouring counters, so that a warp's additions are four sectors;
 *           4 MiB of counters use every slice. level=shared: each lane has counters of its own, without bank conflicts.
 *           The addend is an argument: additions of a constant 1 have an instruction of their own.
 *   link    one cudaMemcpyAsync between pinned host memory and the device. bytes, copied once. both: the two copy
 *           engines at the same time, between two device buffers that change places with every operation, so that what
 *           comes back has gone up in the one before.
 *   launch  a graph of AS_CEILING_LAUNCHES empty kernels, launched once. */
#include "ceiling.h"

#include "../cuda/chain.h"
#include "../cuda/check.h"
#include "../cuda/internal.h"
#include "sums.cuh"

#include <stdlib.h>

enum { FMA_THREADS = 64, FMA_UNROLL = 32 };

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

/* ---- atomic ---- */

enum { ATOMIC_THREADS = 256, ATOMIC_EACH = 8, ATOMIC_TURNS = 4 };
enum { ATOMIC_UNITS = AS_CEILING_ADDITIONS / (ATOMIC_THREADS * ATOMIC_EACH * ATOMIC_TURNS) };

static __global__ void __launch_bounds__(ATOMIC_THREADS) as_ceiling_atomic_l2_kernel(uint32_t *counters, uint32_t one) {
    const uint32_t step = gridDim.x * ATOMIC_THREADS;
    for (uint32_t i = blockIdx.x * ATOMIC_THREADS + threadIdx.x; i < AS_CEILING_ADDITIONS; i += step)
        atomicAdd(counters + i % AS_CEILING_COUNTERS, one);
}

static __global__ void __launch_bounds__(ATOMIC_THREADS) as_ceiling_atomic_shared_kernel(uint32_t one, double *out) {
    __shared__ uint32_t counter[ATOMIC_EACH][ATOMIC_THREADS];
    for (int j = 0; j < ATOMIC_EACH; j++)
        counter[j][threadIdx.x] = 0;
    __syncthreads();
    for (int unit = (int)blockIdx.x; unit < ATOMIC_UNITS; unit += (int)gridDim.x)
#pragma unroll
        for (int turn = 0; turn < ATOMIC_TURNS; turn++)
#pragma unroll
            for (int j = 0; j < ATOMIC_EACH; j++)
                atomicAdd(&counter[j][threadIdx.x], one);
    __syncthreads();
    unsigned long long done = 0;
    for (int j = 0; j < ATOMIC_EACH; j++)
        done += counter[j][threadIdx.x];
    const unsigned long long block = block_sum<ATOMIC_THREADS>(done);
    unsigned long long total;
    if (threadIdx.x == 0 && grid_sum(block, &total))
        *out = (double)total;
}

as_status as_ceiling_atomic_cuda(const as_call *call, as_error *e) {
    static_assert(ATOMIC_UNITS * ATOMIC_THREADS * ATOMIC_EACH * ATOMIC_TURNS == AS_CEILING_ADDITIONS, "all are done");
    const unsigned resident = (unsigned)as_cuda_of(call->device)->properties.multiProcessorCount * 8;
    const cudaStream_t stream = as_cuda_stream(call->stream);
    if (strcmp(as_params_text(call->params, "level"), "shared") == 0) {
        as_ceiling_atomic_shared_kernel<<<resident / 2, ATOMIC_THREADS, 0, stream>>>(1, (double *)call->operand[0]);
    } else {
        uint32_t *counters = (uint32_t *)call->operand[0];
        AS_CUDA(e, cudaMemsetAsync(counters, 0, AS_CEILING_COUNTERS * sizeof *counters, stream));
        as_ceiling_atomic_l2_kernel<<<resident, ATOMIC_THREADS, 0, stream>>>(counters, 1);
    }
    AS_CUDA_LAUNCHED(e);
    return AS_OK;
}

/* ---- link ---- */

struct link_state {
    cudaStream_t up, down;
    cudaEvent_t begin, up_done, down_done;
    void *twin[2];
    int turn;
    bool filled; /* twin[1] holds the source */
};

void as_ceiling_link_finish_cuda(void *state) {
    link_state *s = (link_state *)state;
    if (!s)
        return;
    for (cudaStream_t stream : {s->up, s->down})
        if (stream)
            (void)cudaStreamDestroy(stream);
    for (cudaEvent_t event : {s->begin, s->up_done, s->down_done})
        if (event)
            (void)cudaEventDestroy(event);
    for (void *twin : s->twin)
        (void)cudaFree(twin);
    free(s);
}

as_status as_ceiling_link_prepare_cuda(const as_call *call, void **state, as_error *e) {
    *state = NULL;
    if (strcmp(as_params_text(call->params, "dir"), "both") != 0)
        return AS_OK;
    link_state *s = (link_state *)calloc(1, sizeof *s);
    if (!s)
        return as_fail(e, AS_ENOMEM, "no memory for the state of a ceiling");
    as_status status = AS_OK;
    for (cudaStream_t *stream : {&s->up, &s->down})
        AS_CUDA_GOTO(e, status, cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
    for (cudaEvent_t *event : {&s->begin, &s->up_done, &s->down_done})
        AS_CUDA_GOTO(e, status, cudaEventCreateWithFlags(event, cudaEventDisableTiming));
    for (void **twin : {&s->twin[0], &s->twin[1]})
        AS_CUDA_GOTO(e, status, cudaMalloc(twin, AS_CEILING_LINK_BYTES));
    *state = s;
    return AS_OK;
out:
    as_ceiling_link_finish_cuda(s);
    return status;
}

static as_status both_ways(const as_call *call, link_state *s, as_error *e) {
    const cudaStream_t stream = as_cuda_stream(call->stream);
    void *to = s->twin[s->turn], *from = s->twin[1 - s->turn];
    if (!s->filled) /* the first operation is the one that is verified, not timed */
        AS_CUDA(e, cudaMemcpyAsync(from, call->operand[0], AS_CEILING_LINK_BYTES, cudaMemcpyHostToDevice, stream));
    s->filled = true;
    s->turn = 1 - s->turn;
    AS_CUDA(e, cudaEventRecord(s->begin, stream));
    AS_CUDA(e, cudaStreamWaitEvent(s->up, s->begin, 0));
    AS_CUDA(e, cudaStreamWaitEvent(s->down, s->begin, 0));
    AS_CUDA(e, cudaMemcpyAsync(to, call->operand[0], AS_CEILING_LINK_BYTES, cudaMemcpyHostToDevice, s->up));
    AS_CUDA(e, cudaMemcpyAsync(call->operand[1], from, AS_CEILING_LINK_BYTES, cudaMemcpyDeviceToHost, s->down));
    AS_CUDA(e, cudaEventRecord(s->up_done, s->up));
    AS_CUDA(e, cudaEventRecord(s->down_done, s->down));
    AS_CUDA(e, cudaStreamWaitEvent(stream, s->up_done, 0));
    AS_CUDA(e, cudaStreamWaitEvent(stream, s->down_done, 0));
    return AS_OK;
}

as_status as_ceiling_link_cuda(const as_call *call, as_error *e) {
    if (call->state)
        return both_ways(call, (link_state *)call->state, e);
    const bool down = strcmp(as_params_text(call->params, "dir"), "d2h") == 0;
    AS_CUDA(e, cudaMemcpyAsync(call->operand[1], call->operand[0], AS_CEILING_LINK_BYTES,
                               down ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice, as_cuda_stream(call->stream)));
    return AS_OK;
}

/* ---- launch ---- */

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
