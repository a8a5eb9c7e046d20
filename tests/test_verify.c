/* Right kernels pass; each way of being wrong is caught, and no wrong case gets a number. */
#include "measure.h"
#include "support/fake_suite.h"
#include "verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>

static as_workshop shop;
static as_reference_cache cache;
static as_error error;

static void open_shop(const as_device_driver *driver) {
    as_placement place;
    fake_forget();
    fake_reset();
    assert_int_equal(as_place_resolve(&(as_place_request){0}, &place, &error), AS_OK);
    assert_int_equal(as_workshop_open(&shop, driver, 0, &place, 42, &error), AS_OK);
}

static int open_cpu(void **unused) {
    (void)unused;
    open_shop(&as_cpu_driver);
    return 0;
}

static int close_shop(void **unused) {
    (void)unused;
    as_reference_cache_free(&cache);
    as_workshop_close(&shop);
    return 0;
}

/* `axes`: "n=64;sampled=1". */
static void prepare(as_bench *b, const as_suite *suite, const char *variant, int copies, const char *axes) {
    char text[128], *save = NULL;
    *b = (as_bench){.suite = suite, .copies = copies};
    for (const as_variant *v = suite->variants; v->name; v++)
        if (strcmp(v->name, variant) == 0 && strcmp(v->on, shop.device.driver->kind) == 0)
            b->variant = v;
    assert_non_null(b->variant);
    assert_int_equal(as_params_init(&b->params, suite->axes, suite->n_axes, &error), AS_OK);
    snprintf(text, sizeof text, "%s", axes);
    for (char *w = strtok_r(text, ";", &save); w; w = strtok_r(NULL, ";", &save)) {
        char *equals = strchr(w, '=');
        *equals = '\0';
        assert_int_equal(as_params_set(&b->params, w, equals + 1, &error), AS_OK);
    }
    if (as_bench_prepare(b, &shop, &error) != AS_OK)
        fail_msg("%s/%s: %s", suite->name, variant, error.message);
}

static as_verdict verdict_of(const as_suite *suite, const char *variant, int copies, const char *axes) {
    as_bench b;
    as_verdict v;
    prepare(&b, suite, variant, copies, axes);
    if (as_verify(&b, &shop, &cache, &v, &error) != AS_OK)
        fail_msg("%s/%s: %s", suite->name, variant, error.message);
    as_bench_release(&b, &shop);
    return v;
}

static void assert_caught(const as_suite *suite, const char *variant, const char *axes, const char *says) {
    const as_verdict v = verdict_of(suite, variant, 1, axes);
    if (v.passed || !strstr(v.detail, says))
        fail_msg("%s/%s: passed %d, detail '%s' does not mention '%s'", suite->name, variant, v.passed, v.detail, says);
}

/* ---- against a reference ---- */

static void right_kernels_pass(void **unused) {
    (void)unused;
    as_verdict v = verdict_of(&fake_vector_suite, "good", 1, "");
    assert_true(v.passed && v.checked == 4096 && v.checksum != 0);
    assert_true(v.max_error == 0); /* 2 x + y of inputs in steps of 2^-20 is exact */
    assert_string_equal(v.kind, "reference");
    assert_string_equal(v.detail, "");
    assert_true(verdict_of(&fake_vector_suite, "good", 3, "n=64").passed);
    /* Above the limit of whole checks: 64 seeded rows and both sides of every tile edge. */
    v = verdict_of(&fake_vector_suite, "good", 1, "n=262144;sampled=1");
    const int64_t rows = v.checked / FAKE_ROW, edges = 2 * (4096 / FAKE_TILE);
    assert_true(v.passed && rows >= edges && rows <= edges + 66);
}

