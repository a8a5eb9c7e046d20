/* Taking and giving back memory for a GPU; alloc.h states the operation.
 *
 *   malloc           maps pages into the device's address space; cudaFree waits for the device: predicted tens to
 *                    hundreds of microseconds, one caller after the other
 *   stream           from a pool of the runtime; with threshold 0 the pool gives its pages back at every synchronise,
 *                    so that it costs more than malloc
 *   stream_retained  the pool keeps them: predicted a few microseconds, most of it the synchronise
 *   pinned           host pages made, locked and mapped: grows with the size
 *   registered       pages that are there already are locked and mapped
 *   managed          address space alone; pages come at first touch (touch=yes: the host writes each page)
 *   slab             a lock and two stores, no call of the runtime */
#include "alloc.h"

#include "../cuda/check.h"
#include "../cuda/internal.h"

#include <stdlib.h>
#include <time.h>

enum { PAGE = 4096, MOST_CALLERS = 64 };

typedef enum how { MALLOC, STREAM, STREAM_RETAINED, PINNED, REGISTERED, MANAGED, SLAB } how;

typedef struct alloc_state {
    how kind;
    size_t bytes;
    bool touch;
    int callers;
    as_device *device;
    as_team *team;
    cudaStream_t stream[MOST_CALLERS];
    cudaMemPool_t pool;
    as_slab *slab;
    unsigned char *blocks; /* slab: of the device; registered: host pages, one block for each caller */
    void *raw;             /* what free takes of `blocks` on the host */
} alloc_state;

typedef struct alloc_job {
    const alloc_state *state;
    uint64_t *counter; /* NULL when timed */
    double alloc_ns, free_ns;
    as_status status[MOST_CALLERS];
    as_error *error; /* of the first caller that failed */
} alloc_job;

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Writes first and last byte and counts if both are there. */
static __global__ void as_alloc_use_kernel(volatile unsigned char *p, uint64_t bytes, unsigned long long *counter) {
    p[0] = 0x5A;
    p[bytes - 1] = bytes > 1 ? 0xA5 : 0x5A;
    if (p[0] == 0x5A && p[bytes - 1] == (bytes > 1 ? 0xA5 : 0x5A))
        atomicAdd(counter, 1ull);
}

static as_status take(const alloc_state *s, int caller, void **out, int *number, as_error *e) {
    *out = NULL;
    switch (s->kind) {
    case MALLOC: AS_CUDA(e, cudaMalloc(out, s->bytes)); return AS_OK;
    case STREAM:
    case STREAM_RETAINED: AS_CUDA(e, cudaMallocFromPoolAsync(out, s->bytes, s->pool, s->stream[caller])); return AS_OK;
    case PINNED: AS_CUDA(e, cudaMallocHost(out, s->bytes)); return AS_OK;
    case REGISTERED:
        *out = s->blocks + (size_t)caller * s->bytes;
        AS_CUDA(e, cudaHostRegister(*out, s->bytes, cudaHostRegisterDefault));
        return AS_OK;
    case MANAGED: AS_CUDA(e, cudaMallocManaged(out, s->bytes, cudaMemAttachGlobal)); return AS_OK;
    case SLAB:
        *number = as_slab_take(s->slab);
        if (*number < 0)
            return as_fail(e, AS_EFAIL, "the slab has no free block");
        *out = s->blocks + (size_t)*number * s->bytes;
        return AS_OK;
    }
    return AS_OK;
}

static as_status give(const alloc_state *s, int caller, void *p, int number, as_error *e) {
    switch (s->kind) {
    case MALLOC:
    case MANAGED: AS_CUDA(e, cudaFree(p)); return AS_OK;
    case STREAM:
    case STREAM_RETAINED:
        AS_CUDA(e, cudaFreeAsync(p, s->stream[caller]));
        AS_CUDA(e, cudaStreamSynchronize(s->stream[caller]));
        return AS_OK;
    case PINNED: AS_CUDA(e, cudaFreeHost(p)); return AS_OK;
    case REGISTERED: AS_CUDA(e, cudaHostUnregister(p)); return AS_OK;
    case SLAB: as_slab_give(s->slab, number); return AS_OK;
    }
    return AS_OK;
}

static as_status use(const alloc_job *job, int caller, void *p, as_error *e) {
    as_alloc_use_kernel<<<1, 1, 0, job->state->stream[caller]>>>((volatile unsigned char *)p, job->state->bytes,
                                                                 (unsigned long long *)job->counter);
    AS_CUDA_LAUNCHED(e);
    AS_CUDA(e, cudaStreamSynchronize(job->state->stream[caller]));
    return AS_OK;
}

static as_status pair(const alloc_job *job, int caller, double *alloc_ns, double *free_ns, as_error *e) {
    const alloc_state *s = job->state;
    void *p;
    int number = 0;
    const double t0 = now_ns();
    AS_TRY(take(s, caller, &p, &number, e));
    if (s->touch)
        for (size_t i = 0; i < s->bytes; i += PAGE)
            ((volatile unsigned char *)p)[i] = 1;
    *alloc_ns += now_ns() - t0;
    as_status status = job->counter ? use(job, caller, p, e) : AS_OK;
    const double t1 = now_ns();
    const as_status end = give(s, caller, p, number, status == AS_OK ? e : NULL);
    *free_ns += now_ns() - t1;
    return status != AS_OK ? status : end;
}

