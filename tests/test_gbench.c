/* The shim over Google Benchmark: exact counts, manual time, counters, errors, exceptions, misuse, silence. */
#include "gbench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What C cannot write: the C++ library's own function that throws std::runtime_error(text). */
void throw_runtime_error(const char *text) __asm__("_ZSt21__throw_runtime_errorPKc");

typedef struct {
    int64_t batch, count;
    int calls;
    const char *text;
} probe;

static as_gb_row row;
static as_error err;

static as_status run(const char *name, int64_t iterations, bool manual, as_gb_body body, void *context) {
    const as_gb_spec spec = {
        .name = name, .iterations = iterations, .manual_time = manual, .body = body, .context = context};
    memset(&row, 0xa5, sizeof row); /* whatever the row does not set must not pass for a result */
    return as_gb_run(&spec, &row, &err);
}

static void count_body(as_gb_state *s, void *context) {
    probe *p = context;
    p->calls++;
    while (as_gb_keep_running_batch(s, p->batch))
        p->count += p->batch;
}
static void single_body(as_gb_state *s, void *context) {
    probe *p = context;
    p->calls++;
    while (as_gb_keep_running(s))
        p->count++;
}

static void iterations_are_exact(void **unused) {
    (void)unused;
    static const int64_t pairs[][2] = {{1, 1}, {7, 1}, {1000, 1}, {1000, 10}, {50, 50}, {1000000, 1000}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        probe p = {.batch = pairs[i][1]};
        assert_int_equal(run("matmul/tiled32/n:1024/dev:cuda0", pairs[i][0], false, count_body, &p), AS_OK);
        assert_int_equal(p.calls, 1); /* no warm-up, no repetition, no search for an iteration count */
        assert_int_equal(p.count, pairs[i][0]);
        assert_int_equal(row.iterations, pairs[i][0]);
        assert_false(row.failed);
        assert_true(row.real_time_ns > 0 && row.cpu_time_ns >= 0 && row.counters == 0);
        assert_true(row.label[0] == 0 && row.message[0] == 0);
    }
    probe p = {0};
    assert_int_equal(run("single", 77, false, single_body, &p), AS_OK);
    assert_true(p.calls == 1 && p.count == 77 && row.iterations == 77);
}

/* A last batch that does not fit is run whole and counted whole. */
static void ragged_batch(void **unused) {
    (void)unused;
    probe p = {.batch = 4};
    assert_int_equal(run("ragged", 10, false, count_body, &p), AS_OK);
    assert_true(p.count == 12 && row.iterations == 12);
}

static void manual_body(as_gb_state *s, void *context) {
    probe *p = context;
    while (as_gb_keep_running_batch(s, p->batch))
        as_gb_set_iteration_time(s, 1e-6 * (double)++p->count); /* 1, 2, 3 ... us a batch */
}
static void manual_times_sum(void **unused) {
    (void)unused;
    probe p = {.batch = 5};
    assert_int_equal(run("manual", 50, true, manual_body, &p), AS_OK);
    assert_int_equal(p.count, 10);
    assert_true(fabs(row.real_time_ns - 55000.0 / 50) < 1e-6); /* 1 + ... + 10 us over 50 iterations */
}

static void sleep_ms(long ms) { nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL); }
static void sleep_body(as_gb_state *s, void *context) {
    (void)context;
    sleep_ms(30); /* before the loop: untimed */
    while (as_gb_keep_running(s)) {
        sleep_ms(2);
        as_gb_pause_timing(s);
        sleep_ms(30);
        as_gb_resume_timing(s);
    }
}
static void real_time_is_the_loop_alone(void **unused) {
    (void)unused;
    assert_int_equal(run("sleep", 3, false, sleep_body, NULL), AS_OK);
    assert_false(row.failed);
    assert_true(row.real_time_ns >= 2e6 && row.real_time_ns < 25e6);
    assert_true(row.cpu_time_ns < 2e6); /* a sleeping process uses no processor */
}

