/* Managed memory that host and device read in turns: first the host one byte of every page, then the device all of it,
 * into ordinary device memory.
 *
 *   managed_fault     pages move to the host as it reads, and back in the device's faults
 *   managed_prefetch  one call moves them back before the device reads: no faults there
 *   managed_advise    read mostly: after the first time both sides keep a copy, and nothing moves
 *
 * Predicted: fault well below the link's rate, prefetch near it, advise at the rate of device memory. The series
 * host_read and device_read hold the two halves of an operation. Each variant has a buffer of its own: advice stays
 * with the pages. */
#include "memcpy.h"

#include "../cuda/check.h"
#include "../cuda/internal.h"
#include "copy.h"

#include <stdlib.h>
#include <unistd.h>

typedef enum how { FAULT, PREFETCH, ADVISE } how;

typedef struct managed {
    how kind;
    int ordinal;
    size_t bytes, page;
    volatile unsigned char sum; /* keeps the host's reads */
} managed;

static as_status prefetch(const managed *s, void *p, cudaStream_t stream, as_error *e) {
#if CUDART_VERSION >= 13000
    struct cudaMemLocation where;
    where.type = cudaMemLocationTypeDevice;
    where.id = s->ordinal;
    AS_CUDA(e, cudaMemPrefetchAsync(p, s->bytes, where, 0, stream));
#else
    AS_CUDA(e, cudaMemPrefetchAsync(p, s->bytes, s->ordinal, stream));
#endif
    return AS_OK;
}

static as_status advise(const managed *s, void *p, as_error *e) {
#if CUDART_VERSION >= 13000
    struct cudaMemLocation where;
    where.type = cudaMemLocationTypeDevice;
    where.id = s->ordinal;
    AS_CUDA(e, cudaMemAdvise(p, s->bytes, cudaMemAdviseSetReadMostly, where));
#else
    AS_CUDA(e, cudaMemAdvise(p, s->bytes, cudaMemAdviseSetReadMostly, s->ordinal));
#endif
    return AS_OK;
}

static as_status prepare(const as_call *call, how kind, void **state, as_error *e) {
    int together = 0;
    *state = NULL;
    AS_CUDA(e,
            cudaDeviceGetAttribute(&together, cudaDevAttrConcurrentManagedAccess, as_cuda_of(call->device)->ordinal));
    if (!together)
        return as_fail(e, AS_EABSENT, "managed pages do not move on demand here (no concurrent managed access)");
    managed *s = (managed *)calloc(1, sizeof *s);
    if (!s)
        return as_fail(e, AS_ENOMEM, "no memory for the state of managed memory");
    s->kind = kind;
    s->ordinal = as_cuda_of(call->device)->ordinal;
    s->bytes = (size_t)as_params_int(call->params, "bytes");
    s->page = (size_t)sysconf(_SC_PAGESIZE);
    const as_status status = kind == ADVISE ? advise(s, call->operand[0], e) : AS_OK;
    if (status != AS_OK)
        free(s);
    else
        *state = s;
    return status;
}

static as_status run(const as_call *call, as_error *e) {
    managed *s = (managed *)call->state;
    cudaStream_t stream = as_cuda_stream(call->stream);
    const volatile unsigned char *p = (const volatile unsigned char *)call->operand[0];
    unsigned char sum = 0;
    const double begin = as_request_now_ns();
    for (size_t i = 0; i < s->bytes; i += s->page)
        sum = (unsigned char)(sum + p[i]);
    const double read = as_request_now_ns();
    if (s->kind == PREFETCH)
        AS_TRY(prefetch(s, call->operand[0], stream, e));
    AS_TRY(as_memcpy_launch_copy(call->operand[1], call->operand[0], s->bytes, stream, e));
    AS_CUDA(e, cudaStreamSynchronize(stream));
    const double end = as_request_now_ns();
    s->sum = sum;
    if (call->extra) {
        call->extra[0] = read - begin;
        call->extra[1] = end - read;
    }
    return AS_OK;
}

#define DEFINE_HOOKS(name, kind)                                                                                       \
    as_status as_memcpy_managed_##name##_prepare_cuda(const as_call *call, void **state, as_error *e) {                \
        return prepare(call, kind, state, e);                                                                          \
    }                                                                                                                  \
    void as_memcpy_managed_##name##_finish_cuda(void *state) { free(state); }                                          \
    as_status as_memcpy_managed_##name##_cuda(const as_call *call, as_error *e) { return run(call, e); }

DEFINE_HOOKS(fault, FAULT)
DEFINE_HOOKS(prefetch, PREFETCH)
DEFINE_HOOKS(advise, ADVISE)