static void member(int caller, int, void *context) {
    alloc_job *job = (alloc_job *)context;
    as_error e;
    double alloc_ns = 0, free_ns = 0;
    (void)cudaSetDevice(as_cuda_of(job->state->device)->ordinal); /* a property of the calling thread */
    job->status[caller] = AS_OK;
    for (int i = 0; i < AS_ALLOC_PAIRS && job->status[caller] == AS_OK; i++)
        job->status[caller] = pair(job, caller, &alloc_ns, &free_ns, &e);
    if (job->status[caller] != AS_OK && caller == 0)
        *job->error = e;
    if (caller == 0) {
        job->alloc_ns = alloc_ns / AS_ALLOC_PAIRS;
        job->free_ns = free_ns / AS_ALLOC_PAIRS;
    }
}

static as_status run(const as_call *call, as_error *e) {
    const alloc_state *s = (const alloc_state *)call->state;
    alloc_job job;
    memset(&job, 0, sizeof job);
    job.state = s;
    job.counter = call->counter;
    job.error = e;
    if (s->team)
        as_team_run(s->team, member, &job);
    else
        member(0, 1, &job);
    if (job.status[0] != AS_OK)
        return job.status[0];
    for (int i = 1; i < s->callers; i++)
        if (job.status[i] != AS_OK)
            return as_fail(e, job.status[i], "caller %d could not take or give back its block", i);
    if (call->extra) {
        call->extra[0] = job.alloc_ns;
        call->extra[1] = job.free_ns;
    }
    return AS_OK;
}

static void finish(void *state) {
    alloc_state *s = (alloc_state *)state;
    if (!s)
        return;
    as_team_destroy(s->team);
    for (int i = 0; i < s->callers; i++)
        if (s->stream[i])
            (void)cudaStreamDestroy(s->stream[i]);
    if (s->pool)
        (void)cudaMemPoolDestroy(s->pool);
    if (s->kind == SLAB && s->blocks)
        (void)cudaFree(s->blocks);
    as_slab_destroy(s->slab);
    free(s->raw);
    free(s);
}

static as_status make_pool(alloc_state *s, as_error *e) {
    cudaMemPoolProps props;
    memset(&props, 0, sizeof props);
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    props.location.id = as_cuda_of(s->device)->ordinal;
    AS_CUDA(e, cudaMemPoolCreate(&s->pool, &props));
    uint64_t threshold = s->kind == STREAM_RETAINED ? UINT64_MAX : 0;
    AS_CUDA(e, cudaMemPoolSetAttribute(s->pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    return AS_OK;
}

static as_status make(alloc_state *s, const as_placement *place, as_error *e) {
    for (int i = 0; i < s->callers; i++)
        AS_CUDA(e, cudaStreamCreateWithFlags(&s->stream[i], cudaStreamNonBlocking));
    if (s->kind == STREAM || s->kind == STREAM_RETAINED)
        AS_TRY(make_pool(s, e));
    const size_t all = (size_t)s->callers * s->bytes;
    if (s->kind == SLAB) {
        AS_TRY(as_slab_create(&s->slab, s->callers, e));
        AS_CUDA(e, cudaMalloc((void **)&s->blocks, all));
    }
    if (s->kind == REGISTERED) {
        if (posix_memalign(&s->raw, PAGE, all) != 0)
            return as_fail(e, AS_ENOMEM, "no host memory to register (%zu bytes)", all);
        s->blocks = (unsigned char *)s->raw;
        memset(s->blocks, 0, all);
    }
    if (s->callers > 1) {
        const as_status status = as_team_create(&s->team, s->callers, place, e);
        return status == AS_EENV ? as_fail(e, AS_EABSENT, "needs %d CPUs", s->callers) : status;
    }
    return AS_OK;
}

static as_status prepare(const as_call *call, how kind, void **state, as_error *e) {
    alloc_state *s = (alloc_state *)calloc(1, sizeof *s);
    if (!s)
        return as_fail(e, AS_ENOMEM, "no memory for the state of alloc");
    s->kind = kind;
    s->bytes = (size_t)as_params_int(call->params, "bytes");
    s->touch = strcmp(as_params_text(call->params, "touch"), "yes") == 0;
    s->callers = (int)as_params_int(call->params, "callers");
    s->device = call->device;
    const as_status status = make(s, call->place, e);
    if (status != AS_OK)
        finish(s);
    else
        *state = s;
    return status;
}

#define DEFINE_HOOKS(name, kind)                                                                                       \
    as_status as_alloc_##name##_prepare_cuda(const as_call *call, void **state, as_error *e) {                         \
        return prepare(call, kind, state, e);                                                                          \
    }                                                                                                                  \
    void as_alloc_##name##_finish_cuda(void *state) { finish(state); }                                                 \
    as_status as_alloc_##name##_cuda(const as_call *call, as_error *e) { return run(call, e); }

DEFINE_HOOKS(malloc, MALLOC)
DEFINE_HOOKS(stream, STREAM)
DEFINE_HOOKS(stream_retained, STREAM_RETAINED)
DEFINE_HOOKS(pinned, PINNED)
DEFINE_HOOKS(registered, REGISTERED)
DEFINE_HOOKS(managed, MANAGED)
DEFINE_HOOKS(slab, SLAB)