static void wrong_kernels_are_caught(void **unused) {
    (void)unused;
    assert_caught(&fake_vector_suite, "wrong_index", "", "row 0, column 0");
    assert_caught(&fake_vector_suite, "tile_edge", "", "row 47, column 0");
    assert_caught(&fake_vector_suite, "tile_edge", "n=262144;sampled=1", "row 2063, column 0"); /* one row of 4096 */
    assert_caught(&fake_vector_suite, "last_row", "", "row 63, column 0: ");
    assert_caught(&fake_vector_suite, "last_row", "n=262144;sampled=1", "row 4095, column 0: ");
    assert_caught(&fake_vector_suite, "nan", "", "row 21, column 21: ");
}

/* The right result of another kernel lies in the buffer: poison makes the row that is not written show. */
static void old_results_do_not_help(void **unused) {
    (void)unused;
    as_bench right, lazy;
    as_verdict v;
    prepare(&right, &fake_vector_suite, "good", 1, "");
    prepare(&lazy, &fake_vector_suite, "last_row", 1, "");
    assert_int_equal(right.variant->run(&right.call[0], &error), AS_OK);
    memcpy(lazy.operand[2], right.operand[2], 4096 * sizeof(float));
    assert_int_equal(as_verify_output(&lazy, &shop, &cache, &v, &error), AS_OK);
    assert_true(v.passed); /* what lies there is right */
    assert_int_equal(as_verify(&lazy, &shop, &cache, &v, &error), AS_OK);
    assert_false(v.passed);
    as_bench_release(&right, &shop);
    as_bench_release(&lazy, &shop);
}

static void wrong_after_timing(void **unused) {
    (void)unused;
    static const char *const variants[] = {"late", "cached"};
    for (size_t i = 0; i < 2; i++) {
        as_bench b;
        as_verdict v;
        prepare(&b, &fake_vector_suite, variants[i], 1, "");
        assert_int_equal(as_verify(&b, &shop, &cache, &v, &error), AS_OK);
        assert_true(v.passed); /* the first run is right */
        assert_int_equal(as_bench_poison(&b, &shop, &error), AS_OK);
        assert_int_equal(as_measure_once(&b, &shop, &error), AS_OK);
        assert_int_equal(as_verify_output(&b, &shop, &cache, &v, &error), AS_OK);
        assert_false(v.passed);
        as_bench_release(&b, &shop);
    }
}

static void deterministic_means_the_same_bits(void **unused) {
    (void)unused;
    as_bench b;
    as_verdict first, second;
    prepare(&b, &fake_vector_suite, "unsteady", 1, "");
    assert_int_equal(as_verify(&b, &shop, &cache, &first, &error), AS_OK);
    assert_int_equal(as_verify(&b, &shop, &cache, &second, &error), AS_OK);
    assert_true(first.passed && second.passed && first.checksum != second.checksum); /* the supervisor compares */
    assert_true(second.max_error > 0 && second.max_error <= 1);                      /* a share of the tolerance */
    as_bench_release(&b, &shop);
    fake_forget();
    const as_verdict v = verdict_of(&fake_vector_suite, "unsteady", 2, "");
    assert_false(v.passed);
    assert_non_null(strstr(v.detail, "copy 1 differs"));
    assert_true(verdict_of(&fake_vector_suite, "good", 1, "").checksum ==
                verdict_of(&fake_vector_suite, "other", 1, "").checksum);
}

/* ---- references ---- */

static int reference_calls;

static as_status counted_reference(const as_reference *r, as_error *e) {
    reference_calls++;
    return fake_vector_suite.reference(r, e);
}

static as_status nan_reference(const as_reference *r, as_error *e) {
    AS_TRY(fake_vector_suite.reference(r, e));
    r->expected[5] = NAN;
    return AS_OK;
}

static as_status failing_reference(const as_reference *r, as_error *e) {
    (void)r;
    return as_fail(e, AS_EFAIL, "no reference today");
}

static void variants_share_a_reference(void **unused) {
    (void)unused;
    as_suite suite = fake_vector_suite;
    suite.reference = counted_reference;
    reference_calls = 0;
    assert_true(verdict_of(&suite, "good", 1, "").passed);
    assert_true(verdict_of(&suite, "other", 2, "cache=cold").passed);
    assert_int_equal(reference_calls, 1);
    assert_true(verdict_of(&suite, "good", 1, "n=64").passed); /* another size: computed anew, not reused */
    assert_int_equal(reference_calls, 2);
}