static void count_and_label_body(as_gb_state *s, void *context) {
    count_body(s, context);
    as_gb_set_counter(s, "minor_faults", 3);
    as_gb_set_counter(s, "minor_faults", 4); /* the last value counts */
    as_gb_set_counter(s, "ratio", 0.25);
    as_gb_set_label(s, "a \"label\", with commas");
}
static void counters_and_label(void **unused) {
    (void)unused;
    probe p = {.batch = 10};
    assert_int_equal(run("counters", 100, false, count_and_label_body, &p), AS_OK);
    assert_int_equal(row.counters, 2);
    assert_string_equal(row.counter[0].name, "minor_faults");
    assert_true(row.counter[0].value == 4); /* a sum, not divided by iterations or threads */
    assert_string_equal(row.counter[1].name, "ratio");
    assert_true(row.counter[1].value == 0.25);
    assert_string_equal(row.label, "a \"label\", with commas");
}

static int many_counters;
static void many_counters_body(as_gb_state *s, void *context) {
    count_body(s, context);
    for (int i = 0; i < many_counters; i++) {
        char name[16];
        snprintf(name, sizeof name, "c%02d", i);
        as_gb_set_counter(s, name, i);
    }
}
static void counters_that_do_not_fit(void **unused) {
    (void)unused;
    many_counters = AS_GB_COUNTERS;
    probe p = {.batch = 1};
    assert_int_equal(run("counters", 1, false, many_counters_body, &p), AS_OK);
    assert_int_equal(row.counters, AS_GB_COUNTERS);
    many_counters++;
    assert_int_equal(run("counters", 1, false, many_counters_body, &p), AS_EUSAGE);
    assert_non_null(strstr(err.message, "16 counters"));
}

static void assert_failed(const char *message) {
    assert_true(row.failed);
    assert_string_equal(row.message, message);
    assert_true(row.real_time_ns == 0 && row.cpu_time_ns == 0 && row.counters == 0);
}

static void error_before_body(as_gb_state *s, void *context) {
    as_gb_skip_with_error(s, "no device");
    count_body(s, context);
}
static void error_and_return_body(as_gb_state *s, void *context) {
    (void)context;
    as_gb_skip_with_error(s, "no device");
}
static void error_inside_body(as_gb_state *s, void *context) {
    probe *p = context;
    while (as_gb_keep_running_batch(s, p->batch))
        if (++p->count == 3) {
            as_gb_skip_with_error(s, "launch failed");
            as_gb_skip_with_error(s, "a later error");
        }
}
static void error_after_body(as_gb_state *s, void *context) {
    count_body(s, context);
    as_gb_skip_with_error(s, "wrong output");
}
static void error_no_text_body(as_gb_state *s, void *context) {
    (void)context;
    as_gb_skip_with_error(s, NULL);
}
static void errors(void **unused) {
    (void)unused;
    probe p = {.batch = 1};
    assert_int_equal(run("e", 10, false, error_before_body, &p), AS_OK);
    assert_failed("no device");
    assert_int_equal(p.count, 0); /* the loop does not run */
    assert_int_equal(run("e", 10, false, error_and_return_body, &p), AS_OK);
    assert_failed("no device");
    assert_int_equal(run("e", 10, false, error_inside_body, &p), AS_OK);
    assert_failed("launch failed");
    assert_int_equal(p.count, 3); /* the loop ends at the error */
    assert_int_equal(run("e", 10, false, error_after_body, &p), AS_OK);
    assert_failed("wrong output");
    assert_int_equal(run("e", 10, false, error_no_text_body, &p), AS_OK);
    assert_failed("the body failed without a message");
}

