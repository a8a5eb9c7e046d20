/* CUDA graphs: what a plan made beforehand costs to make, to send, to start and to change.
 *
 *   graph               the chain as one graph, instantiated and uploaded beforehand: the device walks the nodes by
 *                       itself. Predicted under 1 us a kernel for long chains; no gain for a chain of 1.
 *   graph_instantiate   what making the executable graph costs, paid once: grows with the chain.
 *   graph_first_launch  the first launch of a graph that was not uploaded, against the second.
 *   graph_upload        the upload alone, and the first launch after it.
 *
 * Axis shape: chain, each kernel after the one before; fan_out, one kernel, then all but two side by side, then one that
 * waits for them; copies, before each kernel a copy of 4 KiB from page-locked memory, all in one chain. */
#include "launch.cuh"

#include <stdlib.h>

enum { COPY_BYTES = 4096, MARK = 0x5A };

/* Counts only behind a copy: the mark that the copy brought is taken away. */
static __global__ void as_launch_take_kernel(volatile uint64_t *cell, unsigned long long *counter) {
    if (*cell != MARK)
        return;
    *cell = 0;
    atomicAdd(counter, 1ull);
}

typedef struct graph_state {
    cudaGraph_t graph;    /* not instantiated: graph_instantiate, graph_first_launch, graph_upload */
    cudaGraphExec_t exec; /* graph */
    as_launch_copies copies;
} graph_state;

/* ---- shapes ---- */

static as_status add_kernel(const as_cuda_link *link, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count,
                            cudaGraphNode_t *out, as_error *e) {
    as_cuda_link_node node;
    as_cuda_link_node_of(link, &node);
    AS_CUDA(e, cudaGraphAddKernelNode(out, graph, after, count, &node.params));
    return AS_OK;
}

static as_status fan_out(const as_cuda_link *link, int64_t chain, cudaGraph_t graph, as_error *e) {
    cudaGraphNode_t root, last;
    AS_TRY(add_kernel(link, graph, NULL, 0, &root, e));
    if (chain < 2)
        return AS_OK;
    const size_t middle = (size_t)chain - 2;
    cudaGraphNode_t *nodes = (cudaGraphNode_t *)calloc(middle + 1, sizeof *nodes);
    if (!nodes)
        return as_fail(e, AS_ENOMEM, "no memory for the nodes of a graph");
    as_status s = AS_OK;
    for (size_t i = 0; i < middle && s == AS_OK; i++)
        s = add_kernel(link, graph, &root, 1, &nodes[i], e);
    if (s == AS_OK)
        s = add_kernel(link, graph, middle ? nodes : &root, middle ? middle : 1, &last, e);
    free(nodes);
    return s;
}

static as_status with_copies(const as_cuda_link *link, const as_launch_copies *copies, int64_t chain, cudaGraph_t graph,
                             as_error *e) {
    cudaGraphNode_t copy, kernel = NULL;
    for (int64_t i = 0; i < chain; i++) {
        AS_CUDA(e, cudaGraphAddMemcpyNode1D(&copy, graph, kernel ? &kernel : NULL, kernel ? 1 : 0, copies->cell,
                                            copies->source, COPY_BYTES, cudaMemcpyHostToDevice));
        if (!link->counter) {
            AS_TRY(add_kernel(link, graph, &copy, 1, &kernel, e));
            continue;
        }
        void *arguments[] = {(void *)&copies->cell, (void *)&link->counter};
        cudaKernelNodeParams params = {};
        params.func = (void *)as_launch_take_kernel;
        params.gridDim = params.blockDim = dim3(1, 1, 1);
        params.kernelParams = arguments;
        AS_CUDA(e, cudaGraphAddKernelNode(&kernel, graph, &copy, 1, &params));
    }
    return AS_OK;
}

as_status as_launch_graph_build(const as_call *call, const as_launch_copies *copies, cudaGraph_t *out, as_error *e) {
    const as_cuda_link link = as_launch_link_of(call);
    const int64_t chain = as_launch_chain_of(call->params);
    const char *shape = as_params_text(call->params, "shape");
    if (strcmp(shape, "chain") == 0)
        return as_cuda_chain_capture(&link, chain, out, e);
    AS_CUDA(e, cudaGraphCreate(out, 0));
    const as_status s =
        strcmp(shape, "fan_out") == 0 ? fan_out(&link, chain, *out, e) : with_copies(&link, copies, chain, *out, e);
    if (s != AS_OK) {
        (void)cudaGraphDestroy(*out);
        *out = NULL;
    }
    return s;
}

/* ---- state ---- */

static void finish(void *state) {
    graph_state *s = (graph_state *)state;
    if (!s)
        return;
    if (s->exec)
        (void)cudaGraphExecDestroy(s->exec);
    if (s->graph)
        (void)cudaGraphDestroy(s->graph);
    if (s->copies.source)
        (void)cudaFreeHost(s->copies.source);
    if (s->copies.cell)
        (void)cudaFree(s->copies.cell);
    free(s);
}

