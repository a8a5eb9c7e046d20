/* What a copy costs beside the work that needs it.
 *
 *   resident, resend  `uses` uses of n bytes, sent once or for each. A use is a kernel that reads the bytes where they
 *                     lie and writes them to the output: 2 n over device memory. Predicted ratio: towards
 *                     (link + use) / use as the uses grow
 *   overlap           a copy on one stream beside a kernel of the same length on another, after both were timed alone:
 *                     hidden = (copy + kernel - both) / the shorter of the two, 1000 permille when nothing of it shows.
 *                     `issue` is the host time inside cudaMemcpyAsync: from pageable memory nearly the copy's */
#include "memcpy.h"

#include "../cuda/check.h"
#include "../cuda/internal.h"
#include "copy.h"

#include <stdlib.h>

/* ---- resident, resend ---- */

static as_status prepare_buffer(const as_call *call, void **state, as_error *e) {
    *state = NULL;
    AS_CUDA(e, cudaMalloc(state, (size_t)as_params_int(call->params, "bytes")));
    return AS_OK;
}

static void finish_buffer(void *state) {
    if (state)
        (void)cudaFree(state);
}

static as_status use_again(const as_call *call, bool send_each, as_error *e) {
    const size_t bytes = (size_t)as_params_int(call->params, "bytes");
    const int64_t uses = as_params_int(call->params, "uses");
    cudaStream_t stream = as_cuda_stream(call->stream);
    for (int64_t i = 0; i < uses; i++) {
        if (i == 0 || send_each)
            AS_CUDA(e, cudaMemcpyAsync(call->state, call->operand[0], bytes, cudaMemcpyHostToDevice, stream));
        AS_TRY(as_memcpy_launch_copy(call->operand[1], call->state, bytes, stream, e));
    }
    return AS_OK;
}

as_status as_memcpy_resident_prepare_cuda(const as_call *call, void **state, as_error *e) {
    return prepare_buffer(call, state, e);
}
as_status as_memcpy_resend_prepare_cuda(const as_call *call, void **state, as_error *e) {
    return prepare_buffer(call, state, e);
}
void as_memcpy_resident_finish_cuda(void *state) { finish_buffer(state); }
void as_memcpy_resend_finish_cuda(void *state) { finish_buffer(state); }
as_status as_memcpy_resident_cuda(const as_call *call, as_error *e) { return use_again(call, false, e); }
as_status as_memcpy_resend_cuda(const as_call *call, as_error *e) { return use_again(call, true, e); }

/* ---- overlap ---- */

enum { BUSY_THREADS = 256, FIRST_STEPS = 4096, MOST_STEPS = 1 << 30 };

/* Arithmetic in registers on every multiprocessor; the store never happens, but the compiler cannot know. */
static __global__ void __launch_bounds__(BUSY_THREADS) as_memcpy_busy_kernel(int steps, float *never) {
    float x = (float)threadIdx.x;
    for (int i = 0; i < steps; i++)
        x = fmaf(x, 0.5f, 1.0f);
    if (x < 0)
        *never = x;
}

typedef struct overlap {
    cudaStream_t side;
    cudaEvent_t begin, end, side_end;
    unsigned blocks;
    int steps;
    size_t bytes;
} overlap;

typedef struct timed {
    double ns, issue_ns; /* device; host inside the call of the copy */
} timed;

static as_status issue_copy(const overlap *s, const as_call *call, double *issue_ns, as_error *e) {
    const double begin = as_request_now_ns();
    AS_CUDA(e, cudaMemcpyAsync(call->operand[1], call->operand[0], s->bytes, cudaMemcpyDefault,
                               as_cuda_stream(call->stream)));
    *issue_ns = as_request_now_ns() - begin;
    return AS_OK;
}

/* The copy, the kernel or both between two events of the case's stream. The kernel goes first: the call of a copy from
 * pageable memory does not return before it is nearly over. */
