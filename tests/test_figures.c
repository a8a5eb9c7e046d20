/* Figures derived from samples: times, rates, ceilings, what is above its limit, and what is valid. */
#include "record.h"
#include "run.h"
#include "support/fake_plan.h"
#include "support/fake_suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>

#define assert_near(a, b, tolerance) assert_true(fabs((a) - (b)) <= (tolerance))

static as_run_state state;
static const int64_t steady[] = {100000, 100100, 99900, 100050, 99950, 100000};
static const int64_t ceiling_ns[] = {2000, 1990, 1600, 2010, 1995, 2005}; /* the fastest round: 1600 */

static int init(void **unused) {
    (void)unused;
    return as_run_state_init(&state, fake_plan(), NULL) == AS_OK ? 0 : -1;
}

static int release(void **unused) {
    (void)unused;
    as_run_state_free(&state);
    return 0;
}

/* The case's work may be changed by a test: the plan is built anew for each. */
static as_case *plan_case(int c) { return &state.plan->cases[c]; }

static void assert_validity(int c, const char *status, const char *reason) {
    const as_figures f = as_case_figures(&state, c);
    json_t *reasons = json_array();
    const char *is = as_case_validity(&state, c, &f, reasons);
    char *text = json_dumps(reasons, 0);
    if (strcmp(is, status) != 0 || (reason ? strstr(text, reason) == NULL : json_array_size(reasons) != 0))
        fail_msg("%s %s instead of %s '%s'", is, text, status, reason ? reason : "no reason");
    assert_string_equal(as_case_validity(&state, c, &f, NULL), status); /* reasons are optional */
    free(text);
    json_decref(reasons);
}

/* ---- times and rates ---- */

static void time_and_rates(void **unused) {
    (void)unused;
    fake_measured(&state, FAKE_VECTOR, steady, 6);
    const as_figures f = as_case_figures(&state, FAKE_VECTOR);
    double logs = 0;
    for (int i = 0; i < 6; i++)
        logs += log((double)steady[i]);
    const double ns = exp(logs / 6);
    assert_near(f.time.value, ns, 1e-6);
    assert_int_equal(f.time.units, 6);
    assert_true(f.time.low < ns && ns < f.time.high && f.time.relative_half_width < 0.01);
    assert_near(f.flop_rate, 8192 / ns * 1e9, 1);      /* 2 n */
    assert_near(f.bandwidth, 12 * 4096 / ns * 1e9, 1); /* read + written */
    assert_true(isnan(f.per_item_ns));
    assert_true(f.converged);
    assert_string_equal(f.scope, "within-launch");
    assert_true(f.fastest_ns == 99900);
}

static void the_batch_divides(void **unused) {
    (void)unused;
    fake_apply(&state, fake_warm(FAKE_VECTOR, 10));
    fake_apply(&state, fake_round(FAKE_VECTOR, 0, 0, 1000, 1));
    assert_near(as_case_figures(&state, FAKE_VECTOR).time.value, 100, 1e-9); /* ns of one operation */
}

static void nothing_measured(void **unused) {
    (void)unused;
    const as_figures f = as_case_figures(&state, FAKE_VECTOR);
    assert_true(isnan(f.time.value) && isnan(f.flop_rate) && isnan(f.bandwidth) && isnan(f.fraction) &&
                isnan(f.fastest_ns));
    assert_false(f.converged || f.above_limit);
    assert_string_equal(f.no_ceiling, "the case has no valid time");
}

static void few_units_never_converge(void **unused) {
    (void)unused;
    fake_measured(&state, FAKE_VECTOR, steady, 5);
    assert_false(as_case_figures(&state, FAKE_VECTOR).converged);
    assert_validity(FAKE_VECTOR, "suspect", "not converged: 5 units, at least 6 are needed");
}

