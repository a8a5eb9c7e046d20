/* How the host learns that a kernel has ended: launch and wait, `chain` times.
 *
 *   wait_stream       cudaStreamSynchronize
 *   wait_event        cudaEventRecord and cudaEventSynchronize
 *   wait_poll_stream  cudaStreamQuery in a loop
 *   wait_poll_event   cudaEventRecord, cudaEventQuery in a loop
 *   wait_callback     cudaLaunchHostFunc: a thread of the driver sets a flag that the host watches
 *
 * Axis schedule, what the runtime does while it waits: auto (its own choice), spin, yield, blocking (the thread sleeps
 * until an interrupt). For wait_stream that is a property of a context: each case has a context of its own, made with
 * the flag, so that no other case of the worker waits otherwise; an operation then includes two changes of the current
 * context. For wait_event auto is an event that is spun on, blocking one made with cudaEventBlockingSync.
 *
 * Series: wait, the mean from the launch's return (with the event's or the callback's issue) to the end of the wait;
 * cpu_time, what the thread computed for one kernel, launch included: what a wait costs other work on that core. */
#include "launch.cuh"

#include "driver_api.h"

#include <stdlib.h>

typedef enum how { STREAM, EVENT, POLL_STREAM, POLL_EVENT, CALLBACK } how;

typedef struct wait_state {
    how kind;
    const as_cu_api *api; /* NULL: no context of its own */
    as_cu_context own, before;
    cudaStream_t stream;
    cudaEvent_t event;
    uint64_t *cell; /* counter in the context that the kernels run in; the twin's only */
    as_cuda_link link;
    volatile int called;
} wait_state;

static as_status enter(wait_state *s, as_error *e) {
    if (!s->api)
        return AS_OK;
    int code = s->api->context_get(&s->before);
    if (code == 0)
        code = s->api->context_set(s->own);
    return code == 0 ? AS_OK : as_fail_code(e, AS_EFAIL, code, "cuCtxSetCurrent: error %d of the driver", code);
}

static void leave(wait_state *s) {
    if (s->api)
        (void)s->api->context_set(s->before);
}

static void CUDART_CB note(void *context) { ((wait_state *)context)->called = 1; }

/* ---- one wait ---- */

static as_status poll(const wait_state *s, as_error *e) {
    cudaError_t code;
    do
        code = s->kind == POLL_STREAM ? cudaStreamQuery(s->stream) : cudaEventQuery(s->event);
    while (code == cudaErrorNotReady);
    AS_CUDA(e, code);
    return AS_OK;
}

static as_status await(wait_state *s, as_error *e) {
    switch (s->kind) {
    case STREAM: AS_CUDA(e, cudaStreamSynchronize(s->stream)); return AS_OK;
    case EVENT:
        AS_CUDA(e, cudaEventRecord(s->event, s->stream));
        AS_CUDA(e, cudaEventSynchronize(s->event));
        return AS_OK;
    case POLL_EVENT: AS_CUDA(e, cudaEventRecord(s->event, s->stream)); return poll(s, e);
    case POLL_STREAM: return poll(s, e);
    case CALLBACK: {
        const double deadline = as_launch_host_ns() + 10e9;
        s->called = 0;
        AS_CUDA(e, cudaLaunchHostFunc(s->stream, note, s));
        while (!s->called)
            if (as_launch_host_ns() > deadline)
                return as_fail(e, AS_EFAIL, "the callback did not come within 10 s");
        return AS_OK;
    }
    }
    return AS_OK;
}

static double thread_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static as_status cycle(wait_state *s, int64_t chain, double *wait_ns, as_error *e) {
    for (int64_t i = 0; i < chain; i++) {
        AS_TRY(as_cuda_link_launch(&s->link, s->stream, e));
        const double begin = as_launch_host_ns();
        AS_TRY(await(s, e));
        *wait_ns += as_launch_host_ns() - begin;
    }
    return AS_OK;
}

/* The twin: what the kernels counted in their own context, taken away from there. */
static as_status take(const wait_state *s, uint64_t *count, as_error *e) {
    AS_CUDA(e, cudaMemcpyAsync(count, s->cell, sizeof *count, cudaMemcpyDeviceToHost, s->stream));
    AS_CUDA(e, cudaMemsetAsync(s->cell, 0, sizeof *count, s->stream));
    AS_CUDA(e, cudaStreamSynchronize(s->stream));
    return AS_OK;
}

