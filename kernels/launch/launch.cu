/* The cost of starting kernels on a CUDA device: a chain of kernels of one thread, empty or busy for 10 us.
 *
 *   eager       `chain` launches into the stream. The host's issue cost bounds it: a few microseconds each.
 *   eager_sync  waits after each: adds the return trip, predicted 2 to 3 x eager.
 *
 * The others: graphs.cu, waits.cu, workers.cu, dependent.cu, priority.cu, config.cu, cold.cu, misuse.cu.
 * Work: no flops, no bytes; `chain` launches. A 10 us kernel adds chain * 10 us of fixed time. */
#include "launch.cuh"

as_status as_launch_eager_cuda(const as_call *call, as_error *e) {
    const int64_t chain = as_launch_chain_of(call->params);
    const as_cuda_link link = as_launch_link_of(call);
    for (int64_t i = 0; i < chain; i++)
        AS_TRY(as_cuda_link_launch(&link, as_cuda_stream(call->stream), e));
    return AS_OK;
}

as_status as_launch_eager_sync_cuda(const as_call *call, as_error *e) {
    const int64_t chain = as_launch_chain_of(call->params);
    const as_cuda_link link = as_launch_link_of(call);
    for (int64_t i = 0; i < chain; i++) {
        AS_TRY(as_cuda_link_launch(&link, as_cuda_stream(call->stream), e));
        AS_CUDA(e, cudaStreamSynchronize(as_cuda_stream(call->stream)));
    }
    return AS_OK;
}

static __global__ void as_launch_credit_kernel(unsigned long long *counter, unsigned long long count) {
    atomicAdd(counter, count);
}

as_status as_launch_credit(const as_call *call, int64_t count, as_error *e) {
    if (!call->counter)
        return AS_OK;
    as_launch_credit_kernel<<<1, 1, 0, as_cuda_stream(call->stream)>>>((unsigned long long *)call->counter,
                                                                       (unsigned long long)count);
    AS_CUDA_LAUNCHED(e);
    AS_CUDA(e, cudaStreamSynchronize(as_cuda_stream(call->stream)));
    return AS_OK;
}
