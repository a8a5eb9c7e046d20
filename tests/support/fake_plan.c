#include "fake_plan.h"

#include "fake_suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

static as_plan plan;
static as_options options;
static as_case cases[FAKE_CASES];

as_options *fake_plan_options(void) { return &options; }

static void add(int i, const as_suite *suite, char *id) {
    as_case *c = &cases[i];
    *c =
        (as_case){.suite = suite, .variant = suite->variants, .device = &plan.machine.device[0], .id = id, .copies = 1};
    memset(c->ceiling_of, -1, sizeof c->ceiling_of);
    assert_int_equal(as_params_init(&c->params, suite->axes, suite->n_axes, NULL), AS_OK);
    assert_int_equal(suite->describe(&c->params, c->variant, c->device, &c->work, NULL), AS_OK);
}

const as_plan *fake_plan(void) {
    static char ids[FAKE_CASES][40] = {"vector/good/dev:cpu", "copy/good/dev:cpu", "ceiling/stream/dev:cpu"};
    options =
        (as_options){.command = "run", .profile = AS_QUICK, .launches = 1, .seed = 42, .gpu = -1, .ceilings = true};
    plan = (as_plan){.registry = &fake_registry,
                     .options = &options,
                     .budget_ns = 1000000000,
                     .min_rounds = 6,
                     .ceiling_rounds = 3,
                     .cases = cases,
                     .count = FAKE_CASES,
                     .ceilings = 1,
                     .groups = 1,
                     .hash = 0x1234,
                     .rule = {.min_units = 6, .target = 0.05, .confidence = 0.95}};
    plan.machine.devices = 1;
    plan.machine.device[0] = (as_device){.driver = &as_cpu_driver, .name = "cpu"};
    plan.placement = (as_placement){.cpus = 1, .cores = 1, .numa_node = -1};
    add(FAKE_VECTOR, &fake_vector_suite, ids[FAKE_VECTOR]);
    add(FAKE_COPY, &fake_copy_suite, ids[FAKE_COPY]);
    add(FAKE_CEILING, &fake_ceilings, ids[FAKE_CEILING]);
    cases[FAKE_CEILING].ceiling = true;
    cases[FAKE_VECTOR].ceiling_of[0][0] = FAKE_CEILING;
    return &plan;
}

json_t *fake_warm(int c, int64_t batch) {
    return json_pack("{s:s, s:i, s:I, s:f, s:f, s:b}", "kind", "warm", "case", c, "batch", (json_int_t)batch, "op_ns",
                     100.0, "spent_ns", 5000.0, "warm", 1);
}

json_t *fake_verified(int c, bool passed) {
    return json_pack("{s:s, s:i, s:f, s:{s:s, s:s, s:s, s:n}}", "kind", "verified", "case", c, "ns", 700.0,
                     "verification", "kind", "reference", "status", passed ? "passed" : "failed", "output_checksum",
                     "00000000deadbeef", "detail");
}

json_t *fake_round(int c, int launch, int round, int64_t ns, int n) {
    json_t *time = json_array();
    double sum = 0;
    for (int i = 0; i < n; i++) {
        json_array_append_new(time, json_integer(ns + i));
        sum += (double)(ns + i);
    }
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:I, s:I, s:[], s:{}, s:o, s:{}, s:{s:f, s:f, s:i, s:{}}}", "kind",
                     "round", "case", c, "launch", launch, "round", round, "order", 0, "begin_ns",
                     (json_int_t)(1000 * round), "end_ns", (json_int_t)(1000 * round + 900), "flags", "counters",
                     "time", time, "extra", "row", "real_time", n ? sum / n : 0.0, "cpu_time", n ? sum / n : 0.0,
                     "iterations", n, "counters");
}

json_t *fake_checked(int c, bool passed) {
    return json_pack("{s:s, s:i, s:b, s:s?}", "kind", "checked", "case", c, "passed", (int)passed, "detail",
                     passed ? NULL : "row 3 is wrong");
}

json_t *fake_status(int c, const char *status, const char *reason) {
    return json_pack("{s:s, s:i, s:s, s:s}", "kind", "status", "case", c, "status", status, "reason", reason);
}

void fake_apply(as_run_state *s, json_t *record) {
    as_error e = {0};
    assert_non_null(record);
    if (as_run_state_apply(s, record, &e) != AS_OK)
        fail_msg("a record was refused: %s", e.message);
    json_decref(record);
}

void fake_measured(as_run_state *s, int c, const int64_t *median_ns, int rounds) {
    fake_apply(s, fake_verified(c, true));
    fake_apply(s, fake_warm(c, 1));
    for (int i = 0; i < rounds; i++)
        fake_apply(s, fake_round(c, 0, i, median_ns[i] - 1, 3)); /* m - 1, m, m + 1 */
    fake_apply(s, fake_checked(c, true));
    fake_apply(s, fake_status(c, "done", ""));
}
