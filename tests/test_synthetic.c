/* The synthetic suite: outputs against the reference with every kind of injection, kernels that skip a step or a piece
 * refused, shares parsed, the amount of work exact, and no cache serving the injection. */
#include "host_case.h"
#include "kernels/synthetic/synthetic.h"
#include "suites/suites.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static as_work work_of(const char *variant, const char *axes) { return host_work(&as_synthetic_suite, variant, axes); }

/* Outputs that differ from the reference of one operation by `run`. */
static int64_t wrong(const char *variant, const char *axes, as_run_fn run) {
    as_variant v = *host_variant(&as_synthetic_suite, variant);
    v.run = run;
    host_case t;
    host_begin(&t, &as_synthetic_suite, &v, axes, team_of_three);
    host_run(&t);
    const int64_t bad = host_wrong(&t);
    host_end(&t);
    return bad;
}

static void outputs_match_the_reference(void **state) {
    (void)state;
    setenv("ASSAY_INJECT", "0.05,1.3,0", 1);
    for (int set = 0; set < 2; set++) {
        assert_int_equal(wrong("spin", "us=20", as_synthetic_spin_cpu), 0);
        assert_int_equal(wrong("spin", "us=21;inject=1", as_synthetic_spin_cpu), 0);
        assert_int_equal(wrong("spin", "us=20;inject=2", as_synthetic_spin_cpu), 0);
        assert_int_equal(wrong("stream", "bytes=16777216", as_synthetic_stream_cpu), 0);
        assert_int_equal(wrong("stream", "bytes=16793600;inject=1;threads=all", as_synthetic_stream_cpu), 0);
        assert_int_equal(wrong("stream", "bytes=16777216;inject=2;threads=all", as_synthetic_stream_cpu), 0);
        assert_int_equal(wrong("stream", "bytes=262144;passes=64;inject=1", as_synthetic_stream_cpu), 0);
        assert_int_equal(wrong("stream", "bytes=262144;passes=65;inject=2;threads=all", as_synthetic_stream_cpu), 0);
        unsetenv("ASSAY_INJECT"); /* then an injected case does the stated work */
    }
}

/* The reference by another way than squaring: the loop itself, in 64-bit arithmetic. */
static void closed_form_is_the_loop(void **state) {
    (void)state;
    for (uint32_t steps = 0; steps < 300; steps += 1 + steps / 9) {
        const uint32_t start = 4000000000u;
        uint64_t x = start;
        for (uint32_t k = 0; k < steps; k++)
            x = (x * AS_SYNTHETIC_A + AS_SYNTHETIC_C) % (UINT64_C(1) << 32);
        const as_work w = {.operand = {{.count = 1}, {.key = steps}}, .rows = 1, .columns = 1};
        const void *in[] = {&start};
        const int64_t row = 0;
        double expected, scale;
        as_error e;
        const as_reference r = {
            .work = &w, .input = in, .rows = &row, .n_rows = 1, .expected = &expected, .scale = &scale};
        assert_int_equal(as_synthetic_reference(&r, &e), AS_OK);
        assert_true(expected == (double)x);
    }
}

static as_status one_step_short(const as_call *call, as_error *e) {
    *(int64_t *)call->state -= 1;
    return as_synthetic_spin_cpu(call, e);
}

static as_status without_the_injection(const as_call *call, as_error *e) {
    ((as_synthetic_pieces *)call->state)->reads = 1024;
    return as_synthetic_stream_cpu(call, e);
}

static as_status injection_from_elsewhere(const as_call *call, as_error *e) {
    ((as_synthetic_pieces *)call->state)->from = 0;
    return as_synthetic_stream_cpu(call, e);
}

static void work_that_was_not_done_is_refused(void **state) {
    (void)state;
    setenv("ASSAY_INJECT", "0.05", 1);
    assert_int_equal(wrong("spin", "us=20;inject=1", one_step_short), 1);
    assert_int_equal(wrong("stream", "bytes=16777216;inject=1", without_the_injection), 51);
    assert_int_equal(wrong("stream", "bytes=16777216;inject=1", injection_from_elsewhere), 51);
    unsetenv("ASSAY_INJECT");
}