static void wide_intervals_are_suspect(void **unused) {
    (void)unused;
    static const int64_t wide[] = {100000, 130000, 80000, 120000, 90000, 150000};
    fake_measured(&state, FAKE_VECTOR, wide, 6);
    assert_validity(FAKE_VECTOR, "suspect", "target 5%");
}

/* ---- ceilings ---- */

static void a_ceiling_counts_its_fastest_round(void **unused) {
    (void)unused;
    fake_measured(&state, FAKE_CEILING, ceiling_ns, 6);
    fake_measured(&state, FAKE_VECTOR, steady, 6);
    const as_figures f = as_case_figures(&state, FAKE_VECTOR);
    const double rate = 32768.0 / 1600, floor = 12 * 4096 / rate; /* bytes per ns; ns */
    assert_near(f.floor_ns, floor, 1e-6);
    assert_near(f.fraction, floor / f.time.value, 1e-9);
    assert_string_equal(f.limit, "memory"); /* the other bound has no ceiling here */
    assert_int_equal(f.ceiling, FAKE_CEILING);
    assert_null(f.no_ceiling);
    assert_false(f.above_limit);
    json_t *row = as_record_case(&state, FAKE_CEILING);
    const json_t *r = json_object_get(row, "rate");
    assert_string_equal(fake_text(r, "resource"), "memory");
    assert_string_equal(fake_text(r, "unit"), "bytes_per_s");
    assert_near(json_number_value(json_object_get(r, "value")), rate * 1e9, 1);
    json_decref(row);
    assert_string_equal(as_case_figures(&state, FAKE_CEILING).no_ceiling, "is a ceiling itself");
}

static void a_ceiling_that_failed_counts_for_nothing(void **unused) {
    (void)unused;
    fake_measured(&state, FAKE_CEILING, ceiling_ns, 6);
    fake_apply(&state, fake_status(FAKE_CEILING, "failed", "wrong output"));
    fake_measured(&state, FAKE_VECTOR, steady, 6);
    const as_figures f = as_case_figures(&state, FAKE_VECTOR);
    assert_true(isnan(f.fraction) && isnan(f.floor_ns) && f.ceiling == -1);
    assert_string_equal(f.no_ceiling, "its ceiling was not measured");
    fake_plan_options()->ceilings = false;
    assert_string_equal(as_case_figures(&state, FAKE_VECTOR).no_ceiling, "ceilings were switched off");
    fake_measured(&state, FAKE_COPY, steady, 6);
    assert_string_equal(as_case_figures(&state, FAKE_COPY).no_ceiling, "a test"); /* the suite's own reason */
}

static void fixed_time_is_part_of_the_floor(void **unused) {
    (void)unused;
    as_case *copy = plan_case(FAKE_COPY);
    copy->work.no_ceiling = NULL;
    copy->work.fixed_ns = 90000; /* no bound: a spin of known length is its own limit */
    fake_measured(&state, FAKE_COPY, steady, 6);
    as_figures f = as_case_figures(&state, FAKE_COPY);
    assert_near(f.floor_ns, 90000, 0);
    assert_near(f.fraction, 0.9, 0.001);
    assert_false(f.above_limit);
    copy->work.fixed_ns = 110000;
    assert_validity(FAKE_COPY, "suspect", "above its limit: 110% of the time that it spends by construction");
}

/* Above the limit: the slow end of the case's interval is faster than the fast end of the ceiling's. */
static void above_the_limit(void **unused) {
    (void)unused;
    fake_measured(&state, FAKE_CEILING, (const int64_t[]){1950, 2050, 1950, 2050, 1950, 2050}, 6);
    const double floor = 12.0 * 4096 / (32768 / 1950.0); /* of the fastest round: 2925 ns */
    const int64_t below = (int64_t)(floor * 1.02), near = (int64_t)(floor * 0.998), above = (int64_t)(floor * 0.9);
    const int64_t times[] = {below, near, above};
    const bool flagged[] = {false, false, true};   /* just above is within the ceiling's own interval */
    fake_measured(&state, FAKE_VECTOR, steady, 6); /* its medians are replaced below */
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 6; k++)
            state.outcome[FAKE_VECTOR].median_ns[k] = (double)(times[i] + k % 3);
        const as_figures f = as_case_figures(&state, FAKE_VECTOR);
        assert_int_equal(f.above_limit, flagged[i]);
        assert_near(f.fraction, floor / (double)(times[i] + 1), 0.001);
    }
    assert_validity(FAKE_VECTOR, "suspect", "above its limit: 111% of memory");
}