static void throw_before_body(as_gb_state *s, void *context) {
    (void)s;
    throw_runtime_error(((probe *)context)->text);
}
static void throw_inside_body(as_gb_state *s, void *context) {
    probe *p = context;
    while (as_gb_keep_running(s))
        if (++p->count == 2)
            throw_runtime_error(p->text);
}
static void throw_paused_body(as_gb_state *s, void *context) {
    while (as_gb_keep_running(s)) {
        as_gb_pause_timing(s);
        throw_runtime_error(((probe *)context)->text);
    }
}
static void throw_after_body(as_gb_state *s, void *context) {
    count_body(s, context);
    throw_runtime_error(((probe *)context)->text);
}
static void exceptions_end_in_the_row(void **unused) {
    (void)unused;
    const as_gb_body bodies[] = {throw_before_body, throw_inside_body, throw_paused_body, throw_after_body};
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        probe p = {.batch = 1, .text = "thrown"};
        assert_int_equal(run("throws", 10, false, bodies[i], &p), AS_OK);
        assert_failed("thrown");
    }
    char big[2 * AS_GB_TEXT]; /* a message too long is cut, not written past the end */
    memset(big, 'x', sizeof big);
    big[sizeof big - 1] = 0;
    probe p = {.batch = 1, .text = big};
    assert_int_equal(run("throws", 10, false, throw_before_body, &p), AS_OK);
    assert_true(row.failed && strlen(row.message) == AS_GB_TEXT - 1);
    p = (probe){.batch = 1};
    assert_int_equal(run("after", 10, false, count_body, &p), AS_OK); /* and the next call is sound */
    assert_true(!row.failed && p.count == 10);
}

/* Misuse on which Google Benchmark itself aborts the process. */
static void early_body(as_gb_state *s, void *context) {
    (void)context;
    for (int i = 0; i < 3; i++)
        as_gb_keep_running(s);
}
static void empty_body(as_gb_state *s, void *context) {
    (void)s;
    (void)context;
}
static void paused_body(as_gb_state *s, void *context) {
    (void)context;
    while (as_gb_keep_running(s))
        as_gb_pause_timing(s);
}
static void twice_body(as_gb_state *s, void *context) {
    (void)context;
    while (as_gb_keep_running(s)) {
        as_gb_pause_timing(s);
        as_gb_pause_timing(s);
    }
}
static void unpaused_body(as_gb_state *s, void *context) {
    (void)context;
    while (as_gb_keep_running(s))
        as_gb_resume_timing(s);
}
static void again_body(as_gb_state *s, void *context) {
    count_body(s, context);
    count_body(s, context); /* a second loop finds nothing left */
}
static void misuse_is_a_failed_row(void **unused) {
    (void)unused;
    static const struct {
        as_gb_body body;
        const char *message;
    } c[] = {
        {early_body, "the body returned before its loop ended"},
        {empty_body, "the body returned before its loop ended"},
        {paused_body, "the timing was left paused at the end of an iteration"},
        {twice_body, "timing paused twice or outside of the loop"},
        {unpaused_body, "timing resumed that was not paused"},
    };
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        assert_int_equal(run("misuse", 10, false, c[i].body, NULL), AS_OK);
        assert_failed(c[i].message);
    }
    for (int64_t batch = -1; batch <= 0; batch++) {
        probe p = {.batch = batch};
        assert_int_equal(run("misuse", 10, false, count_body, &p), AS_OK);
        assert_failed("a batch must count at least 1 iteration");
    }
    probe p = {.batch = 1};
    assert_int_equal(run("again", 10, false, again_body, &p), AS_OK);
    assert_true(!row.failed && p.count == 10 && row.iterations == 10);
}

