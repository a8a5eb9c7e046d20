#include "chain.h"

#include "check.h"
#include "internal.h"

static __global__ void as_cuda_empty_kernel() {}

static __device__ __forceinline__ void count(uint64_t *counter) { atomicAdd((unsigned long long *)counter, 1ull); }

/* The add is atomic: kernels of several streams, or side by side in a graph, share a counter. */
static __global__ void as_cuda_count_kernel(uint64_t *counter) { count(counter); }

static __device__ __forceinline__ uint64_t global_ns() {
    uint64_t t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}

/* Busy for `ns` by the device's nanosecond timer: true time at any SM clock. Its step is 32 ns on recent devices and
 * up to 1 us on older ones, so that a spin may be a step longer. The cycle counter bounds it, should the timer stand
 * still: 8 cycles a ns is beyond any SM clock. */
static __global__ void as_cuda_spin_kernel(uint64_t ns, uint64_t *counter) {
    const uint64_t begin = global_ns();
    const long long limit = clock64() + 8 * (long long)ns;
    while (global_ns() - begin < ns && clock64() < limit) {
    }
    if (counter)
        count(counter);
}

as_status as_cuda_link_launch(const as_cuda_link *link, cudaStream_t stream, as_error *e) {
    if (link->spin_ns)
        as_cuda_spin_kernel<<<1, 1, 0, stream>>>((uint64_t)link->spin_ns, link->counter);
    else if (link->counter)
        as_cuda_count_kernel<<<1, 1, 0, stream>>>(link->counter);
    else
        as_cuda_empty_kernel<<<1, 1, 0, stream>>>();
    AS_CUDA_LAUNCHED(e);
    return AS_OK;
}

void as_cuda_link_node_of(const as_cuda_link *link, as_cuda_link_node *out) {
    *out = as_cuda_link_node{};
    out->ns = (uint64_t)link->spin_ns;
    out->counter = link->counter;
    if (link->spin_ns) {
        out->params.func = (void *)as_cuda_spin_kernel;
        out->arguments[0] = &out->ns;
        out->arguments[1] = &out->counter;
    } else {
        out->params.func = link->counter ? (void *)as_cuda_count_kernel : (void *)as_cuda_empty_kernel;
        out->arguments[0] = &out->counter;
    }
    out->params.gridDim = out->params.blockDim = dim3(1, 1, 1);
    out->params.kernelParams = out->arguments;
}

static as_status issue(const as_cuda_link *link, int64_t count, cudaStream_t stream, as_error *e) {
    for (int64_t i = 0; i < count; i++)
        AS_TRY(as_cuda_link_launch(link, stream, e));
    return AS_OK;
}

as_status as_cuda_chain_capture(const as_cuda_link *link, int64_t count, cudaGraph_t *out, as_error *e) {
    cudaStream_t stream = NULL;
    cudaGraph_t graph = NULL;
    *out = NULL;
    AS_CUDA(e, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    as_status status = AS_OK;
    AS_CUDA_GOTO(e, status, cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    status = issue(link, count, stream, e);
    /* Ends the capture also where a launch failed: a stream in capture cannot be used or destroyed cleanly. */
    {
        const cudaError_t code = cudaStreamEndCapture(stream, &graph);
        if (status == AS_OK && code != cudaSuccess)
            status = as_cuda_fail_at(e, __FILE__, __LINE__, code, "cudaStreamEndCapture");
    }
    if (status == AS_OK) {
        *out = graph;
        graph = NULL;
    }
out:
    if (graph)
        (void)cudaGraphDestroy(graph);
    (void)cudaStreamDestroy(stream);
    return status;
}

as_status as_cuda_chain_prepare(const as_cuda_link *link, int64_t count, cudaStream_t stream, cudaGraphExec_t *out,
                                as_error *e) {
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    as_status status = AS_OK;
    *out = NULL;
    AS_TRY(as_cuda_chain_capture(link, count, &graph, e));
    AS_CUDA_GOTO(e, status, as_cuda_instantiate(&exec, graph));
    AS_CUDA_GOTO(e, status, cudaGraphUpload(exec, stream));
    AS_CUDA_GOTO(e, status, cudaStreamSynchronize(stream));
    *out = exec;
    exec = NULL;
out:
    if (exec)
        (void)cudaGraphExecDestroy(exec);
    (void)cudaGraphDestroy(graph);
    return status;
}