/* ---- validity ---- */

static void a_clean_case_is_valid(void **unused) {
    (void)unused;
    fake_measured(&state, FAKE_VECTOR, steady, 6);
    assert_validity(FAKE_VECTOR, "valid", NULL);
}

static void cases_that_are_not_done_are_invalid(void **unused) {
    (void)unused;
    assert_validity(FAKE_VECTOR, "invalid", "pending");
    fake_measured(&state, FAKE_VECTOR, steady, 6);
    fake_apply(&state, fake_status(FAKE_VECTOR, "lost", "the other process died"));
    assert_validity(FAKE_VECTOR, "invalid", "the other process died");
}

static void unchecked_output_is_suspect(void **unused) {
    (void)unused;
    fake_apply(&state, fake_warm(FAKE_VECTOR, 1));
    for (int i = 0; i < 6; i++)
        fake_apply(&state, fake_round(FAKE_VECTOR, 0, i, steady[i], 1));
    fake_apply(&state, fake_status(FAKE_VECTOR, "done", ""));
    assert_validity(FAKE_VECTOR, "suspect", "output not checked after timing");
}

static void flags_are_counted(void **unused) {
    (void)unused;
    fake_measured(&state, FAKE_VECTOR, steady, 6);
    for (size_t i = 0; i < 6; i += 2)
        json_array_append_new(json_object_get(json_array_get(state.outcome[FAKE_VECTOR].rounds, i), "flags"),
                              json_string("throttled: power cap"));
    assert_validity(FAKE_VECTOR, "suspect", "throttled: power cap (3 of 6 rounds)");
}

/* Values differ from round to round: one reason, with the largest. */
static void flags_of_one_kind_are_merged(void **unused) {
    (void)unused;
    static const char *const flags[] = {"other load: steal: 3.1% > 2.0%", "other load: steal: 12.4% > 2.0%",
                                        "other load: steal: 9.9% > 2.0%", "clocks moved",
                                        "major page faults: 2",           "L1 lost"};
    fake_measured(&state, FAKE_VECTOR, steady, 6);
    for (size_t i = 0; i < 6; i++)
        json_array_append_new(json_object_get(json_array_get(state.outcome[FAKE_VECTOR].rounds, i), "flags"),
                              json_string(flags[i]));
    assert_validity(FAKE_VECTOR, "suspect", "other load: steal: up to 12.4% > 2.0% (3 of 6 rounds)");
    assert_validity(FAKE_VECTOR, "suspect", "clocks moved (1 of 6 rounds)");
    assert_validity(FAKE_VECTOR, "suspect", "major page faults: 2 (1 of 6 rounds)");
    assert_validity(FAKE_VECTOR, "suspect", "L1 lost (1 of 6 rounds)");
    const as_figures f = as_case_figures(&state, FAKE_VECTOR);
    json_t *reasons = json_array();
    as_case_validity(&state, FAKE_VECTOR, &f, reasons);
    assert_int_equal(json_array_size(reasons), 4);
    json_decref(reasons);
}

/* ---- suspect and dropped ceilings ---- */

