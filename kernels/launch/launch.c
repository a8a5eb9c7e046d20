/* What it costs a CPU to start a task, against a plan made beforehand.
 *
 * direct        the cheapest: a call that the compiler cannot inline or skip.
 * pool          wakes a team of pinned threads, waits for all of them, once for each task.
 * openmp        the same through a parallel region of OpenMP.
 * static_plan   every thread walks its own array of (function, argument) records: one dispatch for the whole chain.
 *
 * The comparison that matters is static_plan against pool and openmp at the same chain. Formulas: launch.h. */
#include "launch.h"

#include "../threads.h"

#include <omp.h>
#include <stdlib.h>
#include <time.h>

enum { LINE = 64 };

/* Executions by one member, alone on its cache line. */
typedef struct tally {
    _Alignas(LINE) int64_t runs;
} tally;

typedef void (*task_fn)(tally *t);

static void task_empty(tally *t) { (void)t; }
static void task_count(tally *t) { t->runs++; }

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Reads the clock until the time has passed: never shorter than asked, longer by at most one reading. */
static void task_spin(tally *t) {
    (void)t;
    for (int64_t end = now_ns() + AS_LAUNCH_SPIN_NS; now_ns() < end;) {
    }
}

static void task_spin_count(tally *t) {
    task_spin(t);
    t->runs++;
}

static task_fn task_for(const as_call *call) {
    if (as_launch_spins(call->params))
        return call->counter ? task_spin_count : task_spin;
    return call->counter ? task_count : task_empty;
}

as_status as_launch_direct_cpu(const as_call *call, as_error *e) {
    (void)e;
    tally t = {0};
    task_fn volatile task = task_for(call); /* read again before each call */
    int64_t chain = as_launch_chain_of(call->params);
    for (int64_t i = 0; i < chain; i++)
        task(&t);
    if (call->counter)
        *call->counter += (uint64_t)t.runs;
    return AS_OK;
}

/* ---- variants on several threads ---- */

typedef struct record {
    task_fn run;
    tally *argument;
} record;

typedef struct crew {
    int members;
    int64_t chain;
    task_fn volatile task;
    tally *tally; /* members */
    int *cpu;     /* members: where each one runs */
    record *plan; /* members * chain, by member; static_plan only */
} crew;

static void crew_free(void *state) {
    crew *c = state;
    if (!c)
        return;
    free(c->tally);
    free(c->cpu);
    free(c->plan);
    free(c);
}

static as_status crew_make(const as_call *call, bool with_plan, crew **out, as_error *e) {
    crew *c = calloc(1, sizeof *c);
    if (!c)
        return as_fail(e, AS_ENOMEM, "no memory for the state of a launch case");
    c->members = as_team_size(call->team);
    c->chain = as_launch_chain_of(call->params);
    c->task = task_for(call);
    c->tally = aligned_alloc(LINE, (size_t)c->members * sizeof *c->tally);
    c->cpu = calloc((size_t)c->members, sizeof *c->cpu);
    size_t records = with_plan ? (size_t)c->members * (size_t)c->chain : 0;
    if (with_plan)
        c->plan = malloc(records * sizeof *c->plan + 1);
    if (!c->tally || !c->cpu || (with_plan && !c->plan)) {
        crew_free(c);
        return as_fail(e, AS_ENOMEM, "no memory for a chain of %lld tasks",
                       (long long)as_launch_chain_of(call->params));
    }
    as_threads_cpus(call->team, c->cpu);
    for (size_t i = 0; i < records; i++)
        c->plan[i] = (record){c->task, &c->tally[i / (size_t)c->chain]};
    *out = c;
    return AS_OK;
}

static void begin(const as_call *call, crew *c) {
    if (!call->counter)
        return;
    for (int i = 0; i < c->members; i++)
        c->tally[i].runs = 0;
}

/* A task counts once, and only if every member ran it: unequal members leave the counter short. */
static void end(const as_call *call, const crew *c) {
    if (!call->counter)
        return;
    int64_t runs = c->tally[0].runs;
    for (int i = 1; i < c->members; i++)
        if (c->tally[i].runs != runs)
            return;
    *call->counter += (uint64_t)runs;
}

static void pool_task(int member, int size, void *context) {
    (void)size;
    crew *c = context;
    c->task(&c->tally[member]);
}

as_status as_launch_pool_prepare_cpu(const as_call *call, void **state, as_error *e) {
    return crew_make(call, false, (crew **)state, e);
}
void as_launch_pool_finish_cpu(void *state) { crew_free(state); }

as_status as_launch_pool_cpu(const as_call *call, as_error *e) {
    (void)e;
    crew *c = call->state;
    begin(call, c);
    for (int64_t i = 0; i < c->chain; i++)
        as_team_run(call->team, pool_task, c);
    end(call, c);
    return AS_OK;
}

static void plan_walk(int member, int size, void *context) {
    (void)size;
    const crew *c = context;
    const record *r = c->plan + member * c->chain;
    for (int64_t i = 0; i < c->chain; i++)
        r[i].run(r[i].argument);
}

as_status as_launch_static_plan_prepare_cpu(const as_call *call, void **state, as_error *e) {
    return crew_make(call, true, (crew **)state, e);
}
void as_launch_static_plan_finish_cpu(void *state) { crew_free(state); }

as_status as_launch_static_plan_cpu(const as_call *call, as_error *e) {
    (void)e;
    crew *c = call->state;
    begin(call, c);
    as_team_run(call->team, plan_walk, c);
    end(call, c);
    return AS_OK;
}

/* ---- OpenMP ---- */

/* Each thread of OpenMP pins itself to its member's CPU the first time that it runs; afterwards one thread-local
 * read a region remains. OpenMP may end and remake threads when the size of a region changes. */
static _Thread_local int pinned_to = -1;

static void pin_once(int cpu) {
    if (pinned_to == cpu)
        return;
    as_threads_pin(cpu);
    pinned_to = cpu;
}

static void start_openmp(void *context) {
    crew *c = context;
#pragma omp parallel num_threads(c->members)
    if (omp_get_thread_num() > 0)
        pin_once(c->cpu[omp_get_thread_num()]);
}

as_status as_launch_openmp_prepare_cpu(const as_call *call, void **state, as_error *e) {
    crew *c;
    AS_TRY(crew_make(call, false, &c, e));
    omp_set_dynamic(0);
    as_status s =
        omp_get_thread_limit() < c->members
            ? as_fail(e, AS_EENV, "OpenMP is limited to %d threads: unset OMP_THREAD_LIMIT", omp_get_thread_limit())
            : as_threads_spawn(call->team, start_openmp, c, e);
    if (s != AS_OK) {
        crew_free(c);
        return s;
    }
    *state = c;
    return AS_OK;
}
void as_launch_openmp_finish_cpu(void *state) { crew_free(state); }

as_status as_launch_openmp_cpu(const as_call *call, as_error *e) {
    (void)e;
    crew *c = call->state;
    begin(call, c);
    for (int64_t i = 0; i < c->chain; i++) {
#pragma omp parallel num_threads(c->members)
        {
            int member = omp_get_thread_num();
            if (member > 0)
                pin_once(c->cpu[member]);
            c->task(&c->tally[member]);
        }
    }
    end(call, c);
    return AS_OK;
}
