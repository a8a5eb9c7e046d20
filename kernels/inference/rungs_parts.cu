/* The breakdown of one operation on the device.
 *
 *   eager_naive, eager   CUDA events before each kernel. A part is the time to the next event: the kernel and, where
 *                        the host is late, the wait for it.
 *   graph, fused         a graph captured for this pass under CUPTI: when each kernel began and ended. What lies
 *                        between the end of all kernels so far and the beginning of the next is a part of its own,
 *                        gap/<stage of the next>. A kernel that starts before the ones before it have ended only waits
 *                        until then: its part begins at their end. Without CUPTI: event nodes between the kernels of
 *                        that graph.
 *   persistent           the clock of the whole GPU, read by block 0 after each barrier and by the last block at the
 *                        end.
 *
 * The parts close against the time from an event before the operation to one after it. eager_naive, which the host
 * times, has the host's parts beside: tokens in, logits out, the choice. */
#include "rungs_marks.cuh"

#include "../cuda/cupti.h"

#include <stdlib.h>
#include <string.h>

/* Issues the pass with events around it: eagerly, or as a graph with event nodes. */
static as_status by_events(as_decoder *d, bool graph, cudaStream_t stream, as_parts *parts, double *ns, as_error *e) {
    as_recorder r;
    cudaGraphExec_t exec = NULL;
    as_status status = AS_OK;
    AS_TRY(as_recorder_init(&r, d, true, graph ? cudaEventRecordExternal : cudaEventRecordDefault, stream, e));
    if (graph)
        AS_CUDA_GOTO(e, status, cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    status = as_decoder_issue(d, stream, e);
    if (status == AS_OK) {
        const cudaError_t code = cudaEventRecordWithFlags(r.event[r.n], stream, r.flags);
        if (code != cudaSuccess)
            status = as_cuda_fail_at(e, __FILE__, __LINE__, code, "cudaEventRecordWithFlags");
    }
    if (graph) {
        status = as_rung_end_capture(stream, status, &exec, e);
        if (status == AS_OK)
            AS_CUDA_GOTO(e, status, cudaGraphLaunch(exec, stream));
    }
    if (status == AS_OK)
        AS_CUDA_GOTO(e, status, cudaStreamSynchronize(stream));
    if (status == AS_OK)
        status = as_recorder_add_events(&r, parts, ns, e);
out:
    if (exec)
        (void)cudaGraphExecDestroy(exec);
    as_recorder_free(&r);
    return status;
}

/* ---- by CUPTI ---- */

/* Kernels of ours have "as_" after the length that C++ puts before a name. */
static bool is_ours(const char *name) {
    for (const char *at = strstr(name, "as_"); at; at = strstr(at + 1, "as_"))
        if (at == name || (at[-1] >= '0' && at[-1] <= '9'))
            return true;
    return false;
}

/* The mark that kernel `k` belongs to, given the one of the kernel before it (-1: none). A product of the library may
 * be several kernels. -1: the marks do not explain it. */
static int mark_of(const as_recorder *r, int before, const as_kernel_time *k) {
    const int next = before + 1;
    const bool ours = is_ours(k->name), library = next < r->n && as_mark_is_library(&r->mark[next]);
    if (next < r->n && ours != library)
        return next;
    return !ours && before >= 0 && as_mark_is_library(&r->mark[before]) ? before : -1;
}

static bool explains(const as_recorder *r, const as_kernel_time *kernel, int64_t n) {
    int at = -1;
    for (int64_t i = 0; i < n; i++)
        if ((at = mark_of(r, at, &kernel[i])) < 0)
            return false;
    return at == r->n - 1;
}

static void add_kernels(const as_recorder *r, const as_kernel_time *kernel, int64_t n, as_parts *parts) {
    int at = -1;
    uint64_t end_ns = n > 0 ? kernel[0].begin_ns : 0; /* of all kernels so far */
    for (int64_t i = 0; i < n;) {
        uint64_t ran_ns = 0, gap_ns = 0;
        const int mark = mark_of(r, at, &kernel[i]);
        at = mark;
        do { /* all kernels of the mark */
            const as_kernel_time *k = &kernel[i++];
            if (k->begin_ns > end_ns)
                gap_ns += k->begin_ns - end_ns;
            const uint64_t from = k->begin_ns > end_ns ? k->begin_ns : end_ns;
            if (k->end_ns > from)
                ran_ns += k->end_ns - from;
            end_ns = k->end_ns > end_ns ? k->end_ns : end_ns;
        } while (i < n && mark_of(r, at, &kernel[i]) == at);
        if (gap_ns > 0)
            as_mark_add_gap(parts, &r->mark[mark], "cupti", (double)gap_ns);
        as_mark_add(parts, &r->mark[mark], "cupti", (double)ran_ns);
    }
}

/* The pass captured anew, launched between two events. */
static as_status trace(as_decoder *d, const cudaEvent_t *event, cudaStream_t stream, as_error *e) {
    cudaGraphExec_t exec = NULL;
    as_status status = AS_OK;
    AS_CUDA(e, cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    status = as_decoder_issue(d, stream, e);
    status = as_rung_end_capture(stream, status, &exec, e);
    if (status == AS_OK) {
        AS_CUDA_GOTO(e, status, cudaEventRecord(event[0], stream));
        AS_CUDA_GOTO(e, status, cudaGraphLaunch(exec, stream));
        AS_CUDA_GOTO(e, status, cudaEventRecord(event[1], stream));
        AS_CUDA_GOTO(e, status, cudaStreamSynchronize(stream));
    }
out:
    if (exec)
        (void)cudaGraphExecDestroy(exec);
    return status;
}

/* *done is false where CUPTI is not there or its records do not fit the marks: nothing was added then. */
static as_status by_cupti(as_decoder *d, cudaStream_t stream, as_parts *parts, double *ns, bool *done, as_error *e) {
    as_recorder r;
    as_kernel_time *kernel = NULL;
    int64_t n = 0;
    cudaEvent_t event[2] = {};
    float ms = 0;
    as_error absent;
    as_status status = AS_OK, traced = AS_OK;
    *done = false;
    if (as_cupti_start(&absent) != AS_OK)
        return AS_OK;
    status = as_recorder_init(&r, d, false, 0, stream, e);
    for (int i = 0; i < 2 && status == AS_OK; i++)
        AS_CUDA_GOTO(e, status, cudaEventCreate(&event[i]));
    if (status == AS_OK)
        status = trace(d, event, stream, e);
out:
    traced = as_cupti_stop(&kernel, &n, &absent);
    if (status == AS_OK && traced == AS_OK && explains(&r, kernel, n) &&
        cudaEventElapsedTime(&ms, event[0], event[1]) == cudaSuccess) {
        add_kernels(&r, kernel, n, parts);
        *ns += 1e6 * (double)ms;
        *done = true;
    }
    for (int i = 0; i < 2; i++)
        if (event[i])
            (void)cudaEventDestroy(event[i]);
    free(kernel);
    as_recorder_free(&r);
    return status;
}

/* ---- by the kernel's own stamps ---- */

static as_status add_stamps(as_decoder *d, const uint64_t *stamp, as_parts *parts) {
    static const as_decoder_stage in_layer[] = {AS_S_QKV, AS_S_ATTENTION, AS_S_O, AS_S_GATE_UP, AS_S_DOWN};
    enum { IN_LAYER = 5 };
    as_mark_cuda m = {d, AS_S_EMBED, -1};
    int at = 0;
    as_mark_add(parts, &m, "stamps", (double)(stamp[1] - stamp[0]));
    for (m.layer = 0, at = 1; m.layer < d->m->layers; m.layer++)
        for (int i = 0; i < IN_LAYER; i++, at++) {
            m.stage = in_layer[i];
            as_mark_add(parts, &m, "stamps", (double)(stamp[at + 1] - stamp[at]));
        }
    m.stage = AS_S_HEAD;
    m.layer = -1;
    as_mark_add(parts, &m, "stamps", (double)(stamp[at + 1] - stamp[at]));
    return AS_OK;
}

static as_status by_stamps(as_decoder *d, cudaStream_t stream, as_parts *parts, double *ns, as_error *e) {
    const size_t bytes = (size_t)(3 + 5 * d->m->layers) * sizeof(uint64_t);
    cudaEvent_t event[2] = {};
    float ms = 0;
    as_status status = AS_OK;
    uint64_t *const stamp = (uint64_t *)malloc(bytes);
    if (!stamp)
        return as_fail(e, AS_ENOMEM, "no memory for a breakdown");
    AS_CUDA_GOTO(e, status, cudaMalloc((void **)&d->stamp, bytes));
    for (int i = 0; i < 2; i++)
        AS_CUDA_GOTO(e, status, cudaEventCreate(&event[i]));
    AS_CUDA_GOTO(e, status, cudaEventRecord(event[0], stream));
    status = as_decoder_issue(d, stream, e);
    if (status == AS_OK) {
        AS_CUDA_GOTO(e, status, cudaEventRecord(event[1], stream));
        AS_CUDA_GOTO(e, status, cudaStreamSynchronize(stream));
        AS_CUDA_GOTO(e, status, cudaEventElapsedTime(&ms, event[0], event[1]));
        AS_CUDA_GOTO(e, status, cudaMemcpy(stamp, d->stamp, bytes, cudaMemcpyDeviceToHost));
        *ns += 1e6 * (double)ms;
        status = add_stamps(d, stamp, parts);
    }
out:
    if (d->stamp)
        (void)cudaFree(d->stamp);
    d->stamp = NULL;
    for (int i = 0; i < 2; i++)
        if (event[i])
            (void)cudaEventDestroy(event[i]);
    free(stamp);
    return status;
}

static as_status add_pass(as_rung_state *s, as_decoder *d, cudaStream_t stream, as_parts *parts, double *ns,
                          as_error *e) {
    const bool graph = s->rung == AS_RUNG_GRAPH || s->rung == AS_RUNG_FUSED;
    bool done = false;
    if (s->rung == AS_RUNG_PERSISTENT && d->row_tokens == 1)
        return by_stamps(d, stream, parts, ns, e);
    if (graph)
        AS_TRY(by_cupti(d, stream, parts, ns, &done, e));
    return done ? AS_OK : by_events(d, graph, stream, parts, ns, e);
}

/* ---- an operation ---- */

static as_status device_operation(as_rung_state *s, cudaStream_t stream, as_parts *parts, as_error *e) {
    double ns = 0;
    const int64_t steps = s->step.phase == AS_PHASE_GENERATE ? s->step.tokens : 1;
    for (int64_t i = 0; i < steps; i++) {
        as_decoder *const d = s->prefill && i == 0 ? s->prefill : s->decode;
        const as_mark_cuda m = {d, AS_S_HEAD, -1};
        AS_TRY(add_pass(s, d, stream, parts, &ns, e));
        if (s->step.phase == AS_PHASE_GENERATE) {
            const int64_t begin = as_parts_now_ns();
            AS_TRY(as_rung_choose(s, d, stream, e));
            AS_CUDA(e, cudaStreamSynchronize(stream));
            const double choose_ns = (double)(as_parts_now_ns() - begin);
            as_mark_add_other(parts, &m, "sample", "device", "clock", choose_ns);
            ns += choose_ns;
        }
    }
    as_parts_total(parts, ns);
    return AS_OK;
}

/* As naive_pass of rungs_run.cu, with a clock between its stages. */
static as_status naive_operation(as_rung_state *s, cudaStream_t stream, as_parts *parts, as_error *e) {
    as_decoder *const d = s->prefill ? s->prefill : s->decode;
    const as_mark_cuda m = {d, AS_S_HEAD, -1};
    double device_ns = 0;
    const int64_t begin = as_parts_now_ns();
    AS_TRY(as_rung_naive_tokens_in(s, d, s->host_token, stream, e));
    AS_CUDA(e, cudaStreamSynchronize(stream));
    const int64_t in = as_parts_now_ns();
    AS_TRY(by_events(d, false, stream, parts, &device_ns, e));
    const int64_t out = as_parts_now_ns();
    AS_TRY(as_rung_naive_logits_out(s, d, stream, e));
    const int64_t sample = as_parts_now_ns();
    as_rung_naive_choose(s, 0);
    const int64_t end = as_parts_now_ns();
    as_mark_add_other(parts, &m, "tokens_in", "host", "clock", (double)(in - begin));
    as_mark_add_other(parts, &m, "logits_out", "host", "clock", (double)(sample - out));
    as_mark_add_other(parts, &m, "sample", "host", "clock", (double)(end - sample));
    as_parts_total(parts, (double)(in - begin) + device_ns + (double)(end - out));
    return AS_OK;
}

/* Of a generation eager_naive shows the prefill. */
as_status as_rung_breakdown(const as_call *call, as_parts *parts, as_error *e) {
    as_rung_state *const s = (as_rung_state *)call->state;
    const cudaStream_t stream = as_cuda_stream(call->stream);
    return s->rung == AS_RUNG_NAIVE ? naive_operation(s, stream, parts, e) : device_operation(s, stream, parts, e);
}
