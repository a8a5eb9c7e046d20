/* Suite launch on a GPU: every shape, wait, worker and cold case counts what it runs; configurations give exact outputs;
 * misuses leave codes and a device that works. This program is also its own fresh process. */
#include "gpu_device.h"
#include "host_case.h"

#include "kernels/cuda/internal.h"
#include "kernels/launch/child.h"
#include "place.h"
#include "suites/launch_traits.h"
#include "suites/suites.h"

#include <string.h>

static as_placement place;

static int open_all(void **state) {
    as_error e = {0};
    if (as_place_resolve(NULL, &place, &e) == AS_OK)
        return open_device(state);
    fprintf(stderr, "%s\n", e.message);
    return -1;
}

/* Twice with the counter, once as it is timed. False where this machine lacks what the case needs. */
static bool counts(const char *name, const char *axes, double extra[AS_MAX_EXTRA]) {
    const as_variant *v = case_variant(&as_launch_suite, "cuda", name);
    as_params p = case_params(&as_launch_suite, axes);
    as_work w;
    as_error why = {0};
    void *counter;
    uint64_t count = 0;
    assert_ok(as_launch_suite.describe(&p, v, &device, &w, e));
    if (v->available && v->available(&device, &why) == AS_EABSENT)
        return print_message("%s: %s\n", name, why.message), false;
    assert_ok(DRIVER.alloc(&device, AS_MEM_DEVICE, sizeof count, &counter, e));
    for (int timed = 0; timed < 2; timed++) {
        as_call call = {.params = &p,
                        .device = &device,
                        .stream = stream,
                        .place = &place,
                        .counter = timed ? NULL : counter,
                        .extra = extra};
        assert_ok(DRIVER.set(&device, counter, 0, sizeof count, e));
        const as_status prepared = v->prepare ? v->prepare(&call, &call.state, &why) : AS_OK;
        if (prepared == AS_EABSENT) {
            print_message("%s %s: %s\n", name, axes, why.message);
            DRIVER.release(&device, AS_MEM_DEVICE, counter);
            return false;
        }
        if (prepared != AS_OK)
            fail_msg("%s %s: %s", name, axes, why.message);
        for (int again = 1; again <= 2; again++) {
            assert_ok(v->run(&call, e));
            assert_ok(DRIVER.stream_sync(&device, stream, e));
            assert_ok(DRIVER.copy(&device, &count, counter, sizeof count, e));
            if (count != (uint64_t)(timed ? 0 : again * w.expected_count))
                fail_msg("%s %s: %llu executions, expected %lld", name, axes, (unsigned long long)count,
                         (long long)(timed ? 0 : again * w.expected_count));
        }
        if (v->finish)
            v->finish(call.state);
    }
    DRIVER.release(&device, AS_MEM_DEVICE, counter);
    for (int i = 0; i < AS_MAX_EXTRA && v->extra[i].name; i++)
        print_message("%s %s: %s %.0f %s\n", name, axes, v->extra[i].name, extra[i], v->extra[i].unit);
    return true;
}

static void all_count(const char *const *names, const char *const *axes) {
    double extra[AS_MAX_EXTRA];
    for (; *names; names++)
        for (const char *const *a = axes; *a; a++)
            counts(*names, *a, extra);
}

static void test_graphs(void **state) {
    (void)state;
    all_count((const char *const[]){"graph", "graph_instantiate", "graph_first_launch", "graph_upload", NULL},
              (const char *const[]){"chain=1", "chain=2;shape=fan_out", "chain=65;shape=fan_out",
                                    "chain=1;shape=copies", "chain=65;shape=copies",
                                    "chain=5;shape=fan_out;kernel=10us", NULL});
    all_count((const char *const[]){"graph_set_params", "graph_update", NULL},
              (const char *const[]){"chain=1", "chain=64", NULL});
}

static void test_waits(void **state) {
    (void)state;
    static const char *const all[] = {"wait_stream",     "wait_event",    "wait_poll_stream",
                                      "wait_poll_event", "wait_callback", NULL};
    all_count(all, (const char *const[]){"chain=1", "chain=7", "chain=3;kernel=10us", NULL});
    all_count(
        (const char *const[]){"wait_stream", NULL},
        (const char *const[]){"chain=3;schedule=spin", "chain=3;schedule=yield", "chain=3;schedule=blocking", NULL});
    all_count((const char *const[]){"wait_event", NULL}, (const char *const[]){"chain=3;schedule=blocking", NULL});
}

static void test_workers(void **state) {
    (void)state;
    all_count((const char *const[]){"workers_stream", "workers_streams", "workers_graph", NULL},
              (const char *const[]){"chain=1", "chain=64;workers=2", "chain=7;workers=4",
                                    "chain=3;workers=2;kernel=10us", NULL});
}

