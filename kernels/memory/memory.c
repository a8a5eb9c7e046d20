/* Memory on the host; memory.h states operations and operands.
 *
 *   read, write, triad   the range is split evenly over the team; widest vectors of the machine, ordinary stores, so
 *                        that a store to a line that is not cached first reads it (not counted in the bytes)
 *   chase                lines are aligned to the stride; each holds the address of the next
 *   counters             volatile loads and stores keep every increment in memory, and the store buffer of a core hides
 *                        nothing once another core takes the line away
 *   handoff              one line; each side spins until it sees the other's value, then stores its own */
#include "memory.h"

#include "../isa.h"
#include "../stream.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { SPACE = 4096 }; /* between what threads must not share, and the most that counters lie apart */

/* ---- bandwidth ---- */

typedef struct range_job {
    const as_call *call;
    size_t count; /* words */
    _Atomic uint32_t sum;
} range_job;

/* Word range of a member, in whole lines of 16 words. */
static size_t bound(size_t count, int member, int size) {
    const size_t lines = (count + 15) / 16, at = lines * (size_t)member / (size_t)size * 16;
    return at < count ? at : count;
}

static void read_member(int member, int size, void *context) {
    range_job *job = context;
    const size_t from = bound(job->count, member, size), to = bound(job->count, member + 1, size);
    const uint32_t *words = job->call->operand[0];
    atomic_fetch_add(&job->sum, as_stream_sum(as_isa_best())(words + from, (to - from) * sizeof *words, 1));
}

static void write_member(int member, int size, void *context) {
    const range_job *job = context;
    const size_t from = bound(job->count, member, size), to = bound(job->count, member + 1, size);
    as_stream_fill(as_isa_best())((uint32_t *)job->call->operand[1] + from, *(const uint32_t *)job->call->operand[0],
                                  to - from);
}

static void triad_member(int member, int size, void *context) {
    const range_job *job = context;
    const size_t from = bound(job->count, member, size), to = bound(job->count, member + 1, size);
    void *const *x = job->call->operand;
    as_stream_triad(as_isa_best())((float *)x[2] + from, (const float *)x[0] + from, (const float *)x[1] + from,
                                   to - from);
}

as_status as_memory_read_cpu(const as_call *call, as_error *e) {
    (void)e;
    range_job job = {.call = call, .count = (size_t)as_params_int(call->params, "bytes") / 4};
    as_team_run(call->team, read_member, &job);
    *(uint32_t *)call->operand[1] = job.sum;
    return AS_OK;
}

as_status as_memory_write_cpu(const as_call *call, as_error *e) {
    (void)e;
    range_job job = {.call = call, .count = (size_t)as_params_int(call->params, "bytes") / 4};
    as_team_run(call->team, write_member, &job);
    return AS_OK;
}

as_status as_memory_triad_cpu(const as_call *call, as_error *e) {
    (void)e;
    range_job job = {.call = call, .count = (size_t)as_params_int(call->params, "bytes") / 12};
    as_team_run(call->team, triad_member, &job);
    return AS_OK;
}

/* ---- latency ---- */

as_status as_memory_clock_cpu(const as_call *call, as_error *e) {
    (void)e;
    uint32_t x = 0, step = *(const uint32_t *)call->operand[0];
    for (int i = 0; i < AS_MEMORY_CLOCK_STEPS; i += 8)
        for (int j = 0; j < 8; j++) {
            x += step;
            __asm__ volatile("" : "+r"(x)); /* neither joined with the next nor moved */
        }
    *(uint32_t *)call->operand[1] = x;
    return AS_OK;
}

typedef struct chase_state {
    as_memory_walk walk;
    uintptr_t stride;
    unsigned char *lines;
} chase_state;

as_status as_memory_chase_prepare_cpu(const as_call *call, void **state, as_error *e) {
    const as_memory_walk w = as_memory_walk_of(call->params, true);
    const size_t stride = (size_t)as_params_int(call->params, "stride");
    chase_state *t = calloc(1, sizeof *t);
    uint32_t *next = malloc((size_t)w.lines * sizeof *next);
    /* Whole pages: the set covers as few of them as it can. */
    const size_t bytes = ((size_t)w.lines * stride + SPACE - 1) / SPACE * SPACE;
    if (t)
        *t = (chase_state){w, stride, aligned_alloc(SPACE, bytes)};
    if (!t || !next || !t->lines) {
        free(next);
        as_memory_chase_finish_cpu(t);
        return as_fail(e, AS_ENOMEM, "no memory for a working set of %zu bytes", bytes);
    }
    as_memory_cycle(call->operand[0], w.lines, next);
    for (int64_t i = 0; i < w.lines; i++) {
        unsigned char *to = t->lines + next[i] * stride;
        memcpy(t->lines + (size_t)i * stride, &to, sizeof to);
    }
    free(next);
    *state = t;
    return AS_OK;
}

void as_memory_chase_finish_cpu(void *state) {
    chase_state *t = state;
    if (t)
        free(t->lines);
    free(t);
}

