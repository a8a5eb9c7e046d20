/* The cost of starting kernels on a CUDA device: a chain of kernels of one thread, empty or busy for 10 us.
 *
 *   eager               `chain` launches into the stream. The host's issue cost bounds it: a few microseconds each.
 *   eager_sync          waits after each: adds the return trip, predicted 2 to 3 x eager.
 *   graph               the chain as one graph, instantiated and uploaded beforehand: the device walks the nodes by
 *                       itself. Predicted under 1 us a kernel for long chains; no gain for a chain of 1.
 *   graph_instantiate   what making the executable graph costs, paid once: grows with the chain.
 *   graph_first_launch  the first launch of a graph that was not uploaded, against the second.
 *
 * Work: no flops, no bytes; `chain` launches. A 10 us kernel adds chain * 10 us of fixed time. */
#include "launch.h"

#include "../cuda/chain.h"
#include "../cuda/check.h"
#include "../cuda/internal.h"

#include <time.h>

static as_cuda_link link_of(const as_call *call) {
    as_cuda_link link;
    link.spin_ns = as_launch_spins(call->params) ? AS_LAUNCH_SPIN_NS : 0;
    link.counter = call->counter;
    return link;
}

static double host_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

as_status as_launch_eager_cuda(const as_call *call, as_error *e) {
    const int64_t chain = as_launch_chain_of(call->params);
    const as_cuda_link link = link_of(call);
    for (int64_t i = 0; i < chain; i++)
        AS_TRY(as_cuda_link_launch(&link, as_cuda_stream(call->stream), e));
    return AS_OK;
}

as_status as_launch_eager_sync_cuda(const as_call *call, as_error *e) {
    const int64_t chain = as_launch_chain_of(call->params);
    const as_cuda_link link = link_of(call);
    for (int64_t i = 0; i < chain; i++) {
        AS_TRY(as_cuda_link_launch(&link, as_cuda_stream(call->stream), e));
        AS_CUDA(e, cudaStreamSynchronize(as_cuda_stream(call->stream)));
    }
    return AS_OK;
}

as_status as_launch_graph_prepare_cuda(const as_call *call, void **state, as_error *e) {
    const as_cuda_link link = link_of(call);
    cudaGraphExec_t exec = NULL;
    AS_TRY(as_cuda_chain_prepare(&link, as_launch_chain_of(call->params), as_cuda_stream(call->stream), &exec, e));
    *state = exec;
    return AS_OK;
}

as_status as_launch_graph_cuda(const as_call *call, as_error *e) {
    AS_CUDA(e, cudaGraphLaunch((cudaGraphExec_t)call->state, as_cuda_stream(call->stream)));
    return AS_OK;
}

void as_launch_graph_finish_cuda(void *state) {
    if (state)
        (void)cudaGraphExecDestroy((cudaGraphExec_t)state);
}

/* State of the two variants below: the captured graph, not instantiated. */
static as_status capture(const as_call *call, void **state, as_error *e) {
    const as_cuda_link link = link_of(call);
    cudaGraph_t graph = NULL;
    AS_TRY(as_cuda_chain_capture(&link, as_launch_chain_of(call->params), &graph, e));
    *state = graph;
    return AS_OK;
}

as_status as_launch_graph_instantiate_prepare_cuda(const as_call *call, void **state, as_error *e) {
    return capture(call, state, e);
}

as_status as_launch_graph_first_launch_prepare_cuda(const as_call *call, void **state, as_error *e) {
    return capture(call, state, e);
}

void as_launch_graph_instantiate_finish_cuda(void *state) {
    if (state)
        (void)cudaGraphDestroy((cudaGraph_t)state);
}

void as_launch_graph_first_launch_finish_cuda(void *state) { as_launch_graph_instantiate_finish_cuda(state); }

/* Launches and waits; *ns is the host time of both. */
static as_status launch_and_wait(cudaGraphExec_t exec, cudaStream_t stream, double *ns, as_error *e) {
    const double begin = host_ns();
    AS_CUDA(e, cudaGraphLaunch(exec, stream));
    AS_CUDA(e, cudaStreamSynchronize(stream));
    *ns = host_ns() - begin;
    return AS_OK;
}

as_status as_launch_graph_instantiate_cuda(const as_call *call, as_error *e) {
    cudaGraphExec_t exec = NULL;
    as_status status = AS_OK;
    double ignored_ns;
    const double begin = host_ns();
    AS_CUDA(e, as_cuda_instantiate(&exec, (cudaGraph_t)call->state));
    if (call->extra)
        call->extra[0] = host_ns() - begin;
    if (call->counter)
        status = launch_and_wait(exec, as_cuda_stream(call->stream), &ignored_ns, e);
    (void)cudaGraphExecDestroy(exec);
    return status;
}

as_status as_launch_graph_first_launch_cuda(const as_call *call, as_error *e) {
    cudaGraphExec_t exec = NULL;
    double first_ns = 0, second_ns = 0;
    AS_CUDA(e, as_cuda_instantiate(&exec, (cudaGraph_t)call->state));
    as_status status = launch_and_wait(exec, as_cuda_stream(call->stream), &first_ns, e);
    if (status == AS_OK)
        status = launch_and_wait(exec, as_cuda_stream(call->stream), &second_ns, e);
    (void)cudaGraphExecDestroy(exec);
    if (call->extra) {
        call->extra[0] = first_ns;
        call->extra[1] = second_ns;
    }
    return status;
}
