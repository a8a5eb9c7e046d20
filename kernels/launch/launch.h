/* The cost of starting work: calls, tasks, threads, processes (cpu), kernels, graphs, contexts, modules (cuda). Most
 * operations have no operands; docs/method.md, section 18, says what each includes.
 *
 * Verification by a counting twin: where call->counter is set, each execution adds 1 to it instead of (empty) or
 * beside (10us) its usual work; the harness compares with the suite's expected count (suites/launch.c). On cpu a task is
 * run by every member of the team; it counts once, and only if all members ran it. What runs in another process or
 * context is checked there and then counted (as_launch_credit). `config_*` have outputs and an exact reference. */
#pragma once

#include "../table.h"

#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { AS_LAUNCH_SPIN_NS = 10000, AS_LAUNCH_IDLE_NS = 1000000 };

#define AS_LAUNCH_CPU(X)                                                                                               \
    X(launch, direct, 0, "a call through a pointer that the compiler cannot see through; one thread")                  \
    X(launch, call_static, 0, "a foreign call: to a function of another file of the program")                          \
    X(launch, call_pointer, 0, "a foreign call: the same function through a pointer")                                  \
    X(launch, call_plt, 0, "a foreign call: to the C library, linked dynamically (labs)")                              \
    X(launch, call_syscall, 0, "a system call that does nothing (getppid), as the yardstick")

#define AS_LAUNCH_CPU_STATE(X)                                                                                         \
    X(launch, pool, 0, "one dispatch of a pinned thread team for each task")                                           \
    X(launch, openmp, 0, "one OpenMP parallel region for each task")                                                   \
    X(launch, static_plan, 0, "prebuilt records (function, argument) for each thread, all in one dispatch")            \
    X(launch, call_library, 0, "a foreign call: to a library that dlopen and dlsym found")                             \
    X(launch, wake_spin, 0, "two threads wake each other: both watch a word")                                          \
    X(launch, wake_yield, 0, "two threads wake each other: both watch a word and yield")                               \
    X(launch, wake_futex, 0, "two threads wake each other: asleep in futex")                                           \
    X(launch, wake_condition, 0, "two threads wake each other: mutex and condition variable")                          \
    X(launch, wake_eventfd, 0, "two threads wake each other: a read of an eventfd")                                    \
    X(launch, wake_pipe, 0, "two threads wake each other: a read of a pipe")                                           \
    X(launch, process_fork, 0, "fork and exec of a program that does nothing, to its exit")                            \
    X(launch, process_spawn, 0, "posix_spawn of a program that does nothing, to its exit")

#define AS_LAUNCH_QUEUE_SERIES                                                                                         \
    { "wait", "ns", false, false }

/* wait: mean time from putting a task into the queue to its start on the other thread. */
#define AS_LAUNCH_CPU_EXTRA(X)                                                                                         \
    X(launch, queue_fresh, AS_SINGLE, "tasks for a scheduler thread that watches its queue", AS_LAUNCH_QUEUE_SERIES)   \
    X(launch, queue_idle, AS_SINGLE, "tasks for a scheduler thread that has slept for 1 ms", AS_LAUNCH_QUEUE_SERIES)

/* eager, graph, dependent, grid_sync: issued back to back to the stream, timed on the device. eager_sync: waits for the
 * stream after each kernel, timed by the host. */
#define AS_LAUNCH_CUDA(X)                                                                                              \
    X(launch, eager, 0, "kernels launched one by one into a stream")                                                   \
    X(launch, eager_sync, AS_HOST_CLOCK, "kernels launched one by one, the host waits for each")