static as_status make(const as_call *call, graph_state *s, bool executable, as_error *e) {
    if (strcmp(as_params_text(call->params, "shape"), "copies") == 0) {
        AS_CUDA(e, cudaMallocHost((void **)&s->copies.source, COPY_BYTES));
        memset(s->copies.source, 0, COPY_BYTES);
        s->copies.source[0] = MARK;
        AS_CUDA(e, cudaMalloc((void **)&s->copies.cell, COPY_BYTES));
    }
    AS_TRY(as_launch_graph_build(call, &s->copies, &s->graph, e));
    if (!executable)
        return AS_OK;
    AS_CUDA(e, as_cuda_instantiate(&s->exec, s->graph));
    AS_CUDA(e, cudaGraphUpload(s->exec, as_cuda_stream(call->stream)));
    AS_CUDA(e, cudaStreamSynchronize(as_cuda_stream(call->stream)));
    return AS_OK;
}

static as_status prepare(const as_call *call, bool executable, void **state, as_error *e) {
    graph_state *s = (graph_state *)calloc(1, sizeof *s);
    if (!s)
        return as_fail(e, AS_ENOMEM, "no memory for the state of a graph");
    const as_status status = make(call, s, executable, e);
    if (status != AS_OK)
        finish(s);
    else
        *state = s;
    return status;
}

#define DEFINE_STATE(name, executable)                                                                                 \
    as_status as_launch_##name##_prepare_cuda(const as_call *call, void **state, as_error *e) {                        \
        return prepare(call, executable, state, e);                                                                    \
    }                                                                                                                  \
    void as_launch_##name##_finish_cuda(void *state) { finish(state); }

DEFINE_STATE(graph, true)
DEFINE_STATE(graph_instantiate, false)
DEFINE_STATE(graph_first_launch, false)
DEFINE_STATE(graph_upload, false)

/* ---- runs ---- */

as_status as_launch_graph_cuda(const as_call *call, as_error *e) {
    const graph_state *s = (const graph_state *)call->state;
    AS_CUDA(e, cudaGraphLaunch(s->exec, as_cuda_stream(call->stream)));
    return AS_OK;
}

/* Launches and waits; *ns is the host time of both. */
static as_status launch_and_wait(cudaGraphExec_t exec, cudaStream_t stream, double *ns, as_error *e) {
    const double begin = as_launch_host_ns();
    AS_CUDA(e, cudaGraphLaunch(exec, stream));
    AS_CUDA(e, cudaStreamSynchronize(stream));
    *ns = as_launch_host_ns() - begin;
    return AS_OK;
}

as_status as_launch_graph_instantiate_cuda(const as_call *call, as_error *e) {
    const graph_state *s = (const graph_state *)call->state;
    cudaGraphExec_t exec = NULL;
    as_status status = AS_OK;
    double ignored_ns;
    const double begin = as_launch_host_ns();
    AS_CUDA(e, as_cuda_instantiate(&exec, s->graph));
    if (call->extra)
        call->extra[0] = as_launch_host_ns() - begin;
    if (call->counter)
        status = launch_and_wait(exec, as_cuda_stream(call->stream), &ignored_ns, e);
    (void)cudaGraphExecDestroy(exec);
    return status;
}

as_status as_launch_graph_first_launch_cuda(const as_call *call, as_error *e) {
    const graph_state *s = (const graph_state *)call->state;
    cudaGraphExec_t exec = NULL;
    double first_ns = 0, second_ns = 0;
    AS_CUDA(e, as_cuda_instantiate(&exec, s->graph));
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

static as_status upload_and_wait(cudaGraphExec_t exec, cudaStream_t stream, double *ns, as_error *e) {
    const double begin = as_launch_host_ns();
    AS_CUDA(e, cudaGraphUpload(exec, stream));
    AS_CUDA(e, cudaStreamSynchronize(stream));
    *ns = as_launch_host_ns() - begin;
    return AS_OK;
}

as_status as_launch_graph_upload_cuda(const as_call *call, as_error *e) {
    const graph_state *s = (const graph_state *)call->state;
    cudaGraphExec_t exec = NULL;
    double upload_ns = 0, launch_ns = 0;
    AS_CUDA(e, as_cuda_instantiate(&exec, s->graph));
    as_status status = upload_and_wait(exec, as_cuda_stream(call->stream), &upload_ns, e);
    if (status == AS_OK)
        status = launch_and_wait(exec, as_cuda_stream(call->stream), &launch_ns, e);
    (void)cudaGraphExecDestroy(exec);
    if (call->extra) {
        call->extra[0] = upload_ns;
        call->extra[1] = launch_ns;
    }
    return status;
}