static void a_suspect_ceiling_marks_its_cases(void **unused) {
    (void)unused;
    static const int64_t fast[] = {2000, 2001, 2002, 2001, 2000, 2002};
    fake_measured(&state, FAKE_CEILING, fast, 6);
    fake_measured(&state, FAKE_VECTOR, steady, 6);
    assert_false(as_case_figures(&state, FAKE_VECTOR).ceiling_suspect);
    json_array_append_new(json_object_get(json_array_get(state.outcome[FAKE_CEILING].rounds, 0), "flags"),
                          json_string("clocks moved"));
    assert_true(as_case_figures(&state, FAKE_VECTOR).ceiling_suspect);
    json_t *row = as_record_case(&state, FAKE_VECTOR);
    assert_true(json_is_true(json_object_get(json_object_get(row, "ceiling"), "suspect")));
    json_decref(row);
    assert_validity(FAKE_VECTOR, "valid", NULL); /* its time is none the worse for it */
    assert_int_equal(as_summarise(&state).beside_suspect, 1);
}

static void a_dropped_ceiling_leaves_no_percentage(void **unused) {
    (void)unused;
    const as_plan *plan = state.plan;
    plan_case(FAKE_CEILING)->drop_reason = "ceilings take at most 15% of the budget";
    as_run_state_free(&state);
    assert_int_equal(as_run_state_init(&state, plan, NULL), AS_OK);
    fake_measured(&state, FAKE_VECTOR, steady, 6);
    const as_figures f = as_case_figures(&state, FAKE_VECTOR);
    assert_true(isnan(f.fraction));
    assert_non_null(strstr(f.no_ceiling, "was not measured: its entry in `ceilings` says why"));
    const as_summary sum = as_summarise(&state);
    assert_true(sum.ceilings_out == 1 && sum.not_reached == 1); /* ceilings are no cases; the copy is one */
}

/* ---- levels ---- */

static void where_more_launches_help(void **unused) {
    (void)unused;
    fake_measured(&state, FAKE_VECTOR, steady, 6);
    assert_int_equal(as_variance_advice(&state.outcome[FAKE_VECTOR]), AS_ADVICE_ONE_LAUNCH);
    json_t *row = as_record_case(&state, FAKE_VECTOR);
    const json_t *v = json_object_get(json_object_get(row, "statistics"), "variance");
    assert_true(json_is_null(json_object_get(v, "launch")));
    assert_near(json_number_value(json_object_get(json_object_get(v, "round"), "degrees_of_freedom")), 5, 0);
    assert_near(json_number_value(json_object_get(json_object_get(v, "sample"), "degrees_of_freedom")), 12, 0);
    assert_non_null(strstr(fake_text(v, "advice"), "--launches 6"));
    json_decref(row);
    static const int64_t of[] = {100000, 100100, 110000, 110100, 90000, 90100};
    fake_apply(&state, fake_verified(FAKE_COPY, true));
    fake_apply(&state, fake_warm(FAKE_COPY, 1));
    for (int i = 0; i < 6; i++) /* launches far apart, their rounds close */
        fake_apply(&state, fake_round(FAKE_COPY, i / 2, i % 2, of[i], 3));
    assert_int_equal(as_variance_advice(&state.outcome[FAKE_COPY]), AS_ADVICE_LAUNCHES_DIFFER);
    const as_components x = as_outcome_round_components(&state.outcome[FAKE_COPY]);
    assert_true(x.launch.relative_sd > 0.09 && x.launch.relative_sd < 0.11 && x.round.relative_sd < 0.001);
}

static void timers_must_agree(void **unused) {
    (void)unused;
    fake_measured(&state, FAKE_VECTOR, steady, 6);
    for (size_t i = 0; i < 6; i++) {
        json_t *row = json_array_get(state.outcome[FAKE_VECTOR].rows, i);
        json_object_set_new(row, "real_time", json_real(1.05 * json_number_value(json_object_get(row, "real_time"))));
    }
    assert_validity(FAKE_VECTOR, "suspect", "timers disagree");
}

static void a_coarse_timer_is_named(void **unused) {
    (void)unused;
    state.clock_cost_ns = 2000; /* samples of 100 us */
    fake_measured(&state, FAKE_VECTOR, steady, 6);
    assert_validity(FAKE_VECTOR, "suspect", "timer too coarse");
}

