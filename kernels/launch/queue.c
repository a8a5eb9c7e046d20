/* How long a task waits in the queue of a user-level scheduler. Member 0 puts `chain` tasks into a queue, one at a time,
 * each after the one before has run; member 1 takes and runs them.
 *
 *   queue_fresh  the scheduler watches its queue: two ways of a cache line between cores, a few 100 ns
 *   queue_idle   1 ms passes before each task; the scheduler has gone to sleep after 50 us, and must be woken
 *
 * The series `wait` is the mean time from just before a task is put into the queue to its first instruction, by the
 * raw monotonic clock, which all CPUs share. The pauses of queue_idle are in the operation's own time. */
#include "launch.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 64, WATCH_NS = 50000 };

typedef struct task {
    void (*run)(struct task *t);
    int64_t queued_ns, started_ns;
    int64_t runs;
} task;

typedef struct queue {
    _Alignas(LINE) _Atomic uint32_t queued; /* tasks put in so far */
    _Alignas(LINE) _Atomic uint32_t done;
    _Alignas(LINE) _Atomic uint32_t asleep; /* the scheduler is, or is about to be */
    _Atomic uint32_t open;                  /* the scheduler has begun to look */
    _Alignas(LINE) bool idle;
    int64_t chain;
    task *tasks; /* chain */
} queue;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void work(task *t) { t->runs++; }

/* Waits for task number i: watches, and where the queue may idle sleeps after a while. No wake-up is lost: see team.c. */
static void await_task(queue *q, uint32_t i) {
    const int64_t until = q->idle ? now_ns() + WATCH_NS : INT64_MAX;
    for (uint32_t k = 1; atomic_load_explicit(&q->queued, memory_order_acquire) == i; k++) {
        if (k % 32 != 0 || !q->idle || now_ns() < until)
            continue;
        atomic_store(&q->asleep, 1);
        while (atomic_load(&q->queued) == i)
            syscall(SYS_futex, &q->queued, FUTEX_WAIT_PRIVATE, i, NULL, NULL, 0);
        atomic_store(&q->asleep, 0);
    }
}

static void schedule(queue *q) {
    atomic_store(&q->open, 1);
    for (uint32_t i = 0; i < (uint32_t)q->chain; i++) {
        await_task(q, i);
        task *t = &q->tasks[i];
        t->started_ns = now_ns();
        t->run(t);
        atomic_store_explicit(&q->done, i + 1, memory_order_release);
    }
}

static void submit(queue *q) {
    while (!atomic_load(&q->open))
        ;
    for (uint32_t i = 0; i < (uint32_t)q->chain; i++) {
        if (q->idle)
            for (const int64_t end = now_ns() + AS_LAUNCH_IDLE_NS; now_ns() < end;)
                ;
        q->tasks[i].queued_ns = now_ns();
        atomic_fetch_add(&q->queued, 1);
        if (atomic_load(&q->asleep))
            syscall(SYS_futex, &q->queued, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
        while (atomic_load_explicit(&q->done, memory_order_acquire) == i)
            ;
    }
}

static void member(int number, int size, void *context) {
    (void)size;
    if (number == 0)
        submit(context);
    else if (number == 1)
        schedule(context);
}

static as_status run(const as_call *call, as_error *e) {
    (void)e;
    queue *q = call->state;
    int64_t wait_ns = 0, runs = 0;
    atomic_store(&q->queued, 0);
    atomic_store(&q->done, 0);
    atomic_store(&q->open, 0);
    for (int64_t i = 0; i < q->chain; i++)
        q->tasks[i] = (task){.run = work};
    as_team_run(call->team, member, q);
    for (int64_t i = 0; i < q->chain; i++) {
        wait_ns += q->tasks[i].started_ns - q->tasks[i].queued_ns;
        runs += q->tasks[i].runs;
    }
    if (call->counter)
        *call->counter += (uint64_t)runs;
    if (call->extra)
        call->extra[0] = (double)wait_ns / (double)q->chain;
    return AS_OK;
}

static void finish(void *state) {
    queue *q = state;
    if (q)
        free(q->tasks);
    free(q);
}

static as_status prepare(const as_call *call, bool idle, void **state, as_error *e) {
    if (as_team_size(call->team) < 2)
        return as_fail(e, AS_EABSENT, "needs two CPUs");
    queue *q = aligned_alloc(LINE, sizeof *q);
    if (!q)
        return as_fail(e, AS_ENOMEM, "no memory for a queue");
    memset(q, 0, sizeof *q);
    q->idle = idle;
    q->chain = as_launch_chain_of(call->params);
    q->tasks = calloc((size_t)q->chain, sizeof *q->tasks);
    if (!q->tasks) {
        free(q);
        return as_fail(e, AS_ENOMEM, "no memory for %lld tasks", (long long)as_launch_chain_of(call->params));
    }
    *state = q;
    return AS_OK;
}

#define DEFINE_HOOKS(name, idle)                                                                                       \
    as_status as_launch_queue_##name##_prepare_cpu(const as_call *call, void **state, as_error *e) {                   \
        return prepare(call, idle, state, e);                                                                          \
    }                                                                                                                  \
    void as_launch_queue_##name##_finish_cpu(void *state) { finish(state); }                                           \
    as_status as_launch_queue_##name##_cpu(const as_call *call, as_error *e) { return run(call, e); }

DEFINE_HOOKS(fresh, false)
DEFINE_HOOKS(idle, true)
