#include "lanes.h"

#include "../cuda/check.h"
#include "../cuda/internal.h"
#include "copy.h"

#include <stdlib.h>

enum { POISON = 0xFF };
static const unsigned long long latch_limit_ns = 2000000000ull;

/* ---- the latch ---- */

static __device__ __forceinline__ unsigned long long global_ns() {
    unsigned long long t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}

/* Gives up after `limit_ns`: a stream that could not be filled before the latch must not hang the device. */
static __global__ void as_memcpy_latch_kernel(volatile int *latch, unsigned long long limit_ns) {
    const unsigned long long begin = global_ns();
    while (!latch[0])
        if (global_ns() - begin > limit_ns) {
            latch[1] = 1;
            return;
        }
}

/* ---- making ---- */

as_status as_lanes_create(as_lanes **out, const as_call *call, as_lanes_time time, as_error *e) {
    as_lanes *s = (as_lanes *)calloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        return as_fail(e, AS_ENOMEM, "no memory for the lanes of a copy");
    s->own = as_cuda_of(call->device)->ordinal;
    s->time = time;
    s->by_kernel = strcmp(as_params_text(call->params, "by"), "sm") == 0;
    as_status status = AS_OK;
    void *latch = NULL;
    AS_CUDA_GOTO(e, status, cudaHostAlloc(&latch, 2 * sizeof(int), cudaHostAllocPortable | cudaHostAllocMapped));
    s->latch = (volatile int *)latch;
    AS_CUDA_GOTO(e, status, cudaEventCreate(&s->all_end));
    *out = s;
    s = NULL;
out:
    as_lanes_destroy(s);
    return status;
}

void as_lanes_destroy(as_lanes *s) {
    if (!s)
        return;
    for (int i = 0; i < s->lanes; i++) {
        as_lane *l = &s->lane[i];
        (void)cudaSetDevice(l->ordinal);
        if (l->begin)
            (void)cudaEventDestroy(l->begin);
        if (l->end)
            (void)cudaEventDestroy(l->end);
        if (l->stream)
            (void)cudaStreamDestroy(l->stream);
    }
    for (int i = 0; i < s->buffers; i++) {
        const int where = s->buffer[i].where;
        (void)cudaSetDevice(where == AS_MEMCPY_HOST ? s->own : where);
        (void)(where == AS_MEMCPY_HOST ? cudaFreeHost(s->buffer[i].at) : cudaFree(s->buffer[i].at));
    }
    (void)cudaSetDevice(s->own);
    if (s->all_end)
        (void)cudaEventDestroy(s->all_end);
    if (s->latch)
        (void)cudaFreeHost((void *)s->latch);
    free(s);
}

static as_status allocate(int where, size_t bytes, void **out, as_error *e) {
    if (where == AS_MEMCPY_HOST)
        AS_CUDA(e, cudaHostAlloc(out, bytes, cudaHostAllocPortable | cudaHostAllocMapped));
    else {
        AS_CUDA(e, cudaSetDevice(where));
        AS_CUDA(e, cudaMalloc(out, bytes));
    }
    return AS_OK;
}

as_status as_lanes_buffer(as_lanes *s, int where, size_t bytes, const void *fill, void **out, as_error *e) {
    *out = NULL;
    if (s->buffers == AS_MEMCPY_BUFFERS)
        return as_fail(e, AS_EUSAGE, "more than %d buffers in one operation: fewer GPUs", AS_MEMCPY_BUFFERS);
    const as_status status = allocate(where, bytes, out, e);
    (void)cudaSetDevice(s->own);
    AS_TRY(status);
    s->buffer[s->buffers].where = where;
    s->buffer[s->buffers++].at = *out;
    if (fill)
        AS_CUDA(e, cudaMemcpy(*out, fill, bytes, cudaMemcpyDefault));
    else if (where == AS_MEMCPY_HOST)
        memset(*out, 1, bytes);
    AS_CUDA(e, cudaDeviceSynchronize());
    return AS_OK;
}

as_status as_lanes_add(as_lanes *s, int ordinal, void *dst, const void *src, size_t bytes, bool measured, as_error *e) {
    as_status status = AS_OK;
    if (s->lanes == AS_MEMCPY_LANES)
        return as_fail(e, AS_EUSAGE, "more than %d copies at once: fewer GPUs", AS_MEMCPY_LANES);
    as_lane *l = &s->lane[s->lanes++];
    l->ordinal = ordinal;
    l->src = src;
    l->dst = dst;
    l->bytes = bytes;
    l->measured = measured;
    l->before = measured ? 1 : 4; /* traffic lasts until all is measured, also where it runs twice as fast */
    AS_CUDA_GOTO(e, status, cudaSetDevice(ordinal));
    AS_CUDA_GOTO(e, status, cudaStreamCreateWithFlags(&l->stream, cudaStreamNonBlocking));
    AS_CUDA_GOTO(e, status, cudaEventCreate(&l->begin));
    AS_CUDA_GOTO(e, status, cudaEventCreate(&l->end));
out:
    (void)cudaSetDevice(s->own);
    return status;
}

/* ---- one operation ---- */

static as_status copies(const as_lanes *s, const as_lane *l, int count, as_error *e) {
    for (int i = 0; i < count; i++) {
        if (!s->by_kernel)
            AS_CUDA(e, cudaMemcpyAsync(l->dst, l->src, l->bytes, cudaMemcpyDefault, l->stream));
        else if (l->back_src)
            AS_TRY(as_memcpy_launch_both(l->dst, l->src, l->back_dst, l->back_src, l->bytes, l->stream, e));
        else
            AS_TRY(as_memcpy_launch_copy(l->dst, l->src, l->bytes, l->stream, e));
    }
    return AS_OK;
}

