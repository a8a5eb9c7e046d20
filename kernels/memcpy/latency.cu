/* Latency of a load from host or peer memory: one thread on one multiprocessor follows a chain of pointers, a line of
 * 128 bytes a step, so that each load waits for the one before. The multiprocessors take turns, one an operation.
 *
 * Predicted: a round trip over PCIe, about a microsecond; over NVLink several hundred nanoseconds. Nothing of host
 * memory stays in the GPU's caches between two steps; the set is 2 MiB, each line is visited once in 16,384 steps. */
#include "memcpy.h"

#include "../cuda/check.h"
#include "../cuda/internal.h"
#include "peers.h"

#include <stdlib.h>

typedef struct node {
    const struct node *next;
} node;

typedef struct walk {
    int ordinal, peer; /* peer: device of the chain; -1: the host */
    node *chain;
    unsigned blocks, target; /* one block a multiprocessor; the one that walks */
} walk;

static void finish(walk *w) {
    if (!w)
        return;
    if (w->chain && w->peer < 0)
        (void)cudaFreeHost(w->chain);
    if (w->chain && w->peer >= 0) {
        (void)cudaSetDevice(w->peer);
        (void)cudaFree(w->chain);
        (void)cudaSetDevice(w->ordinal);
    }
    free(w);
}

/* The chain at address `home`, in host memory at `nodes`. */
static void link_nodes(node *nodes, const node *home, size_t count) {
    const size_t step = AS_MEMCPY_LINE_BYTES / sizeof *nodes;
    for (size_t i = 0; i < count; i++)
        nodes[i].next = home + (i + step) % count;
}

static as_status make_on_peer(walk *w, const as_call *call, size_t bytes, as_error *e) {
    AS_TRY(as_memcpy_peer_of(call, &w->peer, e));
    node *nodes = (node *)malloc(bytes);
    if (!nodes)
        return as_fail(e, AS_ENOMEM, "no memory for the chain");
    as_status status = AS_OK;
    AS_CUDA_GOTO(e, status, cudaSetDevice(w->peer));
    AS_CUDA_GOTO(e, status, cudaMalloc((void **)&w->chain, bytes));
    link_nodes(nodes, w->chain, bytes / sizeof *nodes);
    AS_CUDA_GOTO(e, status, cudaMemcpy(w->chain, nodes, bytes, cudaMemcpyHostToDevice));
    AS_CUDA_GOTO(e, status, cudaDeviceSynchronize());
out:
    (void)cudaSetDevice(w->ordinal);
    free(nodes);
    return status;
}

static as_status make(walk *w, const as_call *call, as_error *e) {
    const size_t bytes = (size_t)as_params_int(call->params, "bytes");
    if (as_memcpy_dir_of(call->params) == AS_P2D)
        return make_on_peer(w, call, bytes, e);
    AS_CUDA(e, cudaMallocHost((void **)&w->chain, bytes));
    link_nodes(w->chain, w->chain, bytes / sizeof *w->chain);
    return AS_OK;
}

as_status as_memcpy_latency_prepare_cuda(const as_call *call, void **state, as_error *e) {
    walk *w = (walk *)calloc(1, sizeof *w);
    *state = NULL;
    if (!w)
        return as_fail(e, AS_ENOMEM, "no memory for the state of memcpy/latency");
    w->ordinal = as_cuda_of(call->device)->ordinal;
    w->peer = -1;
    w->blocks = (unsigned)as_cuda_of(call->device)->properties.multiProcessorCount;
    const as_status status = make(w, call, e);
    if (status != AS_OK)
        finish(w);
    else
        *state = w;
    return status;
}

void as_memcpy_latency_finish_cuda(void *state) { finish((walk *)state); }

/* Each address comes from the load before: nothing can be left out, started early or joined. */
static __global__ void as_memcpy_latency_kernel(const node *chain, int steps, unsigned target, uint32_t *out) {
    if (blockIdx.x != target)
        return;
    const node *at = chain;
    for (int i = 0; i < steps; i++)
        at = at->next;
    *out = (uint32_t)((at - chain) * sizeof(node) / AS_MEMCPY_LINE_BYTES);
}

as_status as_memcpy_latency_cuda(const as_call *call, as_error *e) {
    walk *w = (walk *)call->state;
    as_memcpy_latency_kernel<<<w->blocks, 1, 0, as_cuda_stream(call->stream)>>>(
        w->chain, AS_MEMCPY_CHASE_STEPS, w->target, (uint32_t *)call->operand[0]);
    AS_CUDA_LAUNCHED(e);
    w->target = (w->target + 1) % w->blocks;
    return AS_OK;
}
