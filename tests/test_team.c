/* The team: every member runs once a dispatch, on its own CPU, whatever sleeps or spins; also run under TSan. */
#include "place.h"
#include "team.h"

#include <dirent.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MAX_TEAM = 16 };

static cpu_set_t before;

static int save_affinity(void **state) {
    (void)state;
    return sched_getaffinity(0, sizeof before, &before);
}

static int restore_affinity(void **state) {
    (void)state;
    return sched_setaffinity(0, sizeof before, &before);
}

/* A placement of n entries on at most `distinct` real CPUs: more members than CPUs where n is larger. */
static as_placement crowded(int n, int distinct) {
    as_placement real, p;
    as_error e;
    assert_int_equal(as_place_resolve(NULL, &real, &e), AS_OK);
    if (distinct > real.cpus)
        distinct = real.cpus;
    p = real;
    p.cpus = n;
    for (int k = 0; k < n; k++)
        p.cpu[k] = real.cpu[k % distinct];
    return p;
}

static int thread_count(void) {
    int n = 0;
    DIR *dir = opendir("/proc/self/task");
    assert_non_null(dir);
    for (struct dirent *d; (d = readdir(dir));)
        n += d->d_name[0] != '.';
    closedir(dir);
    return n;
}

/* A joined thread may stay listed for a moment. */
static void expect_threads(int n) {
    for (int i = 0; i < 1000 && thread_count() != n; i++)
        usleep(1000);
    assert_int_equal(thread_count(), n);
}

typedef struct work {
    int input;            /* plain: written by the caller before a dispatch, read by all */
    long calls[MAX_TEAM]; /* plain: each written by its member, read by the caller afterwards */
    int cpu[MAX_TEAM];
    int size;
    int slow_member; /* sleeps so that the others wait beyond their spin; -1: none */
} work;

static void tally(int member, int size, void *context) {
    work *w = context;
    w->calls[member] += w->input;
    w->cpu[member] = sched_getcpu();
    if (member == 0)
        w->size = size;
    if (member == w->slow_member)
        usleep(300);
}

static void expect_dispatches(int size, int distinct, int rounds, int pause_us, int slow_member) {
    as_placement p = crowded(size, distinct);
    as_team *team;
    as_error e;
    work w = {.slow_member = slow_member};
    long sum = 0;
    assert_int_equal(as_team_create(&team, size, &p, &e), AS_OK);
    assert_int_equal(as_team_size(team), size);
    for (int i = 1; i <= rounds; i++) {
        w.input = i;
        sum += i;
        as_team_run(team, tally, &w);
        for (int m = 0; m < size; m++) {
            assert_int_equal(w.calls[m], sum); /* done when run returns, exactly once */
            assert_int_equal(w.cpu[m], p.cpu[m]);
        }
        if (pause_us)
            usleep((useconds_t)pause_us);
    }
    assert_int_equal(w.size, size);
    as_team_destroy(team);
}

static void back_to_back(void **state) {
    (void)state;
    for (int size = 1; size <= 4; size++)
        expect_dispatches(size, size, 2000, 0, -1);
}

static void members_that_fell_asleep_wake(void **state) {
    (void)state;
    expect_dispatches(2, 2, 200, 500, -1);
    expect_dispatches(4, 2, 100, 500, -1);
}

static void caller_that_fell_asleep_wakes(void **state) {
    (void)state;
    expect_dispatches(2, 2, 200, 0, 1);
    expect_dispatches(4, 2, 100, 0, 3);
}

static void slow_caller(void **state) {
    (void)state;
    expect_dispatches(3, 2, 100, 0, 0);
}

static void more_members_than_cpus(void **state) {
    (void)state;
    expect_dispatches(MAX_TEAM, 1, 200, 0, -1);
    expect_dispatches(5, 1, 200, 0, 2);
}

static void widen(int member, int size, void *context) {
    (void)context;
    if (member == size - 1)
        sched_setaffinity(0, sizeof before, &before);
}

static void member_that_left_its_cpu_is_noticed(void **state) {
    (void)state;
    as_placement p = crowded(2, 2);
    as_team *team;
    as_error e;
    if (CPU_COUNT(&before) < 2)
        skip();
    assert_int_equal(as_team_create(&team, 2, &p, &e), AS_OK);
    assert_true(as_team_holds(team));
    as_team_run(team, widen, NULL);
    assert_false(as_team_holds(team));
    as_team_destroy(team);
}

static void size_beyond_the_placement_is_refused(void **state) {
    (void)state;
    as_placement p = crowded(2, 2);
    as_team *team = (as_team *)&p;
    as_error e = {0};
    assert_int_equal(as_team_create(&team, 3, &p, &e), AS_EENV);
    assert_null(team);
    assert_non_null(strstr(e.message, "3 threads"));
    assert_int_equal(as_team_create(&team, 0, &p, &e), AS_EENV);
}

static void member_that_cannot_be_bound_fails_the_team(void **state) {
    (void)state;
    int threads = thread_count();
    as_placement p = crowded(3, 2);
    as_team *team;
    as_error e = {0};
    p.cpu[2] = 8191;
    assert_int_equal(as_team_create(&team, 3, &p, &e), AS_EENV);
    assert_null(team);
    assert_non_null(strstr(e.message, "8191"));
    expect_threads(threads);
    assert_int_equal(as_team_create(&team, 3, &p, NULL), AS_EENV); /* no error object wanted */
}

static void teams_come_and_go(void **state) {
    (void)state;
    int threads = thread_count();
    as_placement p = crowded(4, 2);
    as_error e;
    work w = {.input = 1, .slow_member = -1};
    for (int i = 0; i < 100; i++) {
        as_team *team;
        assert_int_equal(as_team_create(&team, 1 + i % 4, &p, &e), AS_OK);
        if (i % 2)
            as_team_run(team, tally, &w);
        as_team_destroy(team);
    }
    assert_int_equal(w.calls[0], 50);
    expect_threads(threads);
    as_team_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(back_to_back, save_affinity, restore_affinity),
        cmocka_unit_test_setup_teardown(members_that_fell_asleep_wake, save_affinity, restore_affinity),
        cmocka_unit_test_setup_teardown(caller_that_fell_asleep_wakes, save_affinity, restore_affinity),
        cmocka_unit_test_setup_teardown(slow_caller, save_affinity, restore_affinity),
        cmocka_unit_test_setup_teardown(more_members_than_cpus, save_affinity, restore_affinity),
        cmocka_unit_test_setup_teardown(member_that_left_its_cpu_is_noticed, save_affinity, restore_affinity),
        cmocka_unit_test_setup_teardown(size_beyond_the_placement_is_refused, save_affinity, restore_affinity),
        cmocka_unit_test_setup_teardown(member_that_cannot_be_bound_fails_the_team, save_affinity, restore_affinity),
        cmocka_unit_test_setup_teardown(teams_come_and_go, save_affinity, restore_affinity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
