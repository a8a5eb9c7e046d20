/* Misuse, and what comes back. Nothing here is a performance figure: the series first, second and third hold codes of
 * the CUDA runtime (0: success), or 0 and 1 for what was seen. Each operation ends with a kernel that counts: the device
 * still works. What a context may not survive runs in a fresh process (child_misuse.cu).
 *
 *   misuse                first                         second                        third
 *   capture_global        launch into the captured      cudaMalloc by another thread  end of the capture by another
 *   capture_thread_local  stream by another thread      while the capture is on       thread
 *   capture_relaxed
 *   update_dependencies   cudaGraphExecUpdate from a    new parameters for a kernel   launch of the graph afterwards
 *                         graph with other edges        of the same graph
 *   other_thread          kernel of another thread on   cudaFree by that thread       cudaFree once more
 *                         memory taken here
 *   missing_sync          1: the host read the old      1: after the wait the value   cudaStreamQuery before the wait
 *                         value                         was there
 *   freed_memory, second_context, shared_exec, older_cubin, static_jit: child_misuse.cu */
#include "launch.cuh"

#include "child.h"

#include <pthread.h>
#include <stdlib.h>

enum { LATE_NS = 1000000 };

typedef struct trial {
    const as_call *call;
    double code[3];
} trial;

typedef as_status (*trial_fn)(trial *t, as_error *e);

/* Code of the runtime, which is cleared: a misuse must not be blamed on what comes next. */
static double seen(cudaError_t code) {
    (void)cudaGetLastError();
    return (double)(int)code;
}

static __global__ void as_launch_write_kernel(volatile uint64_t *cell, uint64_t value) { *cell = value; }

/* ---- another thread ---- */

typedef struct errand {
    int ordinal;
    cudaError_t (*fn)(void *context);
    void *context;
    cudaError_t code;
} errand;

static void *on_errand(void *context) {
    errand *x = (errand *)context;
    (void)cudaSetDevice(x->ordinal);
    x->code = x->fn(x->context);
    (void)cudaGetLastError();
    return NULL;
}

/* Does fn on a thread of its own and waits for it. */
static as_status elsewhere(const trial *t, cudaError_t (*fn)(void *context), void *context, double *code, as_error *e) {
    errand x = {as_cuda_of(t->call->device)->ordinal, fn, context, cudaSuccess};
    pthread_t thread;
    if (pthread_create(&thread, NULL, on_errand, &x) != 0)
        return as_fail(e, AS_EENV, "cannot start a thread (a limit on processes?)");
    pthread_join(thread, NULL);
    *code = (double)(int)x.code;
    return AS_OK;
}

/* ---- captures ---- */

typedef struct captured {
    cudaStream_t stream;
    uint64_t *cell;
    cudaGraph_t graph;
} captured;

static cudaError_t launch_into(void *context) {
    const captured *c = (const captured *)context;
    as_launch_write_kernel<<<1, 1, 0, c->stream>>>(c->cell, 1);
    return cudaGetLastError();
}

static cudaError_t take_and_give(void *) {
    void *p = NULL;
    const cudaError_t code = cudaMalloc(&p, 256);
    if (code == cudaSuccess)
        (void)cudaFree(p);
    return code;
}

static cudaError_t end_capture(void *context) {
    captured *c = (captured *)context;
    return cudaStreamEndCapture(c->stream, &c->graph);
}

/* One capture during which another thread does `fn`. It ends here, whatever is left of it. */
static as_status during_capture(const trial *t, captured *c, cudaStreamCaptureMode mode,
                                cudaError_t (*fn)(void *context), double *code, as_error *e) {
    c->graph = NULL;
    AS_CUDA(e, cudaStreamBeginCapture(c->stream, mode));
    const as_status s = elsewhere(t, fn, c, code, e);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    (void)cudaStreamIsCapturing(c->stream, &status);
    if (status != cudaStreamCaptureStatusNone)
        (void)cudaStreamEndCapture(c->stream, &c->graph); /* an invalidated capture gives an error and no graph */
    (void)cudaGetLastError();
    if (c->graph)
        (void)cudaGraphDestroy(c->graph);
    return s;
}

