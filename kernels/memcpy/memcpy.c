/* Copies on the host.
 *
 * libc       what programs call. The C library picks loads, `rep movsb` or streaming stores by size. node:far puts both
 *            buffers on the farthest NUMA node: predicted at the rate of the link between the packages.
 * nt         vector loads and non-temporal stores: the destination is not read into the caches first, which saves a
 *            third of the traffic of a large copy, and costs a small one its place in the cache.
 * rep_movsb  one string instruction: microcode picks the width. Predicted near libc from some KiB on, far behind below,
 *            as it takes tens of cycles to start.
 * avx2, avx512  the widest plain loads and stores: what libc would be without its choice by size.
 * huge       libc on 2 MiB pages: fewer TLB misses, predicted to matter beyond the reach of the second-level TLB.
 *
 * All split the range over the team at multiples of 64 bytes, so that no two threads write one cache line.
 * Formulas: memcpy.h. */
#include "memcpy.h"

#include "../stream.h"

#include <stdio.h>

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

static as_status run(const as_call *call, as_stream_copy_fn copy) {
    copy_job job = {call->operand[0], call->operand[1], as_params_int(call->params, "bytes"), copy};
    as_team_run(call->team, copy_part, &job);
    return AS_OK;
}

/* ---- libc ---- */

as_status as_memcpy_libc_prepare_cpu(const as_call *call, void **state, as_error *e) {
    const size_t bytes = (size_t)as_params_int(call->params, "bytes");
    *state = NULL;
    if (strcmp(as_params_text(call->params, "node"), "far") != 0)
        return AS_OK;
    for (int i = 0; i < 2; i++)
        AS_TRY(as_memcpy_move_far(call->operand[i], bytes, call->place, e));
    return AS_OK;
}

void as_memcpy_libc_finish_cpu(void *state) { (void)state; }

as_status as_memcpy_libc_cpu(const as_call *call, as_error *e) {
    (void)e;
    return run(call, copy_libc);
}

/* ---- by instruction ---- */

as_status as_memcpy_nt_cpu(const as_call *call, as_error *e) {
    (void)e;
    return run(call, as_stream_copy_nt(as_isa_best()));
}

#if defined(__x86_64__)
static void copy_string(void *to, const void *from, size_t bytes) {
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}
#else
#define copy_string copy_libc /* never run: absent */
#endif

as_status as_memcpy_rep_movsb_available_cpu(as_device *device, as_error *e) {
    (void)device;
#if defined(__x86_64__)
    (void)e;
    return AS_OK;
#else
    return as_fail(e, AS_EABSENT, "this machine has no string instructions (x86-64)");
#endif
}

as_status as_memcpy_rep_movsb_cpu(const as_call *call, as_error *e) {
    (void)e;
    return run(call, copy_string);
}

as_status as_memcpy_avx2_available_cpu(as_device *device, as_error *e) {
    (void)device;
    return as_isa_best() >= AS_ISA_AVX2 ? AS_OK : as_fail(e, AS_EABSENT, "this CPU has no AVX2");
}

as_status as_memcpy_avx2_cpu(const as_call *call, as_error *e) {
    (void)e;
    return run(call, as_stream_copy_temporal(AS_ISA_AVX2));
}

as_status as_memcpy_avx512_available_cpu(as_device *device, as_error *e) {
    (void)device;
    return as_isa_best() >= AS_ISA_AVX512 ? AS_OK : as_fail(e, AS_EABSENT, "this CPU has no AVX-512");
}

as_status as_memcpy_avx512_cpu(const as_call *call, as_error *e) {
    (void)e;
    return run(call, as_stream_copy_temporal(AS_ISA_AVX512));
}

/* ---- huge: the operands' kind of memory asks for the pages; here it is read what came of it ---- */

/* Bytes of huge pages that the kernel reports for the mapping that holds `p`; those of it that were reserved. */
typedef struct pages {
    int64_t huge, reserved;
} pages;

static pages pages_at(const void *p) {
    pages found = {0, 0};
    char line[512];
    bool inside = false;
    FILE *f = fopen("/proc/self/smaps", "re");
    while (f && fgets(line, sizeof line, f)) {
        unsigned long begin, end, kib;
        if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
            inside = (unsigned long)p >= begin && (unsigned long)p < end;
        else if (inside && sscanf(line, "AnonHugePages: %lu kB", &kib) == 1)
            found.huge += (int64_t)kib * 1024;
        else if (inside && sscanf(line, "Private_Hugetlb: %lu kB", &kib) == 1)
            found.reserved += (int64_t)kib * 1024;
    }
    if (f)
        fclose(f);
    return found;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Neighbouring mappings of one kind are joined by the kernel: no operand counts more than its own bytes. */
as_status as_memcpy_huge_prepare_cpu(const as_call *call, void **state, as_error *e) {
    (void)e;
    *state = NULL;
    const int64_t bytes = as_params_int(call->params, "bytes");
    int64_t huge = 0, reserved = 0;
    for (int i = 0; i < 2; i++) {
        const pages at = pages_at(call->operand[i]);
        huge += least(at.huge + at.reserved, bytes);
        reserved += least(at.reserved, bytes);
    }
    if (call->extra) {
        call->extra[0] = (double)huge;
        call->extra[1] = (double)reserved;
    }
    return AS_OK;
}

void as_memcpy_huge_finish_cpu(void *state) { (void)state; }

as_status as_memcpy_huge_cpu(const as_call *call, as_error *e) { return as_memcpy_libc_cpu(call, e); }

/* ---- the reference of `latency` ---- */

as_status as_memcpy_reference(const as_reference *r, as_error *e) {
    (void)e;
    const int64_t lines = as_params_int(r->params, "bytes") / AS_MEMCPY_LINE_BYTES;
    for (int64_t i = 0; i < r->n_rows; i++) {
        r->expected[i] = (double)(AS_MEMCPY_CHASE_STEPS % lines);
        r->scale[i] = 1;
    }
    return AS_OK;
}
