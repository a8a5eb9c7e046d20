/* Shared by the CUDA files of this folder. */
#pragma once

#include "launch.h"

#include "../cuda/chain.h"
#include "../cuda/check.h"
#include "../cuda/internal.h"

#include <time.h>

static inline as_cuda_link as_launch_link_of(const as_call *call) {
    as_cuda_link link;
    link.spin_ns = as_launch_spins(call->params) ? AS_LAUNCH_SPIN_NS : 0;
    link.counter = call->counter;
    return link;
}

static inline double as_launch_host_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Adds `count` executions, which were checked elsewhere, to call->counter and waits. Nothing where it is NULL. */
as_status as_launch_credit(const as_call *call, int64_t count, as_error *e) AS_MUST_CHECK;

/* A graph in the shape that axis `shape` names (graphs.cu); chain: captured from a stream. */
typedef struct as_launch_copies {
    uint64_t *source; /* page-locked: what the copy nodes send */
    uint64_t *cell;   /* device: where they send it */
} as_launch_copies;
as_status as_launch_graph_build(const as_call *call, const as_launch_copies *copies, cudaGraph_t *out,
                                as_error *e) AS_MUST_CHECK;
