/* The energy pass on the fake device, whose counter obeys the test, its figures by hand, and its place in the plan. */
#include "energy.h"
#include "fake_suite.h"
#include "measure.h"
#include "process.h"
#include "stats.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

static as_workshop shop;
static as_bench bench;
static as_error error;
static as_warmup warm;
static void *monitor;

static const as_energy_settings quick = {
    .idle_ns = 300000000, .settle_ns = 20000000, .window_ns = 60000000, .windows = 4};

static int open_bench(const char *variant) {
    as_placement place;
    fake_forget();
    fake_reset();
    json_t *description = json_pack("{s:s}", "model", "m");
    monitor = fake_telemetry.open(description);
    json_decref(description);
    assert_int_equal(as_place_resolve(&(as_place_request){0}, &place, &error), AS_OK);
    assert_int_equal(as_workshop_open(&shop, &fake_driver, 0, &place, 42, &error), AS_OK);
    const as_variant *v = fake_vector_suite.variants;
    while (strcmp(v->name, variant) != 0 || strcmp(v->on, "fake") != 0)
        v++;
    bench = (as_bench){.suite = &fake_vector_suite, .variant = v, .copies = 1};
    assert_int_equal(as_params_init(&bench.params, fake_vector_suite.axes, fake_vector_suite.n_axes, &error), AS_OK);
    assert_int_equal(as_bench_prepare(&bench, &shop, &error), AS_OK);
    assert_int_equal(as_measure_warmup(&bench, &shop, 0, 20e6, &warm, &error), AS_OK);
    return 0;
}

static int open_plain(void **unused) {
    (void)unused;
    return open_bench("good");
}

static int open_graph(void **unused) {
    (void)unused;
    return open_bench("graph");
}

static int close_bench(void **unused) {
    (void)unused;
    fake_telemetry.close(monitor);
    as_bench_release(&bench, &shop);
    as_workshop_close(&shop);
    return fake.blocks || fake.graphs;
}

static json_t *measure(void) {
    json_t *out = NULL;
    assert_int_equal(as_energy_measure(&bench, &shop, warm.batch, &fake_telemetry, monitor, &quick, &out, &error),
                     AS_OK);
    assert_non_null(out);
    return out;
}

static double number(const json_t *o, const char *key, size_t i) {
    return json_number_value(json_array_get(json_object_get(o, key), i));
}

/* The counter adds 50 W at rest and 2 mJ an operation: the figures must give both back. */
static void energy_of_an_operation_is_found(void **unused) {
    (void)unused;
    fake.op_joules = 2e-3; /* well above what the machine takes at rest in the same time */
    json_t *pass = measure();
    as_energy_figures f;
    assert_string_equal(fake_text(pass, "state"), "measured");
    assert_true(as_energy_figures_of(pass, 0.95, &f));
    assert_float_equal(f.idle_watts, 50, 7.5);
    assert_float_equal(f.above_idle_joules, 2e-3, 3e-4);
    const double seconds = (number(pass, "at_ns", 4) - number(pass, "at_ns", 0)) * 1e-9;
    const double operations = number(pass, "operations_high", 4) - number(pass, "operations_high", 0);
    assert_float_equal(f.joules, 2e-3 + 50 * seconds / operations, 0.15 * f.joules);
    assert_true(f.resolution_joules > 0 && f.resolution_joules < 0.5 * f.joules);
    assert_true(f.relative_half_width > f.resolution_joules / f.joules);
    assert_float_equal(json_number_value(json_object_get(pass, "step_ns")), 1e7, 2.5e6);
    json_decref(pass);
}

static void windows_lie_between_steps(void **unused) {
    (void)unused;
    json_t *pass = measure();
    assert_int_equal(json_array_size(json_object_get(pass, "at_ns")), 5);
    for (size_t i = 0; i < 5; i++) {
        assert_true(number(pass, "operations_low", i) <= number(pass, "operations_high", i));
        if (i > 0) {
            assert_true(number(pass, "at_ns", i) - number(pass, "at_ns", i - 1) >= 6e7);
            assert_true(number(pass, "joules", i) > number(pass, "joules", i - 1));
            assert_true(number(pass, "operations_low", i) > number(pass, "operations_high", i - 1));
        }
    }
    json_decref(pass);
}

static void a_counter_that_is_off_is_absent_with_its_reason(void **unused) {
    (void)unused;
    fake.energy_step_ns = 0;
    const int before = fake.operations;
    json_t *pass = measure();
    as_energy_figures f;
    assert_string_equal(fake_text(pass, "state"), "absent");
    assert_string_equal(fake_text(pass, "reason"), "the fake counter is off");
    assert_false(as_energy_figures_of(pass, 0.95, &f));
    assert_int_equal(fake.operations, before); /* no time is spent on it */
    json_decref(pass);
    assert_false(as_energy_figures_of(NULL, 0.95, &f));
}

static void a_device_without_counter_is_absent_too(void **unused) {
    (void)unused;
    json_t *pass = NULL;
    assert_int_equal(as_energy_measure(&bench, &shop, 1, NULL, NULL, &quick, &pass, &error), AS_OK);
    assert_string_equal(fake_text(pass, "state"), "absent");
    json_decref(pass);
}

/* Never zero joules: a counter that stands still is absent, after a bounded time. */
static void a_counter_that_stands_still_is_absent(void **unused) {
    (void)unused;
    fake.energy_step_ns = INT64_MAX / 2;
    as_energy_settings s = quick;
    s.windows = 3;
    json_t *pass = NULL;
    const int64_t begin = as_now_ns();
    assert_int_equal(as_energy_measure(&bench, &shop, warm.batch, &fake_telemetry, monitor, &s, &pass, &error), AS_OK);
    assert_true(as_now_ns() - begin < 10000000000);
    assert_string_equal(fake_text(pass, "state"), "absent");
    assert_non_null(strstr(fake_text(pass, "reason"), "did not move"));
    json_decref(pass);
}

