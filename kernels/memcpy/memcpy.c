/* Copies on the host.
 *
 * libc   what programs call. The C library picks loads, `rep movsb` or streaming stores by size.
 * nt     vector loads and non-temporal stores: the destination is not read into the caches first, which saves a third
 *        of the traffic of a large copy, and costs a small one its place in the cache.
 *
 * Both split the range over the team at multiples of 64 bytes, so that no two threads write one cache line.
 * Formulas: memcpy.h. */
#include "memcpy.h"

#include "../stream.h"

typedef struct copy_job {
    const unsigned char *from;
    unsigned char *to;
    int64_t bytes;
    as_stream_copy_fn copy;
} copy_job;

static void copy_part(int member, int size, void *context) {
    const copy_job *job = context;
    int64_t lines = (job->bytes + 63) / 64;
    int64_t begin = lines * member / size * 64, end = lines * (member + 1) / size * 64;
    if (end > job->bytes)
        end = job->bytes;
    if (begin < end)
        job->copy(job->to + begin, job->from + begin, (size_t)(end - begin));
}

static void copy_libc(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }

static void run(const as_call *call, as_stream_copy_fn copy) {
    copy_job job = {call->operand[0], call->operand[1], as_params_int(call->params, "bytes"), copy};
    as_team_run(call->team, copy_part, &job);
}

as_status as_memcpy_libc_cpu(const as_call *call, as_error *e) {
    (void)e;
    run(call, copy_libc);
    return AS_OK;
}

as_status as_memcpy_nt_cpu(const as_call *call, as_error *e) {
    (void)e;
    run(call, as_stream_copy_nt(as_isa_best()));
    return AS_OK;
}