static void nested_body(as_gb_state *s, void *context) {
    probe *p = context;
    const as_gb_spec inner = {.name = "inner", .iterations = 1, .body = count_body, .context = p};
    as_gb_row inner_row;
    as_error e;
    p->calls = (int)as_gb_run(&inner, &inner_row, &e);
    while (as_gb_keep_running(s))
        p->count++;
}
static void bad_specs(void **unused) {
    (void)unused;
    probe p = {.batch = 1};
    assert_int_equal(run("zero", 0, false, count_body, &p), AS_EUSAGE);
    assert_non_null(strstr(err.message, "iterations"));
    assert_int_equal(run("minus", -5, false, count_body, &p), AS_EUSAGE);
    assert_int_equal(run("", 1, false, count_body, &p), AS_EUSAGE);
    assert_int_equal(run(NULL, 1, false, count_body, &p), AS_EUSAGE);
    assert_int_equal(run("no body", 1, false, NULL, &p), AS_EUSAGE);
    assert_int_equal(p.calls, 0);
    assert_int_equal(run("outer", 4, false, nested_body, &p), AS_OK);
    assert_true(p.calls == AS_EUSAGE && p.count == 4 && !row.failed);
}

/* Names that a filter or a format string could trip over. */
static void names_are_taken_as_they_are(void **unused) {
    (void)unused;
    static const char *const names[] = {"a/b:c", "%s%n", "(unclosed[", "-x", "\"quoted\", comma", "\xe5\x90\x8d\n"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        probe p = {.batch = 1};
        assert_int_equal(run(names[i], 3, false, count_body, &p), AS_OK);
        assert_int_equal(p.count, 3);
    }
}

/* Runs with the standard output and error in a file: not a byte of Google Benchmark's may reach the user. */
static void it_is_silent(void **unused) {
    (void)unused;
    char path[] = "/tmp/assay-gbench-XXXXXX";
    const int file = mkstemp(path), out = dup(1), error = dup(2);
    assert_true(file >= 0 && out >= 0 && error >= 0);
    fflush(NULL);
    dup2(file, 1);
    dup2(file, 2);
    probe p = {.batch = 1};
    const as_status status = run("silent", 10, false, count_body, &p);
    const as_status failing = run("silent", 10, false, error_and_return_body, NULL);
    fflush(NULL);
    dup2(out, 1);
    dup2(error, 2);
    const off_t bytes = lseek(file, 0, SEEK_END);
    close(file);
    close(out);
    close(error);
    unlink(path);
    assert_true(status == AS_OK && failing == AS_OK);
    assert_int_equal(bytes, 0);
}

static void version_is_told(void **unused) {
    (void)unused;
    const char *v = as_gb_version();
    assert_true(strcmp(v, "unknown") == 0 || (v[0] >= '0' && v[0] <= '9') || v[0] == 'v');
    assert_ptr_equal(v, as_gb_version());
}

int main(int argc, char **argv) {
    (void)argc;
    /* Variables from which Google Benchmark takes its flags. They act when the program is loaded, so set them and
     * start anew: no round may be repeated, filtered, warmed up or written to a file because of them. */
    if (!getenv("BENCHMARK_REPETITIONS")) {
        setenv("BENCHMARK_REPETITIONS", "3", 1);
        setenv("BENCHMARK_FILTER", "nothing", 1);
        setenv("BENCHMARK_MIN_WARMUP_TIME", "0.2", 1);
        setenv("BENCHMARK_LIST_TESTS", "true", 1);
        setenv("BENCHMARK_OUT", "/nonexistent/out.json", 1);
        setenv("BENCHMARK_REPORT_AGGREGATES_ONLY", "true", 1);
        execv("/proc/self/exe", argv);
        perror("execv");
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_silent), /* first: the library's own first use must be silent too */
        cmocka_unit_test(iterations_are_exact),
        cmocka_unit_test(ragged_batch),
        cmocka_unit_test(manual_times_sum),
        cmocka_unit_test(real_time_is_the_loop_alone),
        cmocka_unit_test(counters_and_label),
        cmocka_unit_test(counters_that_do_not_fit),
        cmocka_unit_test(errors),
        cmocka_unit_test(exceptions_end_in_the_row),
        cmocka_unit_test(misuse_is_a_failed_row),
        cmocka_unit_test(bad_specs),
        cmocka_unit_test(names_are_taken_as_they_are),
        cmocka_unit_test(version_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
