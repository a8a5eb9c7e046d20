/* Attention on the host: the naive variant agrees with the float64 reference; a fault of one entry does not; formulas. */
#include "kernels/attention/attention.h"
#include "suites/suites.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEED = 5, OPERANDS = 4 };
static const as_device cpu = {.driver = &as_cpu_driver, .name = "cpu"};

typedef struct bench {
    as_params params;
    as_work work;
    void *operand[OPERANDS];
} bench;

static void set_up(bench *b, const char *axes) {
    as_error e = {0};
    char text[128], *save = NULL;
    assert_int_equal(as_params_init(&b->params, as_attention_suite.axes, as_attention_suite.n_axes, &e), AS_OK);
    snprintf(text, sizeof text, "%s", axes);
    for (char *one = strtok_r(text, ";", &save); one; one = strtok_r(NULL, ";", &save)) {
        char *value = strchr(one, '=');
        *value++ = '\0';
        assert_int_equal(as_params_set(&b->params, one, value, &e), AS_OK);
    }
    assert_int_equal(as_attention_suite.describe(&b->params, as_attention_suite.variants, &cpu, &b->work, &e), AS_OK);
    for (int i = 0; i < OPERANDS; i++) {
        const as_operand *o = &b->work.operand[i];
        b->operand[i] = malloc((size_t)o->count * as_dtype_bytes(o->type));
        assert_non_null(b->operand[i]);
        if (o->role == AS_IN)
            as_rng_fill(b->operand[i], o->type, o->dist, 0, (uint64_t)o->count, SEED, o->key);
    }
}

static void tear_down(bench *b) {
    for (int i = 0; i < OPERANDS; i++)
        free(b->operand[i]);
}

/* The naive variant's largest error over its bound, with the inputs that the reference sees in `seen`. */
static double worst_of(const bench *b, const void *const *seen) {
    const int64_t n = b->work.rows * b->work.columns;
    double *expected = malloc((size_t)n * sizeof *expected), *scale = malloc((size_t)n * sizeof *scale), worst = 0;
    int64_t *rows = malloc((size_t)b->work.rows * sizeof *rows);
    as_error e = {0};
    assert_true(expected && scale && rows);
    for (int64_t i = 0; i < b->work.rows; i++)
        rows[i] = i;
    const as_call call = {.params = &b->params, .operand = b->operand};
    assert_int_equal(as_attention_naive_cpu(&call, &e), AS_OK);
    const as_reference r = {.params = &b->params,
                            .work = &b->work,
                            .input = seen,
                            .rows = rows,
                            .n_rows = b->work.rows,
                            .expected = expected,
                            .scale = scale};
    assert_int_equal(as_attention_reference(&r, &e), AS_OK);
    for (int64_t i = 0; i < n; i++) {
        const double got = b->work.operand[3].type == AS_F32
                               ? (double)((const float *)b->operand[3])[i]
                               : (double)as_bf16_to_f32(((const uint16_t *)b->operand[3])[i]);
        const double error = fabs(got - expected[i]) / (b->work.tolerance * scale[i]);
        worst = error <= worst ? worst : error; /* NaN counts */
    }
    free(expected);
    free(scale);
    free(rows);
    return worst;
}

static void naive_matches_the_reference(void **state) {
    static const char *const shapes[] = {
        "context=1;heads=2;kv_heads=1", "context=37;heads=6;kv_heads=3;head_dim=48;batch=2",
        "context=300;heads=4;kv_heads=1;type=f32", "phase=prefill;context=33;heads=4;kv_heads=2;head_dim=16;batch=2",
        "phase=prefill;context=20;heads=2;kv_heads=2;head_dim=64;type=f32"};
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        bench b = {0};
        set_up(&b, shapes[i]);
        const double worst = worst_of(&b, (const void *const *)b.operand);
        if (!(worst <= 1))
            fail_msg("%s: %.3g of the tolerance", shapes[i], worst);
        tear_down(&b);
    }
}

/* One value of 100 entries differs: in every output of its column. */
static void one_wrong_entry_is_seen(void **state) {
    bench b = {0};
    (void)state;
    set_up(&b, "context=100;heads=2;kv_heads=1;head_dim=32");
    const size_t bytes = (size_t)b.work.operand[2].count * sizeof(uint16_t);
    uint16_t *other = malloc(bytes);
    assert_non_null(other);
    memcpy(other, b.operand[2], bytes);
    for (int i = 0; i < 32; i++)
        other[50 * 32 + i] = other[51 * 32 + i];
    const void *const seen[OPERANDS] = {b.operand[0], b.operand[1], other};
    assert_true(worst_of(&b, seen) > 1);
    free(other);
    tear_down(&b);
}

static void formulas_hold(void **state) {
    bench b = {0};
    (void)state;
    set_up(&b, "phase=prefill;context=10;heads=4;kv_heads=2;head_dim=16;batch=3");
    assert_true(b.work.flops == 2.0 * 3 * 4 * 16 * 10 * 11);
    assert_true(b.work.bytes_read == 2.0 * 3 * 10 * 16 * (4 + 2 * 2) && b.work.bytes_written == 2.0 * 3 * 10 * 16 * 4);
    tear_down(&b);
    set_up(&b, "context=10;heads=4;kv_heads=2;head_dim=16;batch=3");
    assert_true(b.work.flops == 4.0 * 3 * 4 * 16 * 10);
    tear_down(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(naive_matches_the_reference),
        cmocka_unit_test(one_wrong_entry_is_seen),
        cmocka_unit_test(formulas_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
