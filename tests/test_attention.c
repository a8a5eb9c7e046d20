/* Attention on the host: the naive variant agrees with the float64 reference; a fault of one entry does not; formulas. */
#include "host_case.h"
#include "suites/suites.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void begin(host_case *t, const char *axes) {
    host_begin(t, &as_attention_suite, host_variant(&as_attention_suite, "naive"), axes, team_of_one);
}

static void naive_matches_the_reference(void **state) {
    static const char *const shapes[] = {
        "context=1;heads=2;kv_heads=1", "context=37;heads=6;kv_heads=3;head_dim=48;batch=2",
        "context=300;heads=4;kv_heads=1;type=f32", "phase=prefill;context=33;heads=4;kv_heads=2;head_dim=16;batch=2",
        "phase=prefill;context=20;heads=2;kv_heads=2;head_dim=64;type=f32"};
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        host_case t;
        begin(&t, shapes[i]);
        host_run(&t);
        const double worst = host_worst(&t);
        if (!(worst <= 1))
            fail_msg("%s: %.3g of the tolerance", shapes[i], worst);
        host_end(&t);
    }
}

/* One value of 100 entries differs: in every output of its column. */
static void one_wrong_entry_is_seen(void **state) {
    host_case t;
    (void)state;
    begin(&t, "context=100;heads=2;kv_heads=1;head_dim=32");
    host_run(&t);
    assert_true(host_worst(&t) <= 1);
    uint16_t *values = t.operand[2];
    for (int i = 0; i < 32; i++)
        values[50 * 32 + i] = values[51 * 32 + i];
    assert_true(host_worst(&t) > 1);
    host_end(&t);
}

static void formulas_hold(void **state) {
    (void)state;
    as_work w =
        host_work(&as_attention_suite, "naive", "phase=prefill;context=10;heads=4;kv_heads=2;head_dim=16;batch=3");
    assert_true(w.flops == 2.0 * 3 * 4 * 16 * 10 * 11);
    assert_true(w.bytes_read == 2.0 * 3 * 10 * 16 * (4 + 2 * 2) && w.bytes_written == 2.0 * 3 * 10 * 16 * 4);
    w = host_work(&as_attention_suite, "naive", "context=10;heads=4;kv_heads=2;head_dim=16;batch=3");
    assert_true(w.flops == 4.0 * 3 * 4 * 16 * 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(naive_matches_the_reference),
        cmocka_unit_test(one_wrong_entry_is_seen),
        cmocka_unit_test(formulas_hold),
    };
    return cmocka_run_group_tests(tests, host_open, host_close);
}
