/* The host's reference of a matrix product by element type: layout of B, widening, and the bound that it gives. */
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/openblas.h"
#include "suites/suites.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

enum { M = 3, N = 5, K = 77, SEED = 5 };

/* An element by the definition of its format; shares no code with the reference. */
static double decode(const void *p, as_dtype type, int64_t i) {
    unsigned bits = 0, exponent_bits = 0, fraction_bits = 0;
    switch (type) {
    case AS_I8: return ((const int8_t *)p)[i];
    case AS_F32:
    case AS_TF32: return (double)((const float *)p)[i];
    case AS_BF16: bits = ((const uint16_t *)p)[i], exponent_bits = 8, fraction_bits = 7; break;
    case AS_F16: bits = ((const uint16_t *)p)[i], exponent_bits = 5, fraction_bits = 10; break;
    case AS_F8E4M3: bits = ((const uint8_t *)p)[i], exponent_bits = 4, fraction_bits = 3; break;
    default: fail_msg("type %s is no input of a product", as_dtype_name(type));
    }
    const int exponent = (int)(bits >> fraction_bits & ((1u << exponent_bits) - 1));
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const unsigned whole = (bits & ((1u << fraction_bits) - 1)) | (exponent ? 1u << fraction_bits : 0);
    const double magnitude = ldexp(whole, (exponent ? exponent : 1) - bias - (int)fraction_bits);
    return bits >> (exponent_bits + fraction_bits) & 1 ? -magnitude : magnitude;
}

static void check(const char *name, double rounding, bool transposed) {
    const as_variant any = {.name = "cublaslt", .on = "cuda"}; /* takes every type */
    const as_device_driver driver = {.kind = "cuda"};
    const as_device device = {.driver = &driver, .name = "cuda0"};
    as_params p;
    as_work w;
    as_error e;
    assert_int_equal(as_params_init(&p, as_matmul_suite.axes, as_matmul_suite.n_axes, &e), AS_OK);
    assert_int_equal(as_params_set(&p, "m", "3", &e), AS_OK);
    assert_int_equal(as_params_set(&p, "n", "5", &e), AS_OK);
    assert_int_equal(as_params_set(&p, "k", "77", &e), AS_OK);
    assert_int_equal(as_params_set(&p, "type", name, &e), AS_OK);
    assert_int_equal(as_matmul_suite.describe(&p, &any, &device, &w, &e), AS_OK);
    const as_dtype type = w.operand[0].type;
    char a[M * K * sizeof(float)], b[K * N * sizeof(float)];
    as_rng_fill(a, type, AS_NORMAL, 0, M * K, SEED, 1);
    as_rng_fill(b, type, AS_NORMAL, 0, K * N, SEED, 2);
    double expected[2 * N], scale[2 * N];
    const void *input[] = {a, b, NULL};
    const int64_t rows[] = {0, 2};
    assert_int_equal(as_matmul_reference(&(as_reference){&p, &w, input, rows, 2, expected, scale, NULL}, &e), AS_OK);
    for (int x = 0; x < 2 * N; x++) {
        double sum = 0, magnitude = 0;
        for (int k = 0; k < K; k++) {
            const double term =
                decode(a, type, rows[x / N] * K + k) * decode(b, type, transposed ? x % N * K + k : k * N + x % N);
            sum += term;
            magnitude += fabs(term);
        }
        const double bound = type == AS_I8 ? 0.25 : w.tolerance * magnitude + rounding * fabs(sum);
        assert_true(fabs(expected[x] - sum) <= 1e-13 * magnitude);
        assert_true(fabs(w.tolerance * scale[x] / bound - 1) < 1e-12);
        assert_true(bound < 0.1 * magnitude); /* a wrong row or column cannot pass */
    }
    const int64_t beyond[] = {M};
    assert_int_equal(as_matmul_reference(&(as_reference){&p, &w, input, beyond, 1, expected, scale, NULL}, &e),
                     AS_EFAIL);
}

static void references_by_type(void **state) {
    (void)state;
    check("f32", 0, false);
    check("tf32", 0, true);
    check("bf16", 0x1p-8, true);
    check("f16", 0x1p-11, true);
    check("e4m3", 0x1p-8, true);
    check("s8", 0, true);
}

static void unknown_types_have_no_row(void **state) {
    (void)state;
    assert_null(as_matmul_type_named("f64"));
    assert_null(as_matmul_type_named(""));
    assert_string_equal(as_matmul_type_named("s8")->name, "s8");
}

/* A reference that took an older machine's kernels is set right; one that knew the machine, or the user, is left alone. */
static void the_reference_uses_what_the_machine_has(void **state) {
    (void)state;
    assert_string_equal(as_openblas_better_core("Prescott", AS_ISA_AVX512), "SkylakeX");
    assert_string_equal(as_openblas_better_core("Sandybridge", AS_ISA_AVX2), "Haswell");
    assert_null(as_openblas_better_core("Prescott", AS_ISA_BASE));
    assert_null(as_openblas_better_core("Haswell", AS_ISA_AVX2));
    assert_null(as_openblas_better_core("ZEN", AS_ISA_AVX512));
    assert_null(as_openblas_better_core("SkylakeX", AS_ISA_AVX512));
    setenv("OPENBLAS_CORETYPE", "Nehalem", 1);
    as_openblas_choose_core();
    assert_string_equal(getenv("OPENBLAS_CORETYPE"), "Nehalem");
    unsetenv("OPENBLAS_CORETYPE");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_reference_uses_what_the_machine_has),
        cmocka_unit_test(references_by_type),
        cmocka_unit_test(unknown_types_have_no_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