/* The hash takes the address that is already there, beside the load under way: it costs no time. */
as_status as_memory_chase_cpu(const as_call *call, as_error *e) {
    (void)e;
    const chase_state *t = call->state;
    const unsigned char *p = t->lines;
    uint32_t hash = 0;
    for (int64_t i = 0; i < t->walk.steps; i++) {
        hash = 3 * hash + (uint32_t)(p - t->lines);
        p = *(unsigned char *const volatile *)p;
    }
    uint32_t *out = call->operand[1];
    out[0] = hash;
    out[1] = (uint32_t)((uintptr_t)(p - t->lines) / t->stride);
    return AS_OK;
}

/* ---- sharing ---- */

typedef struct share_state {
    unsigned char *block; /* a page for each member, then a page that all share */
    int members;
} share_state;

static as_status share_prepare(const as_call *call, int least, void **state, as_error *e) {
    const int members = as_team_size(call->team);
    if (members < least)
        return as_fail(e, AS_EABSENT, "needs %d cores, and the placement has %d", least, members);
    share_state *t = calloc(1, sizeof *t);
    if (t)
        *t = (share_state){aligned_alloc(SPACE, (size_t)(members + 1) * SPACE), members};
    if (!t || !t->block) {
        free(t);
        return as_fail(e, AS_ENOMEM, "no memory for the shared lines");
    }
    memset(t->block, 0, (size_t)(members + 1) * SPACE);
    *state = t;
    return AS_OK;
}

static void share_finish(void *state) {
    share_state *t = state;
    if (t)
        free(t->block);
    free(t);
}

as_status as_memory_counters_prepare_cpu(const as_call *call, void **state, as_error *e) {
    return share_prepare(call, 2, state, e);
}
void as_memory_counters_finish_cpu(void *state) { share_finish(state); }
as_status as_memory_atomic_prepare_cpu(const as_call *call, void **state, as_error *e) {
    return share_prepare(call, 1, state, e);
}
void as_memory_atomic_finish_cpu(void *state) { share_finish(state); }
as_status as_memory_handoff_prepare_cpu(const as_call *call, void **state, as_error *e) {
    return share_prepare(call, 2, state, e);
}
void as_memory_handoff_finish_cpu(void *state) { share_finish(state); }

typedef struct share_job {
    unsigned char *block;
    size_t stride;
    int peer;
} share_job;

static void counters_member(int member, int size, void *context) {
    (void)size;
    const share_job *job = context;
    volatile uint32_t *counter = (volatile uint32_t *)(job->block + (size_t)member * job->stride);
    for (int i = 0; i < AS_MEMORY_COUNT_STEPS; i++)
        *counter = *counter + 1;
}

/* All threads must have counted alike; a lost increment leaves a sum that is no multiple, or a wrong quotient. */
as_status as_memory_counters_cpu(const as_call *call, as_error *e) {
    (void)e;
    const share_state *t = call->state;
    share_job job = {.block = t->block, .stride = (size_t)as_params_int(call->params, "stride")};
    for (int i = 0; i < t->members; i++)
        *(uint32_t *)(job.block + (size_t)i * job.stride) = 0;
    as_team_run(call->team, counters_member, &job);
    uint32_t sum = 0;
    for (int i = 0; i < t->members; i++)
        sum += *(uint32_t *)(job.block + (size_t)i * job.stride);
    *(uint32_t *)call->operand[1] = sum % (uint32_t)t->members ? 0 : sum / (uint32_t)t->members;
    return AS_OK;
}

static void atomic_member(int member, int size, void *context) {
    (void)member, (void)size;
    const share_job *job = context;
    _Atomic uint32_t *counter = (_Atomic uint32_t *)job->block;
    for (int i = 0; i < AS_MEMORY_COUNT_STEPS; i++)
        atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

as_status as_memory_atomic_cpu(const as_call *call, as_error *e) {
    (void)e;
    const share_state *t = call->state;
    share_job job = {.block = t->block};
    _Atomic uint32_t *counter = (_Atomic uint32_t *)job.block;
    atomic_store(counter, 0);
    as_team_run(call->team, atomic_member, &job);
    const uint32_t sum = atomic_load(counter), members = (uint32_t)t->members;
    *(uint32_t *)call->operand[1] = sum % members ? 0 : sum / members;
    return AS_OK;
}

/* Even values are passed by member 0, odd ones by its peer. */
static void handoff_member(int member, int size, void *context) {
    (void)size;
    const share_job *job = context;
    if (member != 0 && member != job->peer)
        return;
    _Atomic uint32_t *flag = (_Atomic uint32_t *)job->block;
    for (uint32_t turn = member ? 1 : 0; turn < AS_MEMORY_COUNT_STEPS; turn += 2) {
        while (atomic_load_explicit(flag, memory_order_acquire) != turn)
            ;
        atomic_store_explicit(flag, turn + 1, memory_order_release);
    }
}

as_status as_memory_handoff_cpu(const as_call *call, as_error *e) {
    (void)e;
    const share_state *t = call->state;
    const bool far = strcmp(as_params_text(call->params, "peer"), "far") == 0;
    share_job job = {.block = t->block, .peer = far ? t->members - 1 : 1};
    _Atomic uint32_t *flag = (_Atomic uint32_t *)job.block;
    atomic_store(flag, 0);
    as_team_run(call->team, handoff_member, &job);
    *(uint32_t *)call->operand[1] = atomic_load(flag);
    return AS_OK;
}
