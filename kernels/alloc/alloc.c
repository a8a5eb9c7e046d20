/* Taking and giving back host memory; alloc.h states the operation.
 *
 *   malloc   small blocks come from the thread's own list in tens of nanoseconds; above 128 KiB the C library maps
 *            them, unless it has learned not to: then a freed block's pages are taken again without a fault
 *   mmap     two system calls; touched, a page fault for each 4 KiB: a few hundred nanoseconds each
 *   huge     the same with one fault for each 2 MiB, if the system grants huge pages
 *   mlock    all pages are made at once, without a fault each, and stay
 *   slab     a lock and two stores */
#include "alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, HUGE_PAGE = 2 << 20 };

typedef enum how { MALLOC, MMAP, HUGE, MLOCK, SLAB } how;

typedef struct alloc_state {
    how kind;
    size_t bytes;
    bool touch;
    as_slab *slab;
    unsigned char *blocks; /* slab: one for each member */
} alloc_state;

typedef struct alloc_job {
    const alloc_state *state;
    bool check;
    _Atomic uint64_t held; /* blocks that could be taken and, if checked, held their bytes */
    double alloc_ns, free_ns;
} alloc_job;

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* What is mapped for a block: huge pages need room to be aligned in. */
static size_t mapped_bytes(const alloc_state *s) { return s->kind == HUGE ? s->bytes + HUGE_PAGE : s->bytes; }

typedef struct block {
    unsigned char *at;  /* usable */
    unsigned char *map; /* what munmap or free takes; slab: NULL */
    int number;
} block;

static block take(const alloc_state *s) {
    block b = {0};
    switch (s->kind) {
    case MALLOC: b.at = b.map = malloc(s->bytes); return b;
    case SLAB:
        b.number = as_slab_take(s->slab);
        b.at = b.number < 0 ? NULL : s->blocks + (size_t)b.number * s->bytes;
        return b;
    default: break;
    }
    b.map = mmap(NULL, mapped_bytes(s), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (b.map == MAP_FAILED)
        return (block){0};
    b.at = b.map;
    if (s->kind == HUGE) {
        b.at += (HUGE_PAGE - (uintptr_t)b.map % HUGE_PAGE) % HUGE_PAGE;
        (void)madvise(b.at, s->bytes, MADV_HUGEPAGE); /* refused: ordinary pages, as the result's context tells */
    }
    if (s->kind == MLOCK && mlock(b.at, s->bytes) != 0) {
        munmap(b.map, mapped_bytes(s));
        return (block){0};
    }
    return b;
}

static void give(const alloc_state *s, block b) {
    if (s->kind == MALLOC)
        free(b.map);
    else if (s->kind == SLAB)
        as_slab_give(s->slab, b.number);
    else
        munmap(b.map, mapped_bytes(s));
}

static void touch(const alloc_state *s, block b) {
    volatile unsigned char *p = b.at;
    for (size_t i = 0; i < s->bytes; i += PAGE)
        p[i] = 1;
}

static bool holds(const alloc_state *s, block b, unsigned char value) {
    volatile unsigned char *p = b.at;
    p[0] = value;
    p[s->bytes - 1] = (unsigned char)(s->bytes > 1 ? value + 1 : value);
    return p[0] == value && p[s->bytes - 1] == (unsigned char)(s->bytes > 1 ? value + 1 : value);
}

static void member(int number, int size, void *context) {
    (void)size;
    alloc_job *job = context;
    uint64_t held = 0;
    double alloc_ns = 0, free_ns = 0;
    for (int i = 0; i < AS_ALLOC_PAIRS; i++) {
        const double t0 = now_ns();
        block b = take(job->state);
        __asm__ volatile("" : "+r"(b.at)::"memory"); /* a pair that nobody uses is not removed */
        if (!b.at)
            break;
        if (job->state->touch)
            touch(job->state, b);
        const double t1 = now_ns();
        if (!job->check || holds(job->state, b, (unsigned char)(1 + 2 * i)))
            held++;
        const double t2 = now_ns();
        give(job->state, b);
        free_ns += now_ns() - t2;
        alloc_ns += t1 - t0;
    }
    atomic_fetch_add(&job->held, held);
    if (number == 0) {
        job->alloc_ns = alloc_ns / AS_ALLOC_PAIRS;
        job->free_ns = free_ns / AS_ALLOC_PAIRS;
    }
}

static as_status run(const as_call *call, as_error *e) {
    alloc_job job = {.state = call->state, .check = call->counter != NULL};
    const uint64_t expected = (uint64_t)as_team_size(call->team) * AS_ALLOC_PAIRS;
    as_team_run(call->team, member, &job);
    if (job.held != expected && !job.check)
        return as_fail(e, AS_ENOMEM, "only %llu of %llu blocks could be had: less bytes, or a higher ulimit (-l, -v)",
                       (unsigned long long)job.held, (unsigned long long)expected);
    if (call->counter) /* one for each pair, if every member had it */
        *call->counter += job.held == expected ? AS_ALLOC_PAIRS : 0;
    if (call->extra) {
        call->extra[0] = job.alloc_ns;
        call->extra[1] = job.free_ns;
    }
    return AS_OK;
}

static void finish(void *state) {
    alloc_state *s = state;
    if (s) {
        as_slab_destroy(s->slab);
        free(s->blocks);
    }
    free(s);
}

static as_status make_slab(alloc_state *s, int members, as_error *e) {
    AS_TRY(as_slab_create(&s->slab, members, e));
    const size_t bytes = (size_t)members * s->bytes;
    if (!(s->blocks = malloc(bytes)))
        return as_fail(e, AS_ENOMEM, "no memory for the blocks of alloc/slab (%zu bytes)", bytes);
    memset(s->blocks, 0, bytes);
    return AS_OK;
}

/* One pair beforehand: a machine that refuses (mlock above its limit) is told apart from a fault. */
static as_status prepare(const as_call *call, how kind, void **state, as_error *e) {
    alloc_state *s = calloc(1, sizeof *s);
    if (!s)
        return as_fail(e, AS_ENOMEM, "no memory for the state of alloc");
    *s = (alloc_state){.kind = kind,
                       .bytes = (size_t)as_params_int(call->params, "bytes"),
                       .touch = strcmp(as_params_text(call->params, "touch"), "yes") == 0};
    as_status status = kind == SLAB ? make_slab(s, as_team_size(call->team), e) : AS_OK;
    const block b = status == AS_OK ? take(s) : (block){0};
    if (status == AS_OK && !b.at)
        status = as_fail(e, AS_EABSENT, "this machine gives no block of %zu bytes%s", s->bytes,
                         kind == MLOCK ? "; raise ulimit -l" : "");
    if (b.at)
        give(s, b);
    if (status != AS_OK)
        finish(s);
    else
        *state = s;
    return status;
}

#define DEFINE_HOOKS(name, kind)                                                                                       \
    as_status as_alloc_##name##_prepare_cpu(const as_call *call, void **state, as_error *e) {                          \
        return prepare(call, kind, state, e);                                                                          \
    }                                                                                                                  \
    void as_alloc_##name##_finish_cpu(void *state) { finish(state); }                                                  \
    as_status as_alloc_##name##_cpu(const as_call *call, as_error *e) { return run(call, e); }

DEFINE_HOOKS(malloc, MALLOC)
DEFINE_HOOKS(mmap, MMAP)
DEFINE_HOOKS(huge, HUGE)
DEFINE_HOOKS(mlock, MLOCK)
DEFINE_HOOKS(slab, SLAB)