/* The stated work stays; the extra work is the share to 0.05% of the whole, over the range of the axes. */
static void injection_is_exact(void **state) {
    (void)state;
    const char *const shares[] = {"0.01", "0.02", "0.05", "0.2", "10"};
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        const double share = atof(shares[i]);
        setenv("ASSAY_INJECT", shares[i], 1);
        const as_work base = work_of("spin", "us=20"), more = work_of("spin", "us=20;inject=1");
        assert_true(base.items == more.items && base.operand[1].key == 20 * AS_SYNTHETIC_CPU_STEPS);
        assert_true(fabs(more.operand[1].key / (double)base.operand[1].key - 1 - share) < 5e-4);
        const as_work few = work_of("stream", "bytes=16777216");
        const as_work many = work_of("stream", "bytes=16777216;inject=1");
        assert_true(few.bytes_read == many.bytes_read && few.rows == 1024);
        assert_true(fabs((double)many.rows / (double)few.rows - 1 - share) < 5e-4);
    }
    unsetenv("ASSAY_INJECT");
}

/* Between two reads of a piece, in one operation or from one to the next, lie reads of half the words. */
static void no_cache_serves_the_injection(void **state) {
    (void)state;
    const char *const shares[] = {"0.02", "0.05", "0.2", "0.5", "0.77", "1.3"};
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        as_synthetic_pieces s;
        as_error e;
        const as_params p = case_params(&as_synthetic_suite, "bytes=16777216;inject=1");
        int64_t last[1024];
        setenv("ASSAY_INJECT", shares[i], 1);
        assert_int_equal(as_synthetic_pieces_of(&p, &s, &e), AS_OK);
        for (int64_t k = 0; k < s.whole; k++)
            last[k] = -s.whole;
        for (int64_t t = 0; t < 3 * s.reads; t++) {
            const int64_t piece = as_synthetic_piece(s, t % s.reads);
            assert_in_range(piece, 0, s.whole - 1);
            assert_true(t - last[piece] >= s.whole / 2);
            last[piece] = t;
        }
    }
    unsetenv("ASSAY_INJECT");
}

static void shares_are_read_strictly(void **state) {
    (void)state;
    const struct {
        const char *list;
        int k;
        double share;
    } good[] = {{"0.05", 1, 0.05}, {"0.05,0.20", 2, 0.2}, {"0", 1, 0}, {"10", 1, 10}, {".5,1.", 2, 1}};
    const char *const bad[] = {"",     "-0.05", "+1",   "x",    "11",    "1e-2", "inf",    "nan", "0.05,",   ",0.1",
                               "1,,2", "0.05%", " 0.1", "0.1 ", "1.2.3", ".",    "0.05,x", "0x1", "0.05;0.2"};
    as_error e;
    double share;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(as_synthetic_share(good[i].list, good[i].k, &share, &e), AS_OK);
        assert_true(share == good[i].share);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (as_synthetic_share(bad[i], 1, &share, &e) != AS_EUSAGE)
            fail_msg("'%s' is not refused", bad[i]);
        assert_non_null(strstr(e.message, "ASSAY_INJECT"));
    }
    assert_int_equal(as_synthetic_share("0.05", 2, &share, &e), AS_EUSAGE);
    assert_non_null(strstr(e.message, "inject:2"));
}

static double spin_ns(const char *axes) {
    as_params p = case_params(&as_synthetic_suite, axes);
    uint32_t start = 7, end;
    void *operand[] = {&start, &end};
    as_call call = {.params = &p, .operand = operand, .device = &cpu, .team = team_of_three};
    as_error e;
    double least = INFINITY;
    assert_int_equal(as_synthetic_spin_prepare_cpu(&call, &call.state, &e), AS_OK);
    for (int i = 0; i < 50; i++) {
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC_RAW, &a);
        assert_int_equal(as_synthetic_spin_cpu(&call, &e), AS_OK);
        clock_gettime(CLOCK_MONOTONIC_RAW, &b);
        least = fmin(least, (double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec));
    }
    as_synthetic_spin_finish_cpu(call.state);
    return least;
}

/* Steps that a compiler had joined would make a chain of ten times the steps cost less than that. The least of 50
 * short runs, so that a busy machine does not matter. */
static void time_grows_with_the_steps(void **state) {
    (void)state;
    const double ratio = spin_ns("us=500") / spin_ns("us=50");
    if (!(ratio > 8 && ratio < 12.5))
        fail_msg("10 times the steps take %.2f times as long", ratio);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_match_the_reference),       cmocka_unit_test(closed_form_is_the_loop),
        cmocka_unit_test(work_that_was_not_done_is_refused), cmocka_unit_test(injection_is_exact),
        cmocka_unit_test(no_cache_serves_the_injection),     cmocka_unit_test(shares_are_read_strictly),
        cmocka_unit_test(time_grows_with_the_steps),
    };
    return cmocka_run_group_tests(tests, host_open, host_close);
}
