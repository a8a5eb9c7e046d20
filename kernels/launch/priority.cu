/* Whether a stream's priority keeps its latency low. One operation: the background (priority_loaded only) fills every
 * multiprocessor for about 200 us with blocks of 10 us, 20 waves of them, at the least priority; once it runs, one kernel
 * of one thread goes into a stream of axis priority, and the host waits for it; then for the background.
 *
 * The series `latency` is the host's time from before that launch to the end of its wait: its 99th percentile is what the
 * claim is about. A block that runs is never stopped: at high priority the kernel waits for the end of one block, at the
 * background's own for its last wave. priority_idle is the same kernel on an idle GPU. */
#include "launch.cuh"

#include <stdlib.h>

enum { WAVES = 20, BACKGROUND_THREADS = 1024 };

typedef struct priority_state {
    cudaStream_t small, background;
    volatile unsigned *running; /* page-locked and mapped: set by the background once it runs */
    as_cuda_link link;
    unsigned blocks; /* of the background; 0: none */
} priority_state;

static __device__ __forceinline__ uint64_t global_ns() {
    uint64_t t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}

static __global__ void __launch_bounds__(BACKGROUND_THREADS)
    as_launch_background_kernel(uint64_t ns, volatile unsigned *running) {
    const uint64_t begin = global_ns();
    const long long limit = clock64() + 8 * (long long)ns; /* should the timer stand still */
    if (blockIdx.x == 0 && threadIdx.x == 0)
        *running = 1;
    while (global_ns() - begin < ns && clock64() < limit) {
    }
}

static as_status begin_background(priority_state *s, as_error *e) {
    const double deadline = as_launch_host_ns() + 10e9;
    *s->running = 0;
    as_launch_background_kernel<<<s->blocks, BACKGROUND_THREADS, 0, s->background>>>(AS_LAUNCH_SPIN_NS, s->running);
    AS_CUDA_LAUNCHED(e);
    while (!*s->running)
        if (as_launch_host_ns() > deadline)
            return as_fail(e, AS_EFAIL, "the background kernel did not start within 10 s");
    return AS_OK;
}

static as_status run(const as_call *call, as_error *e) {
    priority_state *s = (priority_state *)call->state;
    if (s->blocks)
        AS_TRY(begin_background(s, e));
    const double begin = as_launch_host_ns();
    AS_TRY(as_cuda_link_launch(&s->link, s->small, e));
    AS_CUDA(e, cudaStreamSynchronize(s->small));
    if (call->extra)
        call->extra[0] = as_launch_host_ns() - begin;
    AS_CUDA(e, cudaStreamSynchronize(s->background));
    return AS_OK;
}

static void finish(void *state) {
    priority_state *s = (priority_state *)state;
    if (!s)
        return;
    if (s->small)
        (void)cudaStreamDestroy(s->small);
    if (s->background)
        (void)cudaStreamDestroy(s->background);
    if (s->running)
        (void)cudaFreeHost((void *)s->running);
    free(s);
}

static as_status make(const as_call *call, priority_state *s, bool loaded, as_error *e) {
    int least = 0, greatest = 0, resident = 0;
    const bool high = strcmp(as_params_text(call->params, "priority"), "high") == 0;
    AS_CUDA(e, cudaDeviceGetStreamPriorityRange(&least, &greatest));
    if (least == greatest)
        return as_fail(e, AS_EABSENT, "streams of this GPU have one priority only");
    AS_CUDA(e, cudaStreamCreateWithPriority(&s->small, cudaStreamNonBlocking, high ? greatest : least));
    AS_CUDA(e, cudaStreamCreateWithPriority(&s->background, cudaStreamNonBlocking, least));
    AS_CUDA(e, cudaHostAlloc((void **)&s->running, sizeof *s->running, cudaHostAllocMapped));
    s->link = as_launch_link_of(call);
    if (!loaded)
        return AS_OK;
    AS_CUDA(e, cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, as_launch_background_kernel, BACKGROUND_THREADS,
                                                             0));
    s->blocks = (unsigned)(WAVES * resident * as_cuda_of(call->device)->properties.multiProcessorCount);
    return s->blocks ? AS_OK : as_fail(e, AS_EABSENT, "this GPU takes no block of %d threads", BACKGROUND_THREADS);
}

static as_status prepare(const as_call *call, bool loaded, void **state, as_error *e) {
    priority_state *s = (priority_state *)calloc(1, sizeof *s);
    if (!s)
        return as_fail(e, AS_ENOMEM, "no memory for the state of a priority case");
    const as_status status = make(call, s, loaded, e);
    if (status != AS_OK)
        finish(s);
    else
        *state = s;
    return status;
}

#define DEFINE_HOOKS(name, loaded)                                                                                     \
    as_status as_launch_priority_##name##_prepare_cuda(const as_call *call, void **state, as_error *e) {               \
        return prepare(call, loaded, state, e);                                                                        \
    }                                                                                                                  \
    void as_launch_priority_##name##_finish_cuda(void *state) { finish(state); }                                       \
    as_status as_launch_priority_##name##_cuda(const as_call *call, as_error *e) { return run(call, e); }

DEFINE_HOOKS(idle, false)
DEFINE_HOOKS(loaded, true)