#define AS_LAUNCH_CUDA_STATE(X)                                                                                        \
    X(launch, graph, 0, "the chain as one instantiated CUDA graph")                                                    \
    X(launch, graph_set_params, AS_HOST_CLOCK, "new parameters for every kernel of a graph, one by one")               \
    X(launch, graph_update, AS_HOST_CLOCK, "new parameters for a whole graph at once, from another graph")             \
    X(launch, workers_stream, AS_HOST_CLOCK, "host threads launch into one stream")                                    \
    X(launch, workers_streams, AS_HOST_CLOCK, "host threads launch into a stream each")                                \
    X(launch, workers_graph, AS_HOST_CLOCK, "host threads launch one instantiated graph, in turns, a stream each")

#define AS_LAUNCH_CUDA_LIBRARY(X)                                                                                      \
    X(launch, dependent, 0, "kernels that may start before the one before has ended (programmatic launch)")            \
    X(launch, grid_sync, 0, "synchronisations of the whole grid within one cooperative launch")

/* Outputs, exact in whole numbers; captured in graphs, since short. */
#define AS_LAUNCH_CUDA_CONFIG(X)                                                                                       \
    X(launch, config_memory, AS_DETERMINISTIC | AS_CAPTURE, "y = x + 1, one element a thread, by block size")          \
    X(launch, config_compute, AS_DETERMINISTIC | AS_CAPTURE, "64 dependent multiply-adds an element, by block size")

#define AS_LAUNCH_WAIT_SERIES                                                                                          \
    {"wait", "ns", false, false}, { "cpu_time", "ns", false, false }

/* The operation's own time is that of the whole cycle; the extra series split it. They are host times.
 * graph_instantiate: cudaGraphInstantiate of the prepared graph, then destroy. With a counter the new graph is
 * launched once as well (expected: chain).
 * graph_first_launch: instantiate, launch and wait (first), launch and wait (second), destroy (expected: 2 chain).
 * graph_upload: instantiate, upload and wait, launch and wait, destroy (expected: chain).
 * wait_*: launch and wait, `chain` times. wait: mean from the launch's return to the end of the wait; cpu_time: what
 * the waiting thread computed, a kernel, launch included.
 * priority_*: latency of one small kernel, from before its launch to its end seen by the host. */
#define AS_LAUNCH_CUDA_EXTRA(X)                                                                                        \
    X(launch, graph_instantiate, AS_HOST_CLOCK | AS_SINGLE, "instantiates and destroys the chain's graph",             \
      {"instantiate", "ns", false})                                                                                    \
    X(launch, graph_first_launch, AS_HOST_CLOCK | AS_SINGLE, "first and second launch of a fresh graph",               \
      {"first_launch", "ns", false}, {"second_launch", "ns", false})                                                   \
    X(launch, graph_upload, AS_HOST_CLOCK | AS_SINGLE, "upload of a fresh graph, and the launch after it",             \
      {"upload", "ns", false}, {"launch", "ns", false})                                                                \
    X(launch, wait_stream, AS_HOST_CLOCK | AS_SINGLE, "cudaStreamSynchronize after each kernel",                       \
      AS_LAUNCH_WAIT_SERIES)                                                                                           \
    X(launch, wait_event, AS_HOST_CLOCK | AS_SINGLE, "an event after each kernel, cudaEventSynchronize",               \
      AS_LAUNCH_WAIT_SERIES)                                                                                           \
    X(launch, wait_poll_stream, AS_HOST_CLOCK | AS_SINGLE, "cudaStreamQuery until the kernel is done",                 \
      AS_LAUNCH_WAIT_SERIES)                                                                                           \
    X(launch, wait_poll_event, AS_HOST_CLOCK | AS_SINGLE, "an event after each kernel, cudaEventQuery until done",     \
      AS_LAUNCH_WAIT_SERIES)                                                                                           \
    X(launch, wait_callback, AS_HOST_CLOCK | AS_SINGLE, "cudaLaunchHostFunc after each kernel sets a flag",            \
      AS_LAUNCH_WAIT_SERIES)                                                                                           \
    X(launch, priority_idle, AS_HOST_CLOCK | AS_SINGLE, "a small kernel on a GPU that does nothing else",              \
      {"latency", "ns", false})                                                                                        \
    X(launch, priority_loaded, AS_HOST_CLOCK | AS_SINGLE, "a small kernel beside a stream that fills the GPU",         \
      {"latency", "ns", false})                                                                                        \
    X(launch, cold_context, AS_HOST_CLOCK | AS_SINGLE, "a fresh process makes the primary context",                    \
      {"init", "ns", false}, {"create", "ns", false}, {"again", "ns", false})                                          \
    X(launch, cold_module, AS_HOST_CLOCK | AS_SINGLE, "a fresh process loads a module and runs its kernel",            \
      {"load", "ns", false}, {"first_kernel", "ns", false}, {"second_kernel", "ns", false})                            \
    X(launch, cold_runtime, AS_HOST_CLOCK | AS_SINGLE, "a fresh process calls the CUDA runtime twice",                 \
      {"first_call", "ns", false}, {"second_call", "ns", false})                                                       \
    X(launch, contexts, AS_HOST_CLOCK | AS_SINGLE, "a fresh process makes several contexts and launches in each",      \
      {"create", "ns", false}, {"memory", "bytes", false}, {"launch", "ns", false})                                    \
    X(launch, misuse, AS_HOST_CLOCK | AS_SINGLE, "a misuse, and the codes that come back", {"first", "code", false},   \
      {"second", "code", false}, {"third", "code", false})

