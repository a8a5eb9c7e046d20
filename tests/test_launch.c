/* The host's side of suite launch: every call, wake-up, queued task and process counts; what cannot run says so; and the
 * tables of the suite agree with one another. */
#include "place.h"
#include "suites/launch_traits.h"
#include "suites/suites.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static as_device cpu = {.driver = &as_cpu_driver, .name = "cpu"};
static as_team *one, *two;

/* Two members even where there is one CPU: they then share it. */
static int make_teams(void **state) {
    (void)state;
    as_placement real, p;
    as_error e;
    if (as_place_resolve(NULL, &real, &e) != AS_OK)
        return -1;
    p = real;
    p.cpus = 2;
    p.cpu[1] = real.cpu[1 % real.cpus];
    return as_team_create(&one, 1, &p, &e) == AS_OK && as_team_create(&two, 2, &p, &e) == AS_OK ? 0 : -1;
}

static int end_teams(void **state) {
    (void)state;
    as_team_destroy(one);
    as_team_destroy(two);
    return 0;
}

static const as_variant *variant_of(const char *name) {
    for (const as_variant *v = as_launch_suite.variants; v->name; v++)
        if (strcmp(v->on, "cpu") == 0 && strcmp(v->name, name) == 0)
            return v;
    fail_msg("no cpu variant %s", name);
    return NULL;
}

static as_params params_of(int64_t chain, const char *threads) {
    as_params p;
    as_error e;
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)chain);
    assert_int_equal(as_params_init(&p, as_launch_suite.axes, as_launch_suite.n_axes, &e), AS_OK);
    assert_int_equal(as_params_set(&p, "chain", text, &e), AS_OK);
    assert_int_equal(as_params_set(&p, "threads", threads, &e), AS_OK);
    return p;
}

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* One operation with its counting twin, as the harness verifies it. Returns the time it took. */
static double counts(const char *name, int64_t chain, as_team *team, double *extra) {
    const as_variant *v = variant_of(name);
    as_params p = params_of(chain, team == two ? "2" : "1");
    as_work w;
    as_error e = {0};
    uint64_t counter = 0;
    as_call call = {.params = &p, .device = &cpu, .team = team, .counter = &counter, .extra = extra};
    if (as_launch_suite.describe(&p, v, &cpu, &w, &e) != AS_OK)
        fail_msg("%s: %s", name, e.message);
    if (v->prepare && v->prepare(&call, &call.state, &e) != AS_OK)
        fail_msg("%s: %s", name, e.message);
    const double begin = now_ns();
    for (int again = 1; again <= 2; again++) {
        if (v->run(&call, &e) != AS_OK)
            fail_msg("%s: %s", name, e.message);
        if (counter != (uint64_t)(again * w.expected_count))
            fail_msg("%s: %llu executions, expected %lld", name, (unsigned long long)counter,
                     (long long)(again * w.expected_count));
    }
    const double spent = now_ns() - begin;
    /* The timed operation itself: no counter. */
    call.counter = NULL;
    if (v->run(&call, &e) != AS_OK)
        fail_msg("%s: %s", name, e.message);
    if (v->finish)
        v->finish(call.state);
    return spent;
}

static void foreign_calls_count(void **state) {
    (void)state;
    static const char *const calls[] = {"call_static", "call_pointer", "call_plt", "call_library", "call_syscall"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        counts(calls[i], 1, one, NULL);
        counts(calls[i], 1000, one, NULL);
    }
}

/* No call is left out: a thousand of the cheapest cost more than a few. */
static void foreign_calls_are_made(void **state) {
    (void)state;
    const double few = counts("call_static", 10, one, NULL), many = counts("call_static", 100000, one, NULL);
    assert_true(many > 5 * few && many > 20000);
}

static void wake_ups_count(void **state) {
    (void)state;
    static const char *const wakes[] = {"wake_spin",      "wake_yield",   "wake_futex",
                                        "wake_condition", "wake_eventfd", "wake_pipe"};
    for (size_t i = 0; i < sizeof wakes / sizeof *wakes; i++) {
        counts(wakes[i], 1, two, NULL);
        counts(wakes[i], 20, two, NULL);
    }
}

static void queued_tasks_count_and_wait(void **state) {
    (void)state;
    double fresh = -1, idle = -1;
    counts("queue_fresh", 16, two, &fresh);
    const double spent = counts("queue_idle", 3, two, &idle);
    assert_true(fresh > 0 && fresh < 1e9);
    assert_true(idle > 0 && idle < 1e9);
    assert_true(spent >= 2.0 * 3 * AS_LAUNCH_IDLE_NS); /* the pauses are really made */
}

static void processes_end_well(void **state) {
    (void)state;
    counts("process_fork", 2, one, NULL);
    counts("process_spawn", 2, one, NULL);
}

static void one_thread_cannot_wake_another(void **state) {
    (void)state;
    static const char *const pairs[] = {"wake_futex", "wake_pipe", "queue_fresh", "queue_idle"};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        as_params p = params_of(1, "all");
        as_error e = {0};
        as_call call = {.params = &p, .device = &cpu, .team = one};
        assert_int_equal(variant_of(pairs[i])->prepare(&call, &call.state, &e), AS_EABSENT);
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
    return cmocka_run_group_tests_name("launch", tests, make_teams, end_teams) != 0;
}