static as_status capture(trial *t, cudaStreamCaptureMode mode, as_error *e) {
    captured c = {NULL, NULL, NULL};
    as_status status = AS_OK;
    AS_CUDA_GOTO(e, status, cudaMalloc((void **)&c.cell, sizeof *c.cell));
    AS_CUDA_GOTO(e, status, cudaStreamCreateWithFlags(&c.stream, cudaStreamNonBlocking));
    status = during_capture(t, &c, mode, launch_into, &t->code[0], e);
    if (status == AS_OK)
        status = during_capture(t, &c, mode, take_and_give, &t->code[1], e);
    if (status == AS_OK)
        status = during_capture(t, &c, mode, end_capture, &t->code[2], e);
out:
    if (c.stream)
        (void)cudaStreamDestroy(c.stream);
    if (c.cell)
        (void)cudaFree(c.cell);
    return status;
}

static as_status capture_global(trial *t, as_error *e) { return capture(t, cudaStreamCaptureModeGlobal, e); }
static as_status capture_thread_local(trial *t, as_error *e) { return capture(t, cudaStreamCaptureModeThreadLocal, e); }
static as_status capture_relaxed(trial *t, as_error *e) { return capture(t, cudaStreamCaptureModeRelaxed, e); }

/* ---- changes of a graph ---- */

/* Three kernels: one after the other, or the last two side by side. `last` is the third. */
static as_status three_kernels(uint64_t *cell, bool side_by_side, cudaGraph_t *graph, cudaGraphNode_t *last,
                               as_error *e) {
    uint64_t value = 1;
    void *arguments[] = {&cell, &value};
    cudaKernelNodeParams params = {};
    cudaGraphNode_t node[3];
    params.func = (void *)as_launch_write_kernel;
    params.gridDim = params.blockDim = dim3(1, 1, 1);
    params.kernelParams = arguments;
    AS_CUDA(e, cudaGraphCreate(graph, 0));
    for (int i = 0; i < 3; i++)
        AS_CUDA(e, cudaGraphAddKernelNode(&node[i], *graph, i ? &node[side_by_side ? 0 : i - 1] : NULL, i ? 1 : 0,
                                          &params));
    *last = node[2];
    return AS_OK;
}

static as_status change(trial *t, uint64_t *cell, cudaGraph_t graph[2], cudaGraphExec_t *exec, as_error *e) {
    cudaGraphNode_t last, other;
    cudaGraphExecUpdateResultInfo info;
    cudaStream_t stream = as_cuda_stream(t->call->stream);
    AS_TRY(three_kernels(cell, false, &graph[0], &last, e));
    AS_TRY(three_kernels(cell, true, &graph[1], &other, e));
    AS_CUDA(e, as_cuda_instantiate(exec, graph[0]));
    t->code[0] = seen(cudaGraphExecUpdate(*exec, graph[1], &info));
    uint64_t value = 2;
    void *arguments[] = {&cell, &value};
    cudaKernelNodeParams params = {};
    params.func = (void *)as_launch_write_kernel;
    params.gridDim = params.blockDim = dim3(1, 1, 1);
    params.kernelParams = arguments;
    t->code[1] = seen(cudaGraphExecKernelNodeSetParams(*exec, last, &params));
    t->code[2] = seen(cudaGraphLaunch(*exec, stream));
    AS_CUDA(e, cudaStreamSynchronize(stream));
    return AS_OK;
}

static as_status update_dependencies(trial *t, as_error *e) {
    uint64_t *cell = NULL;
    cudaGraph_t graph[2] = {NULL, NULL};
    cudaGraphExec_t exec = NULL;
    AS_CUDA(e, cudaMalloc((void **)&cell, sizeof *cell));
    const as_status s = change(t, cell, graph, &exec, e);
    if (exec)
        (void)cudaGraphExecDestroy(exec);
    for (int i = 0; i < 2; i++)
        if (graph[i])
            (void)cudaGraphDestroy(graph[i]);
    (void)cudaFree(cell);
    return s;
}

/* ---- memory of another thread ---- */

static cudaError_t use(void *context) {
    as_launch_write_kernel<<<1, 1>>>((volatile uint64_t *)context, 1);
    const cudaError_t code = cudaGetLastError();
    return code == cudaSuccess ? cudaStreamSynchronize(cudaStreamLegacy) : code;
}

static cudaError_t give(void *context) { return cudaFree(context); }

