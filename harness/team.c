/* Dispatch: the caller writes fn and context, then advances `generation`; members wait for it to change, first
 * spinning, then asleep on it (futex). The way back is the same with `running`, which counts members down to 0.
 * No wake-up is lost: a sleeper first announces itself and the kernel then compares the word it sleeps on, while the
 * waker first changes the word and then looks for sleepers; both orders are sequentially consistent. */
#include "team.h"
#include "place.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Long enough to catch back-to-back dispatches, short enough that members sharing a CPU soon make room. */
enum { SPIN_NS = 50000, SPINS_PER_LOOK = 32, LINE_BYTES = 64 };

typedef struct member {
    struct as_team *team;
    pthread_t thread;
    int number;
    int cpu;
    bool holds;       /* written by the member when as_team_holds asks */
    as_status status; /* of binding; published by the first countdown */
    as_error error;
} member;

struct as_team {
    /* one line: all that a member reads at dispatch */
    alignas(LINE_BYTES) _Atomic uint32_t generation;
    as_team_fn fn; /* NULL: end */
    void *context;
    int size;
    const as_placement *place; /* only while the team is being created */

    alignas(LINE_BYTES) _Atomic uint32_t running;  /* members that have not finished, caller not counted */
    alignas(LINE_BYTES) _Atomic uint32_t sleeping; /* members asleep on generation, or about to be */
    _Atomic uint32_t caller_sleeping;

    alignas(LINE_BYTES) member members[]; /* [0] is the caller: without a thread of ours */
};

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void futex_wait(_Atomic uint32_t *word, uint32_t seen) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int count) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

/* Spins until *word differs from `seen` (until_zero: until it is 0) or the time is over; returns the last value. */
static uint32_t spin(_Atomic uint32_t *word, uint32_t seen, bool until_zero) {
    int64_t end = 0;
    for (unsigned i = 1;; i++) {
        uint32_t value = atomic_load_explicit(word, memory_order_acquire);
        if (until_zero ? value == 0 : value != seen)
            return value;
        if (i % SPINS_PER_LOOK == 0) {
            int64_t now = now_ns();
            if (end == 0)
                end = now + SPIN_NS;
            else if (now >= end)
                return value;
        }
        relax();
    }
}

static uint32_t await_generation(as_team *t, uint32_t seen) {
    uint32_t value = spin(&t->generation, seen, false);
    while (value == seen) {
        atomic_fetch_add(&t->sleeping, 1);
        futex_wait(&t->generation, seen);
        atomic_fetch_sub(&t->sleeping, 1);
        value = atomic_load_explicit(&t->generation, memory_order_acquire);
    }
    return value;
}

static void await_members(as_team *t) {
    uint32_t value = spin(&t->running, 0, true);
    if (value == 0)
        return;
    atomic_store(&t->caller_sleeping, 1);
    while ((value = atomic_load(&t->running)) != 0)
        futex_wait(&t->running, value);
    atomic_store_explicit(&t->caller_sleeping, 0, memory_order_relaxed);
}

static void finish_one(as_team *t) {
    if (atomic_fetch_sub(&t->running, 1) == 1 && atomic_load(&t->caller_sleeping))
        futex_wake(&t->running, 1);
}

static void *serve(void *argument) {
    member *m = argument;
    as_team *t = m->team;
    m->status = as_place_bind(t->place, m->number, &m->error);
    finish_one(t);
    for (uint32_t seen = 0;;) {
        seen = await_generation(t, seen);
        if (!t->fn)
            return NULL;
        t->fn(m->number, t->size, t->context);
        finish_one(t);
    }
}

static void dispatch(as_team *t, as_team_fn fn, void *context) {
    t->fn = fn;
    t->context = context;
    atomic_store_explicit(&t->running, (uint32_t)t->size - 1, memory_order_relaxed);
    atomic_fetch_add(&t->generation, 1);
    if (atomic_load(&t->sleeping))
        futex_wake(&t->generation, INT_MAX);
}

/* Starts members 1 .. size-1; on failure `t->size` says how many are left to end. */
static as_status start(as_team *t, as_error *e) {
    sigset_t all, before;
    as_status s = AS_OK;
    int wanted = t->size;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals belong to the thread that made the team */
    atomic_store(&t->running, (uint32_t)wanted - 1);
    for (int i = 1; i < wanted; i++) {
        t->members[i].team = t;
        t->members[i].number = i;
        int code = pthread_create(&t->members[i].thread, NULL, serve, &t->members[i]);
        if (code != 0) {
            atomic_fetch_sub(&t->running, (uint32_t)(wanted - i));
            s = as_fail_code(e, AS_EENV, code, "cannot start thread %d of %d: %s (a limit on processes?)", i, wanted,
                             strerror(code));
            wanted = i;
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    await_members(t);
    /* A member reads `size` only after a dispatch, so it may be written here. */
    t->size = wanted;
    for (int i = 1; i < wanted && s == AS_OK; i++)
        if (t->members[i].status != AS_OK) {
            s = t->members[i].status;
            if (e)
                *e = t->members[i].error;
        }
    return s;
}

as_status as_team_create(as_team **out, int size, const as_placement *place, as_error *e) {
    *out = NULL;
    if (size < 1 || size > place->cpus)
        return as_fail(e, AS_EENV, "a team of %d threads does not fit the placement's %d CPUs", size, place->cpus);
    AS_TRY(as_place_bind(place, 0, e));
    size_t bytes = sizeof(as_team) + (size_t)size * sizeof(member);
    bytes = (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    as_team *t = aligned_alloc(LINE_BYTES, bytes);
    if (!t)
        return as_fail(e, AS_ENOMEM, "no memory for a team of %d threads", size);
    memset(t, 0, bytes);
    t->size = size;
    t->place = place;
    for (int i = 0; i < size; i++)
        t->members[i].cpu = place->cpu[i];
    as_status s = start(t, e);
    t->place = NULL;
    if (s != AS_OK)
        as_team_destroy(t);
    else
        *out = t;
    return s;
}

void as_team_run(as_team *team, as_team_fn fn, void *context) {
    if (team->size > 1)
        dispatch(team, fn, context);
    fn(0, team->size, context);
    if (team->size > 1)
        await_members(team);
}

int as_team_size(const as_team *team) { return team->size; }

static void look(int number, int size, void *context) {
    (void)size;
    member *m = &((as_team *)context)->members[number];
    const as_placement own = {.cpus = 1, .cpu = {m->cpu}};
    m->holds = as_place_holds(&own, 0);
}

bool as_team_holds(as_team *team) {
    as_team_run(team, look, team);
    for (int i = 0; i < team->size; i++)
        if (!team->members[i].holds)
            return false;
    return true;
}

void as_team_destroy(as_team *team) {
    if (!team)
        return;
    dispatch(team, NULL, NULL);
    for (int i = 1; i < team->size; i++)
        pthread_join(team->members[i].thread, NULL);
    free(team);
}