/* ---- the document ---- */

static void only_done_cases_have_numbers(void **unused) {
    (void)unused;
    char *argv[] = {(char *)"/somewhere/assay", (char *)"run"};
    fake_measured(&state, FAKE_VECTOR, steady, 6);
    fake_measured(&state, FAKE_COPY, steady, 6);
    fake_apply(&state, fake_status(FAKE_COPY, "failed", "wrong after timing"));
    json_t *result = as_record_run(&state, 2, argv);
    assert_non_null(result);
    const json_t *done = fake_case(result, "cases", "vector/good/dev:cpu"),
                 *failed = fake_case(result, "cases", "copy/good/dev:cpu");
    assert_int_equal(json_array_size(json_object_get(done, "metrics")), 3); /* time, flop_rate, bandwidth */
    assert_int_equal(json_integer_value(json_object_get(json_object_get(done, "statistics"), "samples")), 18);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(done, "parameters"), "n")),
                     4096); /* a default */
    assert_int_equal(json_array_size(json_object_get(failed, "metrics")), 0);
    assert_true(json_is_null(json_object_get(failed, "statistics")));
    const json_t *rows = json_object_get(result, "benchmarks");
    assert_int_equal(json_array_size(rows), 6);
    for (size_t i = 0; i < 6; i++) {
        assert_string_equal(fake_text(json_array_get(rows, i), "name"), "vector/good/dev:cpu");
        assert_int_equal(json_integer_value(json_object_get(json_array_get(rows, i), "repetition_index")), i);
    }
    assert_string_equal(
        json_string_value(json_array_get(json_object_get(json_object_get(result, "context"), "argv"), 0)), "assay");
    assert_int_equal(json_array_size(json_object_get(result, "ceilings")), 1);
    char *text = json_dumps(result, 0); /* jansson writes no NaN: a NULL would say that there is one */
    assert_non_null(text);
    free(text);
    json_decref(result);
}

static void the_summary_counts(void **unused) {
    (void)unused;
    fake_measured(&state, FAKE_VECTOR, steady, 6);
    fake_measured(&state, FAKE_CEILING, ceiling_ns, 6);
    fake_apply(&state, fake_status(FAKE_COPY, "lost", "gone"));
    const as_summary s = as_summarise(&state);
    assert_true(s.done == 1 && s.lost == 1 && s.failed == 0 && s.skipped == 0 &&
                s.not_reached == 0); /* ceilings are no cases */
    assert_true(s.suspect == 0 && s.unconverged == 0);
}

#define WITH_STATE(test) cmocka_unit_test_setup_teardown(test, init, release)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_STATE(time_and_rates),
        WITH_STATE(the_batch_divides),
        WITH_STATE(nothing_measured),
        WITH_STATE(few_units_never_converge),
        WITH_STATE(wide_intervals_are_suspect),
        WITH_STATE(a_ceiling_counts_its_fastest_round),
        WITH_STATE(a_ceiling_that_failed_counts_for_nothing),
        WITH_STATE(fixed_time_is_part_of_the_floor),
        WITH_STATE(above_the_limit),
        WITH_STATE(a_clean_case_is_valid),
        WITH_STATE(cases_that_are_not_done_are_invalid),
        WITH_STATE(unchecked_output_is_suspect),
        WITH_STATE(flags_are_counted),
        WITH_STATE(flags_of_one_kind_are_merged),
        WITH_STATE(a_suspect_ceiling_marks_its_cases),
        WITH_STATE(a_dropped_ceiling_leaves_no_percentage),
        WITH_STATE(where_more_launches_help),
        WITH_STATE(timers_must_agree),
        WITH_STATE(a_coarse_timer_is_named),
        WITH_STATE(only_done_cases_have_numbers),
        WITH_STATE(the_summary_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
