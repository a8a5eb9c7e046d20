/* Changing an instantiated graph, against making it anew (graph_instantiate).
 *
 *   graph_set_params  cudaGraphExecKernelNodeSetParams for each of `chain` kernels: grows with what changes
 *   graph_update      cudaGraphExecUpdate from a second graph of the same shape: grows with the graph
 *
 * The parameter is the counter that a kernel adds to, or NULL for none. Two values take turns, so that each operation
 * really changes something. The twin launches the graph once after the change: only kernels that have the new parameter
 * count. Nothing is launched in the timed operation. */
#include "launch.cuh"

#include <stdlib.h>

static __global__ void as_launch_mark_kernel(unsigned long long *counter) {
    if (counter)
        atomicAdd(counter, 1ull);
}

typedef struct update_state {
    cudaGraph_t graph[2];
    cudaGraphNode_t *node; /* of graph[0], `chain` */
    cudaGraphExec_t exec;
    uint64_t *spare;    /* device: a counter that nobody reads */
    uint64_t *value[2]; /* what the parameter changes between: the spare counter, and the caller's or NULL */
    int64_t chain;
    int next;
} update_state;

/* Parameters of a node whose argument is *counter. */
static cudaKernelNodeParams params_of(void **argument) {
    cudaKernelNodeParams params = {};
    params.func = (void *)as_launch_mark_kernel;
    params.gridDim = params.blockDim = dim3(1, 1, 1);
    params.kernelParams = argument;
    return params;
}

static as_status build(update_state *s, int which, as_error *e) {
    void *argument[] = {&s->value[which]};
    const cudaKernelNodeParams params = params_of(argument);
    cudaGraphNode_t node = NULL;
    AS_CUDA(e, cudaGraphCreate(&s->graph[which], 0));
    for (int64_t i = 0; i < s->chain; i++) {
        cudaGraphNode_t before = node;
        AS_CUDA(e, cudaGraphAddKernelNode(&node, s->graph[which], i ? &before : NULL, i ? 1 : 0, &params));
        if (which == 0)
            s->node[i] = node;
    }
    return AS_OK;
}

static void finish(void *state) {
    update_state *s = (update_state *)state;
    if (!s)
        return;
    if (s->exec)
        (void)cudaGraphExecDestroy(s->exec);
    for (int i = 0; i < 2; i++)
        if (s->graph[i])
            (void)cudaGraphDestroy(s->graph[i]);
    if (s->spare)
        (void)cudaFree(s->spare);
    free(s->node);
    free(s);
}

static as_status make(const as_call *call, update_state *s, as_error *e) {
    s->chain = as_launch_chain_of(call->params);
    s->node = (cudaGraphNode_t *)calloc((size_t)s->chain, sizeof *s->node);
    if (!s->node)
        return as_fail(e, AS_ENOMEM, "no memory for the nodes of a graph");
    AS_CUDA(e, cudaMalloc((void **)&s->spare, sizeof *s->spare));
    s->value[0] = s->spare;
    s->value[1] = call->counter;
    s->next = 1;
    for (int i = 0; i < 2; i++)
        AS_TRY(build(s, i, e));
    AS_CUDA(e, as_cuda_instantiate(&s->exec, s->graph[0]));
    AS_CUDA(e, cudaGraphUpload(s->exec, as_cuda_stream(call->stream)));
    AS_CUDA(e, cudaStreamSynchronize(as_cuda_stream(call->stream)));
    return AS_OK;
}

static as_status prepare(const as_call *call, void **state, as_error *e) {
    update_state *s = (update_state *)calloc(1, sizeof *s);
    if (!s)
        return as_fail(e, AS_ENOMEM, "no memory for the state of a graph");
    const as_status status = make(call, s, e);
    if (status != AS_OK)
        finish(s);
    else
        *state = s;
    return status;
}

as_status as_launch_graph_set_params_prepare_cuda(const as_call *call, void **state, as_error *e) {
    return prepare(call, state, e);
}
void as_launch_graph_set_params_finish_cuda(void *state) { finish(state); }
as_status as_launch_graph_update_prepare_cuda(const as_call *call, void **state, as_error *e) {
    return prepare(call, state, e);
}
void as_launch_graph_update_finish_cuda(void *state) { finish(state); }

static as_status set_params(update_state *s, int which, as_error *e) {
    void *argument[] = {&s->value[which]};
    const cudaKernelNodeParams params = params_of(argument);
    for (int64_t i = 0; i < s->chain; i++)
        AS_CUDA(e, cudaGraphExecKernelNodeSetParams(s->exec, s->node[i], &params));
    return AS_OK;
}

static as_status update(update_state *s, int which, as_error *e) {
    cudaGraphExecUpdateResultInfo info;
    AS_CUDA(e, cudaGraphExecUpdate(s->exec, s->graph[which], &info));
    return AS_OK;
}

/* In the twin the change is always to the caller's counter, and away from it afterwards. */
static as_status run(const as_call *call, as_status (*change)(update_state *s, int which, as_error *e), as_error *e) {
    update_state *s = (update_state *)call->state;
    if (!call->counter) {
        AS_TRY(change(s, s->next, e));
        s->next = !s->next;
        return AS_OK;
    }
    AS_TRY(change(s, 1, e));
    AS_CUDA(e, cudaGraphLaunch(s->exec, as_cuda_stream(call->stream)));
    AS_CUDA(e, cudaStreamSynchronize(as_cuda_stream(call->stream)));
    return change(s, 0, e);
}

as_status as_launch_graph_set_params_cuda(const as_call *call, as_error *e) { return run(call, set_params, e); }
as_status as_launch_graph_update_cuda(const as_call *call, as_error *e) { return run(call, update, e); }