static as_status time_of(const overlap *s, const as_call *call, bool copy, bool kernel, timed *out, as_error *e) {
    cudaStream_t stream = as_cuda_stream(call->stream);
    float ms = 0;
    AS_CUDA(e, cudaEventRecord(s->begin, stream));
    if (kernel) {
        AS_CUDA(e, cudaStreamWaitEvent(s->side, s->begin, 0));
        as_memcpy_busy_kernel<<<s->blocks, BUSY_THREADS, 0, s->side>>>(s->steps, (float *)call->operand[1]);
        AS_CUDA_LAUNCHED(e);
        AS_CUDA(e, cudaEventRecord(s->side_end, s->side));
    }
    if (copy)
        AS_TRY(issue_copy(s, call, &out->issue_ns, e));
    if (kernel)
        AS_CUDA(e, cudaStreamWaitEvent(stream, s->side_end, 0));
    AS_CUDA(e, cudaEventRecord(s->end, stream));
    AS_CUDA(e, cudaStreamSynchronize(stream));
    AS_CUDA(e, cudaEventElapsedTime(&ms, s->begin, s->end));
    out->ns = (double)ms * 1e6;
    return AS_OK;
}

/* Steps for which the kernel takes as long as the copy: one measured guess, then its proportion, twice. */
static as_status choose_steps(overlap *s, const as_call *call, as_error *e) {
    timed copy = {0, 0}, kernel = {0, 0};
    for (int i = 0; i < 2; i++)
        AS_TRY(time_of(s, call, true, false, &copy, e));
    s->steps = FIRST_STEPS;
    AS_TRY(time_of(s, call, false, true, &kernel, e));
    for (int i = 0; i < 3; i++) {
        AS_TRY(time_of(s, call, false, true, &kernel, e));
        const double steps = s->steps * copy.ns / kernel.ns;
        s->steps = steps < 1 ? 1 : steps > MOST_STEPS ? MOST_STEPS : (int)steps;
    }
    return AS_OK;
}

void as_memcpy_overlap_finish_cuda(void *state) {
    overlap *s = (overlap *)state;
    if (!s)
        return;
    if (s->begin)
        (void)cudaEventDestroy(s->begin);
    if (s->end)
        (void)cudaEventDestroy(s->end);
    if (s->side_end)
        (void)cudaEventDestroy(s->side_end);
    if (s->side)
        (void)cudaStreamDestroy(s->side);
    free(s);
}

static as_status make(overlap *s, const as_call *call, as_error *e) {
    s->bytes = (size_t)as_params_int(call->params, "bytes");
    s->blocks = (unsigned)as_cuda_of(call->device)->properties.multiProcessorCount;
    AS_CUDA(e, cudaStreamCreateWithFlags(&s->side, cudaStreamNonBlocking));
    AS_CUDA(e, cudaEventCreate(&s->begin));
    AS_CUDA(e, cudaEventCreate(&s->end));
    AS_CUDA(e, cudaEventCreate(&s->side_end));
    return choose_steps(s, call, e);
}

as_status as_memcpy_overlap_prepare_cuda(const as_call *call, void **state, as_error *e) {
    overlap *s = (overlap *)calloc(1, sizeof *s);
    *state = NULL;
    if (!s)
        return as_fail(e, AS_ENOMEM, "no memory for the state of memcpy/overlap");
    const as_status status = make(s, call, e);
    if (status != AS_OK)
        as_memcpy_overlap_finish_cuda(s);
    else
        *state = s;
    return status;
}

as_status as_memcpy_overlap_cuda(const as_call *call, as_error *e) {
    const overlap *s = (const overlap *)call->state;
    timed copy = {0, 0}, kernel = {0, 0}, both = {0, 0};
    AS_TRY(time_of(s, call, true, false, &copy, e));
    AS_TRY(time_of(s, call, false, true, &kernel, e));
    AS_TRY(time_of(s, call, true, true, &both, e));
    const double shorter = copy.ns < kernel.ns ? copy.ns : kernel.ns;
    if (call->own_ns)
        *call->own_ns = both.ns;
    if (call->extra) {
        call->extra[0] = copy.ns;
        call->extra[1] = 1000 * (copy.ns + kernel.ns - both.ns) / shorter;
        call->extra[2] = both.issue_ns;
    }
    return AS_OK;
}
