/* Cases of suite inference as they are planned: what makes no sense is refused with its remedy, what does not fit is told
 * the largest that does, and the work follows the published shapes. */
#include "host_case.h"
#include "kernels/inference/decoder.h"
#include "suites/suites.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- refusals ---- */

static void refuse(const char *variant, const char *axes, const char *why) {
    const as_params p = case_params(&as_inference_suite, axes);
    as_work w;
    as_error e = {0};
    assert_int_equal(as_inference_suite.describe(&p, host_variant(&as_inference_suite, variant), &cpu, &w, &e),
                     AS_EUSAGE);
    if (!strstr(e.message, why))
        fail_msg("%s: '%s' does not say '%s'", axes, e.message, why);
}

static void nonsense_is_refused(void **state) {
    (void)state;
    refuse("simd", "batch=1", "model must be given");
    refuse("simd", "model=llama-9b", "no model llama-9b");
    refuse("simd", "model=llama-70b", "to size, not to run");
    refuse("simd", "model=bert-base", "no decoder");
    refuse("simd", "model=tiny;context=512", "512 positions");
    refuse("simd", "model=tiny;phase=prefill;prompt=513", "512 positions");
    refuse("simd", "model=tiny;phase=generate;prompt=480;tokens=64", "512 positions");
    refuse("simd", "model=tiny;phase=generate;tokens=9223372036854775807", "512 positions");
    refuse("simd", "model=tiny;phase=generate;tokens=1", "at least 2");
    refuse("simd", "model=tiny;phase=prefill;prompt=0", "at least one token");
    refuse("simd", "model=tiny;phase=prefill;context=4", "leave it out");
    refuse("simd", "model=tiny;context=8;tokens=4", "leave it out");
    refuse("simd", "model=tiny;prompt=4", "leave it out");
    refuse("simd", "model=tiny;phase=train", "phase is");
    refuse("simd", "model=tiny;type=f16", "type is");
    refuse("simd", "model=tiny;batch=0", "batch is");
    refuse("simd", "model=tiny;batch=1000000", "batch is");
    refuse("naive", "model=tiny;context=8;threads=2", "one thread");
    refuse("openblas", "model=tiny;context=8", "type:f32");
}

static double bytes_of(const char *axes) {
    const as_params p = case_params(&as_inference_suite, axes);
    as_work w;
    as_error e;
    assert_int_equal(as_inference_suite.describe(&p, host_variant(&as_inference_suite, "simd"), &cpu, &w, &e), AS_OK);
    double sum = (double)w.state_bytes;
    for (int i = 0; i < w.operands; i++)
        sum += (double)w.operand[i].count * (double)as_dtype_bytes(w.operand[i].type);
    return sum;
}

/* The remedy's own figures: what it names fits, one more does not. */
static void the_largest_that_fits_is_named(void **state) {
    (void)state;
    const double room = 6e9;
    char text[160], axes[128];
    as_params p = case_params(&as_inference_suite, "model=llama-1b;batch=64;context=4096");
    as_inference_suite.largest(&p, host_variant(&as_inference_suite, "simd"), &cpu, room, text);
    long long batch = 0, context = 0;
    if (sscanf(text, "the largest that fits is batch:%lld, or context:%lld", &batch, &context) != 2)
        fail_msg("%s", text);
    for (int more = 0; more < 2; more++) {
        snprintf(axes, sizeof axes, "model=llama-1b;batch=%lld;context=4096", batch + more);
        assert_int_equal(bytes_of(axes) <= room, !more);
        snprintf(axes, sizeof axes, "model=llama-1b;batch=64;context=%lld", context + more);
        assert_int_equal(bytes_of(axes) <= room, !more);
    }
    p = case_params(&as_inference_suite, "model=llama-8b");
    as_inference_suite.largest(&p, host_variant(&as_inference_suite, "simd"), &cpu, room, text);
    assert_non_null(strstr(text, "no batch fits"));
}

/* ---- formulas ---- */

static void work_is_as_published(void **state) {
    (void)state;
    const as_model *m = as_model_named("llama-8b");
    assert_int_equal(as_model_kv_elements(m) * 2, 131072);
    const as_step s = {.model = m, .phase = AS_PHASE_DECODE, .type = AS_BF16, .batch = 1, .context = 512, .prompt = 1};
    const double weights = as_model_parameters_read(m) * 2;
    assert_true(fabs(weights - 15.01e9) < 0.01e9);
    assert_true(fabs(as_step_bytes_read(&s) - weights - 512 * 131072.0) < 1);
    assert_true(fabs(as_step_bytes_written(&s) - 131072.0) < 1);
    assert_true(fabs(as_step_flops(&s) - weights - 4.0 * 32 * 32 * 128 * 513) < 1);
    /* A prefill of one token is a decode step without a past. */
    as_step one = s, none = s;
    one.phase = AS_PHASE_PREFILL;
    one.context = none.context = 0;
    assert_true(fabs(as_step_flops(&one) - as_step_flops(&none)) < 1e-9 * as_step_flops(&one));
    /* A generation is its prefill and its steps. */
    as_step all = one, first = one;
    all.phase = AS_PHASE_GENERATE;
    all.prompt = first.prompt = 10;
    all.tokens = 3;
    double sum = as_step_flops(&first), bytes = as_step_bytes_read(&first) + as_step_bytes_written(&first);
    for (int64_t i = 0; i < 2; i++) {
        as_step step = s;
        step.context = 10 + i;
        sum += as_step_flops(&step);
        bytes += as_step_bytes_read(&step) + as_step_bytes_written(&step);
    }
    assert_true(fabs(as_step_flops(&all) - sum) < 1e-9 * sum);
    assert_true(fabs(as_step_bytes_read(&all) + as_step_bytes_written(&all) - bytes) < 1e-9 * bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(the_largest_that_fits_is_named),
        cmocka_unit_test(work_is_as_published),
    };
    return cmocka_run_group_tests_name("inference cases", tests, host_open, host_close);
}