static as_status block(const as_lanes *s, const void *output, as_error *e) {
    for (int i = 0; i < s->lanes; i++) {
        const as_lane *l = &s->lane[i];
        AS_CUDA(e, cudaSetDevice(l->ordinal));
        if (l->measured && l->dst != output)
            AS_CUDA(e, cudaMemsetAsync(l->dst, POISON, l->bytes, l->stream));
        as_memcpy_latch_kernel<<<1, 1, 0, l->stream>>>(s->latch, latch_limit_ns);
        AS_CUDA_LAUNCHED(e);
        AS_TRY(copies(s, l, l->before, e));
    }
    return AS_OK;
}

static as_status measured(const as_lanes *s, as_error *e) {
    const as_lane *first = &s->lane[0];
    for (int i = 0; i < s->lanes; i++) {
        const as_lane *l = &s->lane[i];
        if (!l->measured)
            continue;
        AS_CUDA(e, cudaSetDevice(l->ordinal));
        if (i > 0)
            AS_CUDA(e, cudaStreamWaitEvent(l->stream, first->begin, 0));
        AS_CUDA(e, cudaEventRecord(l->begin, l->stream));
    }
    for (int i = 0; i < s->lanes; i++) {
        const as_lane *l = &s->lane[i];
        if (!l->measured)
            continue;
        AS_CUDA(e, cudaSetDevice(l->ordinal));
        AS_TRY(copies(s, l, 1, e));
        AS_CUDA(e, cudaEventRecord(l->end, l->stream));
        AS_TRY(copies(s, l, l->after, e));
    }
    return AS_OK;
}

/* The end of all measured lanes, on the stream of lane 0. */
static as_status join(const as_lanes *s, as_error *e) {
    const as_lane *first = &s->lane[0];
    AS_CUDA(e, cudaSetDevice(first->ordinal));
    for (int i = 1; i < s->lanes; i++)
        if (s->lane[i].measured)
            AS_CUDA(e, cudaStreamWaitEvent(first->stream, s->lane[i].end, 0));
    AS_CUDA(e, cudaEventRecord(s->all_end, first->stream));
    return AS_OK;
}

static as_status issue(const as_lanes *s, const void *output, as_error *e) {
    AS_TRY(block(s, output, e));
    AS_TRY(measured(s, e));
    return s->time == AS_LANES_ALL ? join(s, e) : AS_OK;
}

static as_status wait(const as_lanes *s, as_error *e) {
    for (int i = 0; i < s->lanes; i++) {
        AS_CUDA(e, cudaSetDevice(s->lane[i].ordinal));
        AS_CUDA(e, cudaStreamSynchronize(s->lane[i].stream));
    }
    return AS_OK;
}

static int measured_lanes(const as_lanes *s) {
    int n = 0;
    for (int i = 0; i < s->lanes; i++)
        n += s->lane[i].measured;
    return n;
}

static as_status read_time(const as_lanes *s, double *ns, as_error *e) {
    const as_lane *first = &s->lane[0];
    float ms = 0;
    if (s->time == AS_LANES_ALL) {
        AS_CUDA(e, cudaSetDevice(first->ordinal));
        AS_CUDA(e, cudaEventElapsedTime(&ms, first->begin, s->all_end));
        *ns = (double)ms * 1e6 / measured_lanes(s);
        return AS_OK;
    }
    double rates = 0;
    for (int i = 0; i < s->lanes && (i == 0 || s->time == AS_LANES_EACH); i++) {
        if (!s->lane[i].measured)
            continue;
        AS_CUDA(e, cudaSetDevice(s->lane[i].ordinal));
        AS_CUDA(e, cudaEventElapsedTime(&ms, s->lane[i].begin, s->lane[i].end));
        rates += 1 / ((double)ms * 1e6);
    }
    *ns = 1 / rates;
    return AS_OK;
}

/* The j-th part of what lane j of k has copied, to the output that is compared. */
static as_status gather(const as_lanes *s, void *output, as_error *e) {
    const int k = measured_lanes(s);
    for (int i = 0, j = 0; i < s->lanes; i++) {
        const as_lane *l = &s->lane[i];
        if (!l->measured)
            continue;
        const int64_t at = as_memcpy_piece_at((int64_t)l->bytes, k, j),
                      end = as_memcpy_piece_at((int64_t)l->bytes, k, j + 1);
        j++;
        if (l->dst == output || end == at)
            continue;
        AS_CUDA(e, cudaSetDevice(l->ordinal));
        AS_CUDA(e, cudaMemcpyAsync((char *)output + at, (const char *)l->dst + at, (size_t)(end - at),
                                   cudaMemcpyDefault, l->stream));
        AS_CUDA(e, cudaStreamSynchronize(l->stream));
    }
    return AS_OK;
}

static as_status run(as_lanes *s, void *output, double *own_ns, as_error *e) {
    s->latch[0] = s->latch[1] = 0;
    as_status status = issue(s, output, e);
    s->latch[0] = 1; /* also where issuing failed: streams that wait must end */
    const as_status waited = wait(s, status == AS_OK ? e : NULL);
    if (status == AS_OK)
        status = waited;
    if (status == AS_OK && s->latch[1])
        status = as_fail(e, AS_EFAIL, "a stream waited 2 s for the latch: run this case alone, without a profiler");
    double ns = 0;
    if (status == AS_OK)
        status = read_time(s, &ns, e);
    if (status == AS_OK)
        status = gather(s, output, e);
    if (status == AS_OK && own_ns)
        *own_ns = ns;
    return status;
}

as_status as_lanes_run(as_lanes *s, void *output, double *own_ns, as_error *e) {
    const as_status status = run(s, output, own_ns, e);
    (void)cudaSetDevice(s->own);
    return status;
}