AS_LAUNCH_CPU(AS_PROTOTYPE_CPU)
AS_LAUNCH_CPU_STATE(AS_PROTOTYPE_CPU_STATE)
AS_LAUNCH_CPU_EXTRA(AS_PROTOTYPE_CPU_STATE)
AS_LAUNCH_CUDA(AS_PROTOTYPE_CUDA)
AS_LAUNCH_CUDA_STATE(AS_PROTOTYPE_CUDA_STATE)
AS_LAUNCH_CUDA_LIBRARY(AS_PROTOTYPE_CUDA_LIBRARY)
AS_LAUNCH_CUDA_CONFIG(AS_PROTOTYPE_CUDA)
AS_LAUNCH_CUDA_EXTRA(AS_PROTOTYPE_CUDA_STATE)

static inline int64_t as_launch_chain_of(const as_params *p) { return as_params_int(p, "chain"); }
static inline bool as_launch_spins(const as_params *p) { return strcmp(as_params_text(p, "kernel"), "10us") == 0; }

/* The function that the foreign calls share: |x|. In foreign_here.c and, the same text, in a library of its own. */
long as_launch_abs_here(long x);
long as_foreign_abs(long x);

/* Values of axis misuse, and whether a fresh process commits it: X(name, fresh). misuse.cu says what is seen. */
#define AS_LAUNCH_MISUSES(X)                                                                                           \
    X(capture_global, 0)                                                                                               \
    X(capture_thread_local, 0)                                                                                         \
    X(capture_relaxed, 0)                                                                                              \
    X(update_dependencies, 0)                                                                                          \
    X(other_thread, 0)                                                                                                 \
    X(missing_sync, 0)                                                                                                 \
    X(freed_memory, 1)                                                                                                 \
    X(second_context, 1)                                                                                               \
    X(shared_exec, 1)                                                                                                  \
    X(older_cubin, 1)                                                                                                  \
    X(static_jit, 1)

/* config_*: element i of the output from element i of the input (u32, modulo 2^32). */
enum { AS_LAUNCH_CONFIG_STEPS = 64 };
static inline AS_HD uint32_t as_launch_config_step(uint32_t x) { return x * 1664525u + 1013904223u; }

/* ---- a helper process of the binary: `assay __launch REPORT_FD DEVICE MODE ARGUMENT` (child.c) ---- */

#define AS_LAUNCH_CHILD_COMMAND "__launch"
int as_launch_child_main(int argc, char **argv);

#ifdef __cplusplus
}
#endif