static void test_device_side(void **state) {
    (void)state;
    all_count((const char *const[]){"dependent", NULL},
              (const char *const[]){"chain=1", "chain=100", "chain=5;kernel=10us", NULL});
    all_count((const char *const[]){"grid_sync", NULL}, (const char *const[]){"chain=1", "chain=100", NULL});
}

static void test_priorities(void **state) {
    (void)state;
    double low[AS_MAX_EXTRA], high[AS_MAX_EXTRA], idle[AS_MAX_EXTRA];
    if (!counts("priority_loaded", "priority=low", low))
        return;
    assert_true(counts("priority_loaded", "priority=high", high) && counts("priority_idle", "", idle));
    assert_true(idle[0] > 500 && high[0] > 500 && low[0] > 500 && low[0] < 1e8);
}

static void test_cold(void **state) {
    (void)state;
    double x[AS_MAX_EXTRA] = {0};
    assert_true(counts("cold_context", "", x) && x[0] > 1e3 && x[1] > 1e6 && x[2] < x[1]);
    assert_true(counts("cold_runtime", "", x) && x[0] > x[1]);
    static const char *const images[] = {"image=cubin", "image=ptx", "image=ptx_cached"};
    for (int i = 0; i < 3; i++)
        assert_true(counts("cold_module", images[i], x) && x[0] > 1e3 && x[1] > 1e3 && x[2] > 1e3);
    assert_true(counts("contexts", "workers=2", x) && x[0] > 1e6 && x[1] > 1e6 && x[2] > 1e3);
}

static void test_misuses(void **state) {
    (void)state;
    double x[AS_MAX_EXTRA];
#define TRY(name, fresh)                                                                                               \
    memset(x, 0, sizeof x);                                                                                            \
    counts("misuse", "misuse=" #name, x);
    AS_LAUNCH_MISUSES(TRY)
#undef TRY
    /* Not the machine's to decide: other edges are refused, other parameters are not. */
    assert_true(counts("misuse", "misuse=update_dependencies", x) && x[0] > 0 && x[1] == 0 && x[2] == 0);
}

/* Exact, at sizes that fill no block, one block, and several. */
static void test_configurations(void **state) {
    (void)state;
    static const char *const names[] = {"config_memory", "config_compute"};
    static const char *const blocks[] = {"32", "64", "128", "256", "512", "1024", "auto", "rule1024"};
    static const int64_t sizes[] = {1, 31, 1023, 1025, 4096, 100003};
    for (int k = 0; k < 2; k++)
        for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++)
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                char axes[64];
                const size_t bytes = (size_t)sizes[s] * sizeof(uint32_t);
                snprintf(axes, sizeof axes, "n=%lld;block=%s", (long long)sizes[s], blocks[b]);
                as_params p = case_params(&as_launch_suite, axes);
                uint32_t *x = malloc(bytes), *y = malloc(bytes);
                void *operand[AS_MAX_OPERANDS] = {0};
                as_rng_fill(x, AS_U32, AS_BITS, 0, (uint64_t)sizes[s], 11, 1);
                for (int i = 0; i < 2; i++)
                    assert_ok(DRIVER.alloc(&device, AS_MEM_DEVICE, bytes, &operand[i], e));
                assert_ok(DRIVER.copy(&device, operand[0], x, bytes, e));
                assert_ok(DRIVER.set(&device, operand[1], 0xFF, bytes, e));
                const as_call call = {.params = &p, .device = &device, .stream = stream, .operand = operand};
                assert_ok(case_variant(&as_launch_suite, "cuda", names[k])->run(&call, e));
                assert_ok(DRIVER.stream_sync(&device, stream, e));
                assert_ok(DRIVER.copy(&device, y, operand[1], bytes, e));
                for (int64_t i = 0; i < sizes[s]; i++) {
                    uint32_t want = x[i] + 1;
                    if (k == 1) {
                        want = x[i];
                        for (int step = 0; step < AS_LAUNCH_CONFIG_STEPS; step++)
                            want = want * 1664525u + 1013904223u;
                    }
                    if (y[i] != want)
                        fail_msg("%s %s: element %lld", names[k], axes, (long long)i);
                }
                for (int i = 0; i < 2; i++)
                    DRIVER.release(&device, AS_MEM_DEVICE, operand[i]);
                free(x);
                free(y);
            }
}

/* ---- the fresh process itself: needs no GPU ---- */

static void child_says_why_it_cannot(void **state) {
    (void)state;
    as_child_report r;
    assert_ok(as_child_run("ffff:ff:1f.0", "contexts", "1", NULL, &r, e));
    assert_false(r.done);
    assert_int_equal(r.signal, 0);
    assert_true(strstr(r.message, "libcuda.so.1") || strstr(r.message, "cuInit") || strstr(r.message, "no GPU at"));
}