static void a_broken_reference_passes_nothing(void **unused) {
    (void)unused;
    as_suite suite = fake_vector_suite;
    suite.reference = nan_reference;
    assert_caught(&suite, "good", "", "row 0, column 5");
    as_bench b;
    as_verdict v;
    suite.reference = failing_reference;
    as_reference_cache_free(&cache);
    prepare(&b, &suite, "good", 1, "");
    assert_int_equal(as_verify(&b, &shop, &cache, &v, &error), AS_EFAIL);
    assert_string_equal(error.message, "no reference today");
    suite.reference = fake_vector_suite.reference;
    assert_int_equal(as_verify(&b, &shop, &cache, &v, &error), AS_OK); /* the failure was not cached */
    assert_true(v.passed);
    as_bench_release(&b, &shop);
}

static double reference_fault;

static void device_kernel(const as_call *call) {
    const float *x = call->operand[0], *y = call->operand[1];
    double *expected = call->operand[2], *scale = call->operand[3];
    for (int64_t i = 0; i < as_params_int(call->params, "n"); i++) {
        expected[i] = 2.0 * x[i] + y[i] + reference_fault;
        scale[i] = 2.0 * fabs(x[i]) + fabs(y[i]);
    }
}

static as_status device_reference(const as_call *call, as_error *e) { return fake_launch(call, device_kernel, e); }

static void a_device_reference_is_checked_itself(void **unused) {
    (void)unused;
    as_suite suite = fake_vector_suite;
    suite.device_reference_on = "fake";
    suite.device_reference = device_reference;
    as_bench b;
    as_verdict v;
    close_shop(NULL);
    open_shop(&fake_driver);
    prepare(&b, &suite, "good", 1, "n=262144;sampled=1");
    reference_fault = 0;
    assert_int_equal(as_verify(&b, &shop, &cache, &v, &error), AS_OK);
    assert_true(v.passed && v.checked == 262144); /* whole, not sampled */
    as_reference_cache_free(&cache);
    reference_fault = 1e-6;
    assert_int_equal(as_verify(&b, &shop, &cache, &v, &error), AS_EFAIL);
    assert_non_null(strstr(error.message, "disagrees with the host's"));
    as_bench_release(&b, &shop);
}

/* ---- copies and effects ---- */

static void copies(void **unused) {
    (void)unused;
    const as_verdict v = verdict_of(&fake_copy_suite, "good", 1, "");
    assert_true(v.passed && v.checked == 4097 && isnan(v.max_error));
    assert_true(verdict_of(&fake_copy_suite, "good", 1, "bytes=0").passed);
    assert_true(verdict_of(&fake_copy_suite, "good", 1, "bytes=9000001").passed); /* more than one chunk */
    assert_caught(&fake_copy_suite, "short", "", "byte 4096 is 0xff");
    assert_caught(&fake_copy_suite, "short", "bytes=9000001", "byte 9000000 is 0xff");
    assert_caught(&fake_copy_suite, "short", "bytes=1", "byte 0 is 0xff");
    assert_caught(&fake_copy_suite, "backward", "", "byte 0 is 0xff");
}

static void effects(void **unused) {
    (void)unused;
    assert_true(verdict_of(&fake_effect_suite, "good", 1, "").passed);
    assert_caught(&fake_effect_suite, "few", "", "7 executions, expected 8");
}

static void a_verdict_as_json(void **unused) {
    (void)unused;
    as_bench b;
    as_verdict v;
    prepare(&b, &fake_copy_suite, "short", 1, "");
    assert_int_equal(as_verify(&b, &shop, &cache, &v, &error), AS_OK);
    json_t *j = as_verdict_json(&v, &b);
    assert_string_equal(fake_text(j, "status"), "failed");
    assert_string_equal(fake_text(j, "kind"), "copy");
    assert_true(json_is_null(json_object_get(j, "max_error"))); /* never a bare NaN */
    assert_true(json_is_null(json_object_get(j, "tolerance")));
    assert_true(json_is_null(json_object_get(j, "output_checksum"))); /* not declared deterministic */
    assert_int_equal(strlen(fake_text(j, "input_checksum")), 16);
    assert_int_equal(strncmp(fake_text(j, "detail"), "byte 4096", 9), 0);
    json_decref(j);
    as_bench_release(&b, &shop);
}

