/* Suite memcpy: what its formulas say of each kind of case, and what parameters are refused. */
#include "kernels/memcpy/memcpy.h"

#include "suites/suites.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const as_device_driver cuda_kind = {.kind = "cuda"};
static const as_device cuda = {.driver = &cuda_kind, .name = "cuda0", .last_level_cache_bytes = 60 << 20};
static const as_device cpu = {.driver = &as_cpu_driver, .name = "cpu", .last_level_cache_bytes = 32 << 20};

/* Formulas depend on name and device of a variant only: they hold in builds without it too. */
static as_status describe(const char *variant, const char *axes, const as_device *d, as_work *w, as_error *e) {
    const as_variant v = {.name = variant, .on = d->driver->kind};
    char text[128], *rest = text;
    as_params p;
    assert_int_equal(as_params_init(&p, as_memcpy_suite.axes, as_memcpy_suite.n_axes, e), AS_OK);
    snprintf(text, sizeof text, "%s", axes);
    for (char *pair; (pair = strsep(&rest, ";"));) {
        char *value = pair;
        const char *axis = strsep(&value, "=");
        if (as_params_set(&p, axis, value, e) != AS_OK)
            fail_msg("%s: %s", axes, e->message);
    }
    return as_memcpy_suite.describe(&p, &v, d, w, e);
}

static as_work work_of(const char *variant, const char *axes, const as_device *d) {
    as_work w;
    as_error e = {0};
    if (describe(variant, axes, d, &w, &e) != AS_OK)
        fail_msg("%s %s: %s", variant, axes, e.message);
    return w;
}

static void formulas_hold(void **state) {
    (void)state;
    as_work w = work_of("kernel", "bytes=4096;dir=h2d;memory=write_combined", &cuda);
    assert_true(w.bound[0].amount == 4096 && w.operand[0].memory == AS_MEM_WRITE_COMBINED);
    w = work_of("async", "bytes=4096;dir=d2h;memory=registered", &cuda);
    assert_int_equal(w.operand[1].memory, AS_MEM_REGISTERED);
    w = work_of("async", "bytes=4096;dir=h2d;node=far", &cuda);
    assert_true(w.operand[0].memory == AS_MEM_PAGEABLE && w.operand[0].key != 1); /* moved: it is shared with nobody */
    w = work_of("peer", "bytes=4096;dir=p2d", &cuda);
    assert_true(w.bounds == 0 && w.no_ceiling && w.bytes_read + w.bytes_written == 4096);
    w = work_of("resident", "bytes=4096;dir=h2d;uses=10", &cuda);
    assert_true(w.bytes_read == 11 * 4096 && w.bytes_written == 10 * 4096);
    assert_true(w.bound[0].amount == 4096 && w.bound[1].amount == 20 * 4096);
    w = work_of("resend", "bytes=4096;dir=h2d;uses=10", &cuda);
    assert_true(w.bytes_read == 20 * 4096 && w.bound[0].amount == 10 * 4096);
    w = work_of("latency", "bytes=2097152;dir=h2d", &cuda);
    assert_true(w.items == 8192 && w.check == AS_CHECK_REFERENCE && w.rows * w.columns == 1);
    w = work_of("request_copy", "bytes=4096", &cpu);
    assert_true(w.bytes_read == 3 * 4096 && w.bytes_written == 3 * 4096 && w.no_ceiling);
    w = work_of("request_copy", "bytes=4096;dir=h2d", &cuda);
    assert_true(w.bound[0].amount == 4096 && w.operand[0].memory == AS_MEM_PAGEABLE);
    w = work_of("managed_advise", "bytes=4096;dir=h2d", &cuda);
    const uint32_t advised = w.operand[0].key;
    w = work_of("managed_fault", "bytes=4096;dir=h2d", &cuda);
    assert_true(w.operand[0].memory == AS_MEM_MANAGED && w.operand[0].key != advised);
}

static void senseless_parameters_are_usage_errors(void **state) {
    (void)state;
    const struct {
        const char *variant, *axes;
        const as_device *d;
    } bad[] = {
        {"async", "bytes=8;dir=h2d;memory=mapped", &cuda},
        {"async", "bytes=8;dir=h2d;memory=managed", &cuda},
        {"async", "bytes=8;dir=d2d;memory=registered", &cuda},
        {"async", "bytes=8;dir=h2d;pieces=2", &cuda},
        {"async", "bytes=8;dir=h2d;node=far;memory=pageable", &cuda},
        {"async", "bytes=8;dir=d2d;node=far", &cuda},
        {"async", "bytes=33554432;dir=d2h;memory=write_combined", &cuda},
        {"kernel", "bytes=8;dir=h2d;memory=pageable", &cuda},
        {"kernel", "bytes=8;dir=p2d", &cuda},
        {"many", "bytes=8;dir=h2d;pieces=9", &cuda},
        {"many", "bytes=8;dir=h2d;pieces=0", &cuda},
        {"resident", "bytes=8;dir=d2h", &cuda},
        {"resident", "bytes=8;dir=h2d;uses=0", &cuda},
        {"latency", "bytes=100;dir=h2d", &cuda},
        {"latency", "bytes=256;dir=h2d;peer=1", &cuda},
        {"bidirectional", "bytes=16;dir=h2d;by=dma", &cuda},
        {"bidirectional", "bytes=17;dir=h2d;by=sm", &cuda},
        {"bidirectional", "bytes=16;dir=h2d;cache=cold", &cuda},
        {"peer", "bytes=16;dir=h2d", &cuda},
        {"peer", "bytes=16;dir=p2d;peer=other", &cuda},
        {"managed_fault", "bytes=536870913;dir=h2d", &cuda},
        {"request_mapped", "bytes=1048577;dir=h2d", &cuda},
        {"request_copy", "bytes=8;dir=h2d;copies=1", &cuda},
        {"request_straight", "bytes=8;copies=2", &cpu},
        {"request_copy", "bytes=1048577", &cpu},
        {"request_copy", "bytes=8;threads=all", &cpu},
        {"libc", "bytes=8;node=middle", &cpu},
        {"nt", "bytes=8;node=far", &cpu},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        as_work w;
        as_error e = {0};
        if (describe(bad[i].variant, bad[i].axes, bad[i].d, &w, &e) != AS_EUSAGE)
            fail_msg("%s '%s' is not refused", bad[i].variant, bad[i].axes);
        assert_true(strlen(e.message) > 20);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formulas_hold),
        cmocka_unit_test(senseless_parameters_are_usage_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