static as_status other_thread(trial *t, as_error *e) {
    void *cell = NULL;
    AS_CUDA(e, cudaMalloc(&cell, sizeof(uint64_t)));
    as_status s = elsewhere(t, use, cell, &t->code[0], e);
    if (s == AS_OK)
        s = elsewhere(t, give, cell, &t->code[1], e);
    if (s == AS_OK)
        t->code[2] = seen(cudaFree(cell));
    if (s != AS_OK || (t->code[1] != 0 && t->code[2] != 0))
        (void)cudaFree(cell);
    return s;
}

/* ---- a read without the wait before it ---- */

static as_status read_early(trial *t, uint64_t *device, volatile uint64_t *host, as_error *e) {
    cudaStream_t stream = as_cuda_stream(t->call->stream);
    const as_cuda_link late = {LATE_NS, NULL};
    AS_CUDA(e, cudaStreamSynchronize(stream));
    *host = 1;
    AS_TRY(as_cuda_link_launch(&late, stream, e));
    as_launch_write_kernel<<<1, 1, 0, stream>>>(device, 2);
    AS_CUDA_LAUNCHED(e);
    AS_CUDA(e, cudaMemcpyAsync((void *)host, device, sizeof *host, cudaMemcpyDeviceToHost, stream));
    t->code[0] = *host == 1;
    t->code[2] = seen(cudaStreamQuery(stream));
    AS_CUDA(e, cudaStreamSynchronize(stream));
    t->code[1] = *host == 2;
    return AS_OK;
}

static as_status missing_sync(trial *t, as_error *e) {
    uint64_t *device = NULL;
    void *host = NULL;
    AS_CUDA(e, cudaMallocHost(&host, sizeof(uint64_t)));
    as_status s = AS_OK;
    AS_CUDA_GOTO(e, s, cudaMalloc((void **)&device, sizeof *device));
    s = read_early(t, device, (volatile uint64_t *)host, e);
out:
    if (device)
        (void)cudaFree(device);
    (void)cudaFreeHost(host);
    return s;
}

/* ---- the table ---- */

static const struct misuse {
    const char *name;
    trial_fn here; /* NULL: in a fresh process, whose mode has the same name */
} misuses[] = {
#define HERE_0(name) name
#define HERE_1(name) NULL
#define ROW(name, fresh) {#name, HERE_##fresh(name)},
    AS_LAUNCH_MISUSES(ROW)
#undef ROW
};

as_status as_launch_misuse_prepare_cuda(const as_call *call, void **state, as_error *e) {
    const char *name = as_params_text(call->params, "misuse");
    if (strcmp(name, "older_cubin") == 0 && as_cuda_of(call->device)->properties.major <= 7)
        return as_fail(e, AS_EABSENT, "the older machine code is of compute capability 7.5, which this GPU may run");
    for (size_t i = 0; i < sizeof misuses / sizeof *misuses; i++)
        if (strcmp(misuses[i].name, name) == 0)
            *state = (void *)&misuses[i];
    return *state ? AS_OK : as_fail(e, AS_EUSAGE, "there is no misuse '%s'", name);
}

void as_launch_misuse_finish_cuda(void *) {}

static as_status in_child(const char *name, trial *t, as_error *e) {
    static const as_child_setting settings[] = {
        {"CUDA_MODULE_LOADING", NULL}, {"CUDA_CACHE_DISABLE", "1"}, {NULL, NULL}};
    as_child_report report;
    AS_TRY(as_child_run(as_cuda_of(t->call->device)->pci_bus_id, name, "-", settings, &report, e));
    if (!report.done && !report.signal)
        return as_fail(e, AS_EFAIL, "in a fresh process: %.180s", report.message);
    for (int i = 0; i < 3; i++) /* a signal is what came back, as its negative */
        t->code[i] = report.signal ? -report.signal : report.value[i];
    return AS_OK;
}

as_status as_launch_misuse_cuda(const as_call *call, as_error *e) {
    const struct misuse *m = (const struct misuse *)call->state;
    trial t = {call, {0, 0, 0}};
    AS_TRY(m->here ? m->here(&t, e) : in_child(m->name, &t, e));
    for (int i = 0; i < 3 && call->extra; i++)
        call->extra[i] = t.code[i];
    as_cuda_link after = {0, call->counter}; /* the device still works */
    AS_TRY(as_cuda_link_launch(&after, as_cuda_stream(call->stream), e));
    AS_CUDA(e, cudaStreamSynchronize(as_cuda_stream(call->stream)));
    return AS_OK;
}