static void child_without_a_report_is_no_success(void **state) {
    (void)state;
    as_child_report r;
    assert_ok(as_child_run("ffff:ff:1f.0", "no such mode", "-", NULL, &r, e));
    assert_false(r.done);
    assert_string_equal(r.message, "the fresh process ended with status 2 and no report");
}

/* The fake driver before all others; what the program itself needs to start stays. */
static char library_path[8192];
static as_child_setting with_fake[] = {{"LD_LIBRARY_PATH", library_path}, {NULL, NULL}};

static int name_fake(void **state) {
    (void)state;
    const char *rest = getenv("LD_LIBRARY_PATH");
    snprintf(library_path, sizeof library_path, "%s%s%s", FAKE_CUDA_FOLDER, rest ? ":" : "", rest ? rest : "");
    return 0;
}

static void child_times_what_it_does(void **state) {
    (void)state;
    static const struct {
        const char *mode, *argument;
    } all[] = {{"context", "-"}, {"module", "cubin"}, {"module", "ptx_cached"}, {"contexts", "3"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        as_child_report r;
        assert_ok(as_child_run("0000:01:00.0", all[i].mode, all[i].argument, with_fake, &r, e));
        if (!r.done)
            fail_msg("%s %s: %s", all[i].mode, all[i].argument, r.message);
        for (int k = 0; k < 3; k++)
            assert_true(r.value[k] > 0 && r.value[k] < 1e9);
        if (strcmp(all[i].mode, "contexts") == 0)
            assert_true(r.value[1] == 16 << 20); /* memory of each */
    }
    as_child_report older;
    assert_ok(as_child_run("0000:01:00.0", "older_cubin", "-", with_fake, &older, e));
    assert_true(older.done && older.value[0] == 0 && older.value[1] == 0 && older.value[2] == 0);
}

static void child_does_not_hide_a_fault(void **state) {
    (void)state;
    as_child_report r;
    const as_child_setting wrong[] = {with_fake[0], {"FAKE_CUDA_WRONG", "1"}, {NULL, NULL}};
    assert_ok(as_child_run("0000:01:00.0", "module", "ptx", wrong, &r, e));
    assert_false(r.done);
    assert_string_equal(r.message, "the kernel's output is wrong");
    assert_ok(as_child_run("0000:01:00.0", "older_cubin", "-", wrong, &r, e));
    assert_true(r.done && r.value[1] == 0 && r.value[2] == 1);
    const as_child_setting dies[] = {with_fake[0], {"FAKE_CUDA_DIES", "1"}, {NULL, NULL}};
    assert_ok(as_child_run("0000:01:00.0", "context", "-", dies, &r, e));
    assert_false(r.done);
    assert_int_equal(r.signal, 9);
    assert_ok(as_child_run("0000:02:00.0", "module", "cubin", with_fake, &r, e));
    assert_true(!r.done && strstr(r.message, "no GPU at 0000:02:00.0"));
    assert_ok(as_child_run("0000:01:00.0", "contexts", "65", with_fake, &r, e));
    assert_true(!r.done && strstr(r.message, "1 to 64 contexts"));
}

/* A program that takes no notice of its words would start itself for ever. */
static void child_starts_no_child(void **state) {
    (void)state;
    as_child_report r;
    as_error why = {0};
    setenv("ASSAY_LAUNCH_CHILD", "1", 1);
    assert_int_equal(as_child_run("ffff:ff:1f.0", "contexts", "1", NULL, &r, &why), AS_EFAIL);
    unsetenv("ASSAY_LAUNCH_CHILD");
    assert_non_null(strstr(why.message, "unset ASSAY_LAUNCH_CHILD"));
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], AS_LAUNCH_CHILD_COMMAND) == 0)
        return as_launch_child_main(argc, argv);
    const struct CMUnitTest processes[] = {
        cmocka_unit_test(child_says_why_it_cannot),    cmocka_unit_test(child_without_a_report_is_no_success),
        cmocka_unit_test(child_starts_no_child),       cmocka_unit_test(child_times_what_it_does),
        cmocka_unit_test(child_does_not_hide_a_fault),
    };
    if (cmocka_run_group_tests_name("fresh processes", processes, name_fake, NULL) != 0)
        return 1;
    const int absent = without_device();
    if (absent)
        return absent;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graphs),      cmocka_unit_test(test_waits),      cmocka_unit_test(test_workers),
        cmocka_unit_test(test_device_side), cmocka_unit_test(test_priorities), cmocka_unit_test(test_configurations),
        cmocka_unit_test(test_misuses),     cmocka_unit_test(test_cold),
    };
    return cmocka_run_group_tests_name("launch on a GPU", tests, open_all, close_device) != 0;
}