/* Steps at 0, 1, 2, 3 s and 0, 100, 200, 330 J after 0, 10, 20, 30 operations known to within 0, and +-1 at the ends:
 * 330 J / 30 = 11 J; windows of 10, 10, 13 J. Above idle, of 50 W: (330 - 150) / 30 = 6 J. */
static void figures_by_hand(void **unused) {
    (void)unused;
    json_t *pass =
        json_pack("{s:s, s:n, s:f, s:f, s:[I,I,I,I], s:[f,f,f,f], s:[f,f,f,f], s:[f,f,f,f]}", "state", "measured",
                  "reason", "step_ns", 1e8, "idle_watts", 50.0, "at_ns", (json_int_t)0, (json_int_t)1000000000,
                  (json_int_t)2000000000, (json_int_t)3000000000, "joules", 0.0, 100.0, 200.0, 330.0, "operations_low",
                  -1.0, 10.0, 20.0, 29.0, "operations_high", 1.0, 10.0, 20.0, 31.0);
    as_energy_figures f;
    assert_true(as_energy_figures_of(pass, 0.95, &f));
    assert_float_equal(f.joules, 11, 1e-12);
    assert_float_equal(f.watts, 110, 1e-12);
    assert_float_equal(f.above_idle_joules, 6, 1e-12);
    assert_float_equal(f.resolution_joules, 11 * 2.0 / 30, 1e-12);
    const double window[] = {10, 10, 13};
    assert_float_equal(f.relative_half_width, as_stats_interval(window, 3, 0.95).relative_half_width + 2.0 / 30, 1e-12);
    json_object_set_new(pass, "idle_watts", json_null());
    assert_true(as_energy_figures_of(pass, 0.95, &f));
    assert_true(isnan(f.above_idle_joules)); /* unknown, not all of it */
    json_decref(pass);
}

/* ---- the whole command ---- */

static json_t *run(const char *energy, const char *budget) {
    char *folder = fake_folder(), *text = NULL, path[300];
    snprintf(path, sizeof path, "%s/r.json", folder);
    const char *const words[] = {
        "run",  "--suite",  "vector", "--device",   "fake", "--filter", "good/dev:", "--rounds", "6", "--budget",
        budget, "--energy", energy,   "--ceilings", "off",  "--quiet",  "--out",     path,       NULL};
    const int code = fake_assay(words, &text);
    if (code != 0)
        fail_msg("exit %d: %s", code, text);
    free(text);
    json_t *result = json_load_file(path, 0, NULL);
    fake_remove_folder(folder);
    assert_non_null(result);
    return result;
}

static const json_t *metric(const json_t *k, const char *name) {
    size_t i;
    json_t *m;
    json_array_foreach(json_object_get(k, "metrics"), i, m) if (strcmp(fake_text(m, "name"), name) == 0) return m;
    return NULL;
}

static void a_run_has_the_metrics_it_asked_for(void **unused) {
    (void)unused;
    json_t *result = run("on", "30s");
    const json_t *k = json_array_get(json_object_get(result, "cases"), 0), *m = metric(k, "energy_joules");
    const json_t *energy = json_object_get(json_object_get(k, "telemetry"), "energy");
    assert_string_equal(fake_text(energy, "state"), "measured");
    assert_non_null(m);
    assert_true(json_number_value(json_object_get(m, "low")) < json_number_value(json_object_get(m, "value")));
    assert_true(json_number_value(json_object_get(m, "value")) < json_number_value(json_object_get(m, "high")));
    assert_non_null(metric(k, "energy_above_idle_joules"));
    const json_t *at = json_object_get(energy, "at_ns"); /* at least 2 s of work back to back */
    const size_t last = json_array_size(at) - 1;
    assert_true(last >= 3 &&
                json_integer_value(json_array_get(at, last)) - json_integer_value(json_array_get(at, 0)) >= 2000000000);
    json_decref(result);

    result = run("off", "30s");
    k = json_array_get(json_object_get(result, "cases"), 0);
    assert_null(metric(k, "energy_joules"));
    assert_null(json_object_get(json_object_get(k, "telemetry"), "energy"));
    json_decref(result);
}

static void a_short_budget_keeps_the_case_and_drops_the_pass(void **unused) {
    (void)unused;
    json_t *result = run("on", "5s");
    const json_t *k = json_array_get(json_object_get(result, "cases"), 0);
    const json_t *energy = json_object_get(json_object_get(k, "telemetry"), "energy");
    assert_string_equal(fake_text(k, "status"), "done");
    assert_string_equal(fake_text(energy, "state"), "absent");
    assert_non_null(strstr(fake_text(energy, "reason"), "budget"));
    assert_null(metric(k, "energy_joules"));
    json_decref(result);
}

int main(int argc, char **argv) {
    const int code = fake_main(argc, argv);
    if (code >= 0)
        return code;
#define ON(device, test) cmocka_unit_test_setup_teardown(test, open_##device, close_bench)
    const struct CMUnitTest tests[] = {
        ON(plain, energy_of_an_operation_is_found),
        ON(graph, energy_of_an_operation_is_found),
        ON(plain, windows_lie_between_steps),
        ON(graph, windows_lie_between_steps),
        ON(plain, a_counter_that_is_off_is_absent_with_its_reason),
        ON(plain, a_device_without_counter_is_absent_too),
        ON(plain, a_counter_that_stands_still_is_absent),
        cmocka_unit_test(figures_by_hand),
        cmocka_unit_test(a_run_has_the_metrics_it_asked_for),
        cmocka_unit_test(a_short_budget_keeps_the_case_and_drops_the_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
