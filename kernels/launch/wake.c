/* What it costs to wake another thread: members 0 and 1 of the team, each on a CPU of its own, pass a turn to and fro
 * `chain` times. One operation is 2 chain hand-overs; an item is one of them.
 *
 *   wake_spin       both watch one word: the time of a cache line's way between two cores, about 100 ns
 *   wake_yield      as before, but each look is a system call
 *   wake_futex      asleep until woken: the kernel finds and starts the sleeper, 1 to 5 us, 50 us from deep idle states
 *   wake_condition  the same below a mutex
 *   wake_eventfd    asleep in read(2) of a counter
 *   wake_pipe       asleep in read(2) of a byte stream: what a process boundary would cost too */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LINE = 64 };

typedef struct wake_state wake_state;
/* Hands turn number `turn` to member `to`. */
typedef void (*post_fn)(wake_state *s, int to, uint32_t turn);
/* Returns once turn number `turn` was handed to member `me`. False: the kernel refused. */
typedef bool (*await_fn)(wake_state *s, int me, uint32_t turn);

struct wake_state {
    _Alignas(LINE) _Atomic uint32_t turn;
    _Alignas(LINE) post_fn post;
    await_fn await;
    int64_t chain;
    pthread_mutex_t mutex;
    pthread_cond_t moved;
    int read_end[2], write_end[2]; /* by member that reads; equal for eventfd; -1: none */
    uint64_t heard[2];
};

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void post_word(wake_state *s, int to, uint32_t turn) {
    (void)to;
    atomic_store_explicit(&s->turn, turn, memory_order_release);
}

static bool await_spin(wake_state *s, int me, uint32_t turn) {
    (void)me;
    while (atomic_load_explicit(&s->turn, memory_order_acquire) != turn)
        relax();
    return true;
}

static bool await_yield(wake_state *s, int me, uint32_t turn) {
    (void)me;
    while (atomic_load_explicit(&s->turn, memory_order_acquire) != turn)
        sched_yield();
    return true;
}

static void post_futex(wake_state *s, int to, uint32_t turn) {
    post_word(s, to, turn);
    syscall(SYS_futex, &s->turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static bool await_futex(wake_state *s, int me, uint32_t turn) {
    (void)me;
    for (uint32_t now; (now = atomic_load_explicit(&s->turn, memory_order_acquire)) != turn;)
        syscall(SYS_futex, &s->turn, FUTEX_WAIT_PRIVATE, now, NULL, NULL, 0);
    return true;
}

static void post_condition(wake_state *s, int to, uint32_t turn) {
    pthread_mutex_lock(&s->mutex);
    post_word(s, to, turn);
    pthread_mutex_unlock(&s->mutex);
    pthread_cond_signal(&s->moved);
}

static bool await_condition(wake_state *s, int me, uint32_t turn) {
    (void)me;
    pthread_mutex_lock(&s->mutex);
    while (atomic_load_explicit(&s->turn, memory_order_relaxed) != turn)
        pthread_cond_wait(&s->moved, &s->mutex);
    pthread_mutex_unlock(&s->mutex);
    return true;
}

/* An eventfd takes exactly 8 bytes, a pipe as many. The kernel has room for one message: neither write can block. */
static void post_descriptor(wake_state *s, int to, uint32_t turn) {
    (void)turn;
    const uint64_t one = 1;
    while (write(s->write_end[to], &one, sizeof one) < 0 && errno == EINTR)
        ;
}

static bool await_descriptor(wake_state *s, int me, uint32_t turn) {
    (void)turn;
    uint64_t one = 0;
    ssize_t n;
    while ((n = read(s->read_end[me], &one, sizeof one)) < 0 && errno == EINTR)
        ;
    return n == sizeof one && one == 1;
}

static void pass(int member, int size, void *context) {
    (void)size;
    wake_state *s = context;
    uint64_t heard = 0;
    if (member > 1)
        return;
    for (uint32_t i = 0; i < (uint32_t)s->chain; i++) {
        if (member == 0)
            s->post(s, 1, 2 * i + 1);
        heard += s->await(s, member, 2 * i + 1 + (member == 0));
        if (member == 1)
            s->post(s, 0, 2 * i + 2);
    }
    s->heard[member] = heard;
}

static as_status run(const as_call *call, as_error *e) {
    wake_state *s = call->state;
    atomic_store(&s->turn, 0);
    as_team_run(call->team, pass, s);
    const uint64_t heard = s->heard[0] + s->heard[1];
    if (call->counter)
        *call->counter += heard;
    else if (heard != 2 * (uint64_t)s->chain)
        return as_fail(e, AS_EFAIL, "only %llu of %lld wake-ups arrived", (unsigned long long)heard,
                       2 * (long long)s->chain);
    return AS_OK;
}

static void finish(void *state) {
    wake_state *s = state;
    if (!s)
        return;
    for (int i = 0; i < 2; i++) {
        if (s->read_end[i] >= 0)
            close(s->read_end[i]);
        if (s->write_end[i] >= 0 && s->write_end[i] != s->read_end[i])
            close(s->write_end[i]);
    }
    pthread_cond_destroy(&s->moved);
    pthread_mutex_destroy(&s->mutex);
    free(s);
}

typedef enum descriptors { NONE, EVENT, PIPE } descriptors;

static as_status prepare(const as_call *call, post_fn post, await_fn await, descriptors kind, void **state,
                         as_error *e) {
    if (as_team_size(call->team) < 2)
        return as_fail(e, AS_EABSENT, "needs two CPUs");
    wake_state *s = aligned_alloc(LINE, sizeof *s);
    if (!s)
        return as_fail(e, AS_ENOMEM, "no memory for the state of a wake-up");
    memset(s, 0, sizeof *s);
    s->post = post;
    s->await = await;
    s->chain = as_launch_chain_of(call->params);
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->moved, NULL);
    for (int i = 0; i < 2; i++)
        s->read_end[i] = s->write_end[i] = -1;
    int failed = 0;
    for (int i = 0; i < 2 && kind != NONE && !failed; i++) {
        int ends[2] = {-1, -1};
        if (kind == EVENT)
            failed = (ends[0] = ends[1] = eventfd(0, EFD_CLOEXEC)) < 0;
        else
            failed = pipe2(ends, O_CLOEXEC) != 0;
        s->read_end[i] = ends[0];
        s->write_end[i] = ends[1];
    }
    if (failed) {
        const int code = errno;
        finish(s);
        return as_fail_code(e, AS_EENV, code, "cannot make a descriptor: %s; raise ulimit -n", strerror(code));
    }
    *state = s;
    return AS_OK;
}

#define DEFINE_HOOKS(name, post, await, kind)                                                                          \
    as_status as_launch_wake_##name##_prepare_cpu(const as_call *call, void **state, as_error *e) {                    \
        return prepare(call, post, await, kind, state, e);                                                             \
    }                                                                                                                  \
    void as_launch_wake_##name##_finish_cpu(void *state) { finish(state); }                                            \
    as_status as_launch_wake_##name##_cpu(const as_call *call, as_error *e) { return run(call, e); }

DEFINE_HOOKS(spin, post_word, await_spin, NONE)
DEFINE_HOOKS(yield, post_word, await_yield, NONE)
DEFINE_HOOKS(futex, post_futex, await_futex, NONE)
DEFINE_HOOKS(condition, post_condition, await_condition, NONE)
DEFINE_HOOKS(eventfd, post_descriptor, await_descriptor, EVENT)
DEFINE_HOOKS(pipe, post_descriptor, await_descriptor, PIPE)
