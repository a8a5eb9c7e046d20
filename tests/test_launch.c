/* The host's side of suite launch: every call, wake-up, queued task and process counts; what cannot run says so; and the
 * tables of the suite agree with one another. */
#include "host_case.h"
#include "suites/launch_traits.h"
#include "suites/suites.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* One operation with its counting twin, as the harness verifies it. Returns the time it took. */
static double counts(const char *name, int64_t chain, as_team *team, double *extra) {
    char axes[64];
    host_case t;
    snprintf(axes, sizeof axes, "chain=%lld;threads=%d", (long long)chain, as_team_size(team));
    host_begin(&t, &as_launch_suite, host_variant(&as_launch_suite, name), axes, team);
    const double begin = now_ns();
    for (int again = 1; again <= 2; again++) {
        host_run(&t);
        if (t.counter != (uint64_t)(again * t.work.expected_count))
            fail_msg("%s: %llu executions, expected %lld", name, (unsigned long long)t.counter,
                     (long long)(again * t.work.expected_count));
    }
    const double spent = now_ns() - begin;
    t.call.counter = NULL; /* the timed operation itself */
    host_run(&t);
    if (extra)
        *extra = t.extra[0];
    host_end(&t);
    return spent;
}

static void foreign_calls_count(void **state) {
    (void)state;
    static const char *const calls[] = {"call_static", "call_pointer", "call_plt", "call_library", "call_syscall"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        counts(calls[i], 1, team_of_one, NULL);
        counts(calls[i], 1000, team_of_one, NULL);
    }
}

/* No call is left out: a thousand of the cheapest cost more than a few. */
static void foreign_calls_are_made(void **state) {
    (void)state;
    const double few = counts("call_static", 10, team_of_one, NULL),
                 many = counts("call_static", 100000, team_of_one, NULL);
    assert_true(many > 5 * few && many > 20000);
}

static void wake_ups_count(void **state) {
    (void)state;
    static const char *const wakes[] = {"wake_spin",      "wake_yield",   "wake_futex",
                                        "wake_condition", "wake_eventfd", "wake_pipe"};
    for (size_t i = 0; i < sizeof wakes / sizeof *wakes; i++) {
        counts(wakes[i], 1, team_of_three, NULL);
        counts(wakes[i], 20, team_of_three, NULL);
    }
}

static void queued_tasks_count_and_wait(void **state) {
    (void)state;
    double fresh = -1, idle = -1;
    counts("queue_fresh", 16, team_of_three, &fresh);
    const double spent = counts("queue_idle", 3, team_of_three, &idle);
    assert_true(fresh > 0 && fresh < 1e9);
    assert_true(idle > 0 && idle < 1e9);
    assert_true(spent >= 2.0 * 3 * AS_LAUNCH_IDLE_NS); /* the pauses are really made */
}

static void processes_end_well(void **state) {
    (void)state;
    counts("process_fork", 2, team_of_one, NULL);
    counts("process_spawn", 2, team_of_one, NULL);
}

static void one_thread_cannot_wake_another(void **state) {
    (void)state;
    static const char *const pairs[] = {"wake_futex", "wake_pipe", "queue_fresh", "queue_idle"};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        as_params p = case_params(&as_launch_suite, "chain=1;threads=all");
        as_error e = {0};
        as_call call = {.params = &p, .device = &cpu, .team = team_of_one};
        assert_int_equal(host_variant(&as_launch_suite, pairs[i])->prepare(&call, &call.state, &e), AS_EABSENT);
        assert_null(call.state);
        assert_non_null(strstr(e.message, "CPU"));
    }
}

/* The list of the plan's points is the list of the misuses that are implemented. */
static void lists_of_misuses_agree(void **state) {
    (void)state;
    char joined[512] = "";
#define JOIN(name, fresh) strcat(strcat(joined, joined[0] ? "," : ""), #name);
    AS_LAUNCH_MISUSES(JOIN)
#undef JOIN
    assert_string_equal(joined, AS_LAUNCH_MISUSE_LIST);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(foreign_calls_count),    cmocka_unit_test(foreign_calls_are_made),
        cmocka_unit_test(wake_ups_count),         cmocka_unit_test(queued_tasks_count_and_wait),
        cmocka_unit_test(processes_end_well),     cmocka_unit_test(one_thread_cannot_wake_another),
        cmocka_unit_test(lists_of_misuses_agree),
    };
    return cmocka_run_group_tests_name("launch", tests, host_open, host_close) != 0;
}
