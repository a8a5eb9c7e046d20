/* One large copy against many small ones of the same total.
 *
 *   many   a call for each piece: the calls' cost bounds it, about 2 us each, so that pieces below some 100 KiB no
 *          longer fill the link
 *   batch  all pieces in one call (CUDA 12.8 and later): predicted near the large copy down to smaller pieces
 *
 * Pieces lie one after another in both buffers, in even parts. */
#include "memcpy.h"

#include "../cuda/check.h"
#include "../cuda/internal.h"

#include <stdlib.h>

typedef struct pieces {
    int64_t count;
    void **to;
    const void **from;
    size_t *bytes;
} pieces;

static void finish(void *state) {
    pieces *s = (pieces *)state;
    if (!s)
        return;
    free(s->to);
    free(s->from);
    free(s->bytes);
    free(s);
}

static as_status prepare(const as_call *call, void **state, as_error *e) {
    const int64_t count = as_params_int(call->params, "pieces"), bytes = as_params_int(call->params, "bytes");
    pieces *s = (pieces *)calloc(1, sizeof *s);
    *state = NULL;
    if (s) {
        s->count = count;
        s->to = (void **)calloc((size_t)count, sizeof *s->to);
        s->from = (const void **)calloc((size_t)count, sizeof *s->from);
        s->bytes = (size_t *)calloc((size_t)count, sizeof *s->bytes);
    }
    if (!s || !s->to || !s->from || !s->bytes) {
        finish(s);
        return as_fail(e, AS_ENOMEM, "no memory for a list of %lld pieces", (long long)count);
    }
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = as_memcpy_piece_at(bytes, count, i);
        s->to[i] = (char *)call->operand[1] + at;
        s->from[i] = (const char *)call->operand[0] + at;
        s->bytes[i] = (size_t)(as_memcpy_piece_at(bytes, count, i + 1) - at);
    }
    *state = s;
    return AS_OK;
}

as_status as_memcpy_many_prepare_cuda(const as_call *call, void **state, as_error *e) {
    return prepare(call, state, e);
}
as_status as_memcpy_batch_prepare_cuda(const as_call *call, void **state, as_error *e) {
    return prepare(call, state, e);
}
void as_memcpy_many_finish_cuda(void *state) { finish(state); }
void as_memcpy_batch_finish_cuda(void *state) { finish(state); }

as_status as_memcpy_many_cuda(const as_call *call, as_error *e) {
    const pieces *s = (const pieces *)call->state;
    for (int64_t i = 0; i < s->count; i++)
        AS_CUDA(e, cudaMemcpyAsync(s->to[i], s->from[i], s->bytes[i], cudaMemcpyDefault, as_cuda_stream(call->stream)));
    return AS_OK;
}

as_status as_memcpy_batch_available_cuda(as_device *, as_error *e) {
#if CUDART_VERSION >= 12080
    int driver = 0;
    AS_CUDA(e, cudaDriverGetVersion(&driver));
    if (driver < 12080)
        return as_fail(e, AS_EABSENT, "the batched copy needs a driver for CUDA 12.8 or later; this one is for %d.%d",
                       driver / 1000, driver % 1000 / 10);
    return AS_OK;
#else
    return as_fail(e, AS_EABSENT, "this build's CUDA %d.%d has no batched copy (12.8 and later have)",
                   CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
#endif
}

as_status as_memcpy_batch_cuda(const as_call *call, as_error *e) {
#if CUDART_VERSION >= 12080
    const pieces *s = (const pieces *)call->state;
    struct cudaMemcpyAttributes attributes;
    size_t first = 0;
    memset(&attributes, 0, sizeof attributes);
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
#if CUDART_VERSION >= 13000
    AS_CUDA(e, cudaMemcpyBatchAsync(s->to, s->from, s->bytes, (size_t)s->count, &attributes, &first, 1,
                                    as_cuda_stream(call->stream)));
#else
    size_t failed = SIZE_MAX;
    AS_CUDA(e, cudaMemcpyBatchAsync(s->to, const_cast<void **>(s->from), s->bytes, (size_t)s->count, &attributes,
                                    &first, 1, &failed, as_cuda_stream(call->stream)));
#endif
    return AS_OK;
#else
    (void)call;
    return as_fail(e, AS_EABSENT, "this build's CUDA has no batched copy");
#endif
}
