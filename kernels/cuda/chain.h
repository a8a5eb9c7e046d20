/* Chains of kernels that do next to nothing: what launch costs are measured with. */
#pragma once

#include "../../harness/status.h"

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One kernel of a chain, one thread. spin_ns == 0: empty; else it keeps busy that long by the device's clock.
 * counter not NULL: its counting twin runs, which adds 1 to *counter (device memory). */
typedef struct as_cuda_link {
    int64_t spin_ns;
    uint64_t *counter;
} as_cuda_link;

/* Launches one link into `stream`, nothing else: the timed part of eager variants. */
as_status as_cuda_link_launch(const as_cuda_link *link, cudaStream_t stream, as_error *e) AS_MUST_CHECK;

/* The same kernel as the node of a graph. `params` points into the struct: fill it where it stays. */
typedef struct as_cuda_link_node {
    struct cudaKernelNodeParams params;
    uint64_t ns;
    uint64_t *counter;
    void *arguments[2];
} as_cuda_link_node;
void as_cuda_link_node_of(const as_cuda_link *link, as_cuda_link_node *out);

/* A graph of `count` links, one after the other, captured on a stream of its own; the caller destroys it. */
as_status as_cuda_chain_capture(const as_cuda_link *link, int64_t count, cudaGraph_t *out, as_error *e) AS_MUST_CHECK;

/* The same, instantiated and uploaded: ready to launch on `stream`. */
as_status as_cuda_chain_prepare(const as_cuda_link *link, int64_t count, cudaStream_t stream, cudaGraphExec_t *out,
                                as_error *e) AS_MUST_CHECK;

#ifdef __cplusplus
}
#endif
