/* The cost of starting work: a chain of `chain` kernels (cuda) or tasks (cpu) that do nothing (kernel=empty) or
 * keep busy for 10 us each by the clock (kernel=10us). No operands.
 *
 * Verification by a counting twin: where call->counter is set, each execution adds 1 to it instead of (empty) or
 * beside (10us) its usual work; the harness compares with as_launch_expected. On cpu a task is run by every member
 * of the team; it counts once, and only if all members ran it. */
#pragma once

#include "../table.h"

#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { AS_LAUNCH_SPIN_NS = 10000 };

#define AS_LAUNCH_CPU(X)                                                                                               \
    X(launch, direct, 0, "a call through a pointer that the compiler cannot see through; one thread")

#define AS_LAUNCH_CPU_STATE(X)                                                                                         \
    X(launch, pool, 0, "one dispatch of a pinned thread team for each task")                                           \
    X(launch, openmp, 0, "one OpenMP parallel region for each task")                                                   \
    X(launch, static_plan, 0, "prebuilt records (function, argument) for each thread, all in one dispatch")

/* eager and graph: issued back to back to the stream, timed on the device. eager_sync: waits for the stream after
 * each kernel, timed by the host. */
#define AS_LAUNCH_CUDA(X)                                                                                              \
    X(launch, eager, 0, "kernels launched one by one into a stream")                                                   \
    X(launch, eager_sync, AS_HOST_CLOCK, "kernels launched one by one, the host waits for each")

#define AS_LAUNCH_CUDA_STATE(X) X(launch, graph, 0, "the chain as one instantiated CUDA graph")

/* The operation's own time is that of the whole cycle; the extra series split it.
 * graph_instantiate: cudaGraphInstantiate of the prepared graph, then destroy. With a counter the new graph is
 * launched once as well (expected: chain).
 * graph_first_launch: instantiate, launch and wait (first), launch and wait (second), destroy (expected: 2 chain).
 * Extra series are host times from before the call to its return (instantiate) or to completion (launches). */
#define AS_LAUNCH_CUDA_EXTRA(X)                                                                                        \
    X(launch, graph_instantiate, AS_HOST_CLOCK | AS_SINGLE, "instantiates and destroys the chain's graph",             \
      {"instantiate", "ns", false})                                                                                    \
    X(launch, graph_first_launch, AS_HOST_CLOCK | AS_SINGLE, "first and second launch of a fresh graph",               \
      {"first_launch", "ns", false}, {"second_launch", "ns", false})

AS_LAUNCH_CPU(AS_PROTOTYPE_CPU)
AS_LAUNCH_CPU_STATE(AS_PROTOTYPE_CPU_STATE)
AS_LAUNCH_CUDA(AS_PROTOTYPE_CUDA)
AS_LAUNCH_CUDA_STATE(AS_PROTOTYPE_CUDA_STATE)
AS_LAUNCH_CUDA_EXTRA(AS_PROTOTYPE_CUDA_STATE)

static inline int64_t as_launch_chain_of(const as_params *p) { return as_params_int(p, "chain"); }
static inline bool as_launch_spins(const as_params *p) { return strcmp(as_params_text(p, "kernel"), "10us") == 0; }
/* Executions of one operation of a variant. */
static inline int64_t as_launch_expected(const char *variant, int64_t chain) {
    return strcmp(variant, "graph_first_launch") == 0 ? 2 * chain : chain;
}

#ifdef __cplusplus
}
#endif