/* ---- the whole command: no wrong case leaves a number ---- */

static void a_wrong_case_has_no_number(const json_t *result, const char *id) {
    const json_t *row = fake_case(result, "cases", id), *verification = json_object_get(row, "verification");
    if (!row || strcmp(fake_text(row, "status"), "failed") != 0)
        fail_msg("%s: status '%s' instead of failed", id, fake_text(row, "status"));
    assert_true(strcmp(fake_text(verification, "status"), "failed") == 0 ||
                strcmp(fake_text(verification, "after_timing"), "failed") == 0);
    assert_int_equal(json_array_size(json_object_get(row, "metrics")), 0);
    assert_true(json_is_null(json_object_get(row, "statistics")));
    assert_string_equal(fake_text(json_object_get(row, "validity"), "status"), "invalid");
    assert_true(strlen(fake_text(row, "reason")) > 10);
    size_t i;
    json_t *bench;
    json_array_foreach(json_object_get(result, "benchmarks"), i, bench)
        assert_string_not_equal(fake_text(bench, "name"), id);
}

static void the_command_fails_wrong_cases(void **unused) {
    (void)unused;
    char *folder = fake_folder(), path[256], *output = NULL;
    snprintf(path, sizeof path, "%s/result.json", folder);
    const char *words[] = {
        "run",
        "--device",
        "cpu",
        "--filter",
        "^(vector/(other|wrong_index|tile_edge|last_row|nan|late|cached|unsteady)|copy/[a-z]+|effect/"
        "[a-z]+)/dev",
        "--ceilings",
        "off",
        "--rounds",
        "1",
        "--quiet",
        "--budget",
        "60s",
        "--out",
        path,
        NULL};
    assert_int_equal(fake_assay(words, &output), 1);
    assert_non_null(strstr(output, "3 done, 9 failed"));
    json_error_t je;
    json_t *result = json_load_file(path, JSON_REJECT_DUPLICATES, &je);
    assert_non_null(result);
    static const char *const wrong[] = {
        "vector/wrong_index/dev:cpu", "vector/tile_edge/dev:cpu", "vector/last_row/dev:cpu",
        "vector/nan/dev:cpu",         "vector/late/dev:cpu",      "vector/cached/dev:cpu",
        "vector/unsteady/dev:cpu",    "copy/short/dev:cpu",       "effect/few/dev:cpu"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        a_wrong_case_has_no_number(result, wrong[i]);
    static const char *const right[] = {"vector/other/dev:cpu", "copy/good/dev:cpu", "effect/good/dev:cpu"};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        const json_t *row = fake_case(result, "cases", right[i]);
        assert_string_equal(fake_text(row, "status"), "done");
        assert_true(json_array_size(json_object_get(row, "metrics")) > 0);
        assert_string_equal(fake_text(json_object_get(row, "verification"), "after_timing"), "passed");
    }
    assert_int_equal(json_array_size(json_object_get(result, "benchmarks")), 3); /* one round each */
    json_decref(result);
    free(output);
    fake_remove_folder(folder);
}

static void verify_measures_nothing(void **unused) {
    (void)unused;
    char *output = NULL;
    assert_int_equal(
        fake_assay((const char *[]){"verify", "--suite", "copy", "--device", "cpu", "--quiet", NULL}, &output), 1);
    assert_non_null(strstr(output, "copy/good/dev:cpu   passed"));
    assert_non_null(strstr(output, "copy/short/dev:cpu  failed: verification failed: byte 4096"));
    free(output);
    assert_int_equal(
        fake_assay((const char *[]){"verify", "--device", "cpu,fake", "--filter", "/(good|graph)/dev", "--quiet", NULL},
                   NULL),
        0);
}