static as_status run(const as_call *call, as_error *e) {
    wait_state *s = (wait_state *)call->state;
    const int64_t chain = as_launch_chain_of(call->params);
    const double cpu = thread_ns();
    double wait_ns = 0;
    uint64_t count = 0;
    AS_TRY(enter(s, e));
    as_status status = cycle(s, chain, &wait_ns, e);
    if (status == AS_OK && s->cell)
        status = take(s, &count, e);
    leave(s);
    AS_TRY(status);
    if (call->extra) {
        call->extra[0] = wait_ns / (double)chain;
        call->extra[1] = (thread_ns() - cpu) / (double)chain;
    }
    return as_launch_credit(call, (int64_t)count, e);
}

/* ---- state ---- */

static void finish(void *state) {
    wait_state *s = (wait_state *)state;
    if (!s)
        return;
    if (!s->api || s->own) {
        const as_status entered = enter(s, NULL);
        if (s->event)
            (void)cudaEventDestroy(s->event);
        if (s->stream)
            (void)cudaStreamDestroy(s->stream);
        if (s->cell)
            (void)cudaFree(s->cell);
        if (entered == AS_OK)
            leave(s);
    }
    if (s->own)
        (void)s->api->context_destroy(s->own);
    free(s);
}

/* In the current context; the first launch loads the kernels there. */
static as_status fill(const as_call *call, wait_state *s, bool blocking_event, as_error *e) {
    AS_CUDA(e, cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking));
    AS_CUDA(e,
            cudaEventCreateWithFlags(&s->event, cudaEventDisableTiming | (blocking_event ? cudaEventBlockingSync : 0)));
    if (call->counter) {
        AS_CUDA(e, cudaMalloc((void **)&s->cell, sizeof *s->cell));
        AS_CUDA(e, cudaMemset(s->cell, 0, sizeof *s->cell));
        AS_CUDA(e, cudaDeviceSynchronize());
    }
    s->link.spin_ns = as_launch_spins(call->params) ? AS_LAUNCH_SPIN_NS : 0;
    s->link.counter = s->cell;
    as_cuda_link first = s->link;
    first.counter = NULL;
    AS_TRY(as_cuda_link_launch(&first, s->stream, e));
    AS_CUDA(e, cudaStreamSynchronize(s->stream));
    return AS_OK;
}

static unsigned flags_of(const char *schedule) {
    return strcmp(schedule, "spin") == 0    ? AS_CU_SCHED_SPIN
           : strcmp(schedule, "yield") == 0 ? AS_CU_SCHED_YIELD
                                            : AS_CU_SCHED_BLOCKING;
}

static as_status make(const as_call *call, wait_state *s, as_error *e) {
    const char *schedule = as_params_text(call->params, "schedule");
    const bool own = s->kind == STREAM && strcmp(schedule, "auto") != 0;
    if (!own)
        return fill(call, s, strcmp(schedule, "blocking") == 0, e);
    int device = 0;
    const as_cu_api *api;
    as_cu_context before;
    AS_TRY(as_cu_open(&api, e));
    int code = api->context_get(&before);
    if (code == 0)
        code = api->device_by_bus(&device, as_cuda_of(call->device)->pci_bus_id);
    if (code == 0)
        code = api->context_create(&s->own, flags_of(schedule), device); /* and makes it current */
    if (code != 0)
        return as_fail_code(e, AS_EABSENT, code, "no further context: error %d of the driver (compute mode?)", code);
    s->api = api;
    const as_status status = fill(call, s, false, e);
    (void)api->context_set(before);
    return status;
}

static as_status prepare(const as_call *call, how kind, void **state, as_error *e) {
    wait_state *s = (wait_state *)calloc(1, sizeof *s);
    if (!s)
        return as_fail(e, AS_ENOMEM, "no memory for the state of a wait");
    s->kind = kind;
    const as_status status = make(call, s, e);
    if (status != AS_OK)
        finish(s);
    else
        *state = s;
    return status;
}

#define DEFINE_HOOKS(name, kind)                                                                                       \
    as_status as_launch_wait_##name##_prepare_cuda(const as_call *call, void **state, as_error *e) {                   \
        return prepare(call, kind, state, e);                                                                          \
    }                                                                                                                  \
    void as_launch_wait_##name##_finish_cuda(void *state) { finish(state); }                                           \
    as_status as_launch_wait_##name##_cuda(const as_call *call, as_error *e) { return run(call, e); }

DEFINE_HOOKS(stream, STREAM)
DEFINE_HOOKS(event, EVENT)
DEFINE_HOOKS(poll_stream, POLL_STREAM)
DEFINE_HOOKS(poll_event, POLL_EVENT)
DEFINE_HOOKS(callback, CALLBACK)