/* ---- references that follow the output ---- */

/* Any even number is right; an odd one should have been the next. */
static uint32_t written;
static int judged;

static as_status follow_describe(const as_params *p, const as_variant *v, const as_device *d, as_work *w, as_error *e) {
    (void)v, (void)d, (void)e;
    const int64_t rows = as_params_int(p, "n");
    *w = (as_work){.operand = {{"x", AS_IN, AS_MEM_DEVICE, AS_U32, AS_BITS, rows, 1},
                               {"chosen", AS_OUT, AS_MEM_DEVICE, AS_U32, AS_BITS, rows * 2, 0}},
                   .operands = 2,
                   .flops = 1e9,
                   .no_ceiling = "a test",
                   .check = AS_CHECK_REFERENCE,
                   .tolerance = 0.25,
                   .rows = rows,
                   .columns = 2,
                   .follows_output = true,
                   .reference_rows = 3};
    return AS_OK;
}

static as_status follow_reference(const as_reference *r, as_error *e) {
    (void)e;
    judged += (int)r->n_rows;
    for (int64_t k = 0; k < 2 * r->n_rows; k++) {
        const uint32_t got = ((const uint32_t *)r->output)[r->rows[k / 2] * 2 + k % 2];
        r->expected[k] = got % 2 ? (double)got + 1 : (double)got;
        r->scale[k] = 1;
    }
    return AS_OK;
}

static as_status follow_run(const as_call *call, as_error *e) {
    (void)e;
    uint32_t *out = call->operand[1];
    for (int64_t i = 0; i < 2 * as_params_int(call->params, "n"); i++)
        out[i] = 10;
    out[2 * as_params_int(call->params, "n") - 1] = written;
    return AS_OK;
}

static void a_reference_may_follow_the_output(void **unused) {
    (void)unused;
    static const as_axis axes[] = {{"n", "0", true, false, "", ""}};
    static const as_variant variants[] = {{.name = "follow", .on = "cpu", .run = follow_run}, {.name = NULL}};
    static const as_suite suite = {.name = "follow",
                                   .axes = axes,
                                   .n_axes = 1,
                                   .variants = variants,
                                   .describe = follow_describe,
                                   .reference = follow_reference};
    written = 8;
    judged = 0;
    as_verdict v = verdict_of(&suite, "follow", 1, "n=100");
    assert_true(v.passed && v.checked == 3 * 2 && judged == 3); /* the first row, the last, a seeded one */
    verdict_of(&suite, "follow", 1, "n=100");
    assert_int_equal(judged, 3); /* the same output: the same reference */
    written = 7;
    assert_caught(&suite, "follow", "n=100", "row 99, column 1: 7, expected 8");
    assert_int_equal(judged, 6); /* another output is judged anew */
    written = 9;
    v = verdict_of(&suite, "follow", 1, "n=2"); /* all rows, where they are few enough */
    assert_true(!v.passed && v.checked == 4);
}

#define ON_CPU(test) cmocka_unit_test_setup_teardown(test, open_cpu, close_shop)

int main(int argc, char **argv) {
    const int rc = fake_main(argc, argv);
    if (rc >= 0)
        return rc;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_command_fails_wrong_cases), /* before this process is bound to one CPU */
        cmocka_unit_test(verify_measures_nothing),
        ON_CPU(right_kernels_pass),
        ON_CPU(wrong_kernels_are_caught),
        ON_CPU(old_results_do_not_help),
        ON_CPU(wrong_after_timing),
        ON_CPU(deterministic_means_the_same_bits),
        ON_CPU(variants_share_a_reference),
        ON_CPU(a_broken_reference_passes_nothing),
        ON_CPU(a_device_reference_is_checked_itself),
        ON_CPU(copies),
        ON_CPU(effects),
        ON_CPU(a_verdict_as_json),
        ON_CPU(a_reference_may_follow_the_output),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
