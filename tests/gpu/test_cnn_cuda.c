/* Convolutional networks on the GPU: every rung and type on ragged shapes, batches about a tile, with the copies and
 * without, the device's reference against the host's, images alone and among others, and the breakdown. */
#include "cases.h"

#include "parts.h"
#include "suites/inference/inference.h"

#include <jansson.h>

static const char *const shapes[] = {"model=tiny-cnn;phase=forward;type=f32",
                                     "model=tiny-cnn;phase=forward;type=tf32",
                                     "model=tiny-cnn;phase=forward;type=bf16",
                                     "model=tiny-cnn;phase=forward;type=f16",
                                     "model=tiny-cnn;phase=forward;batch=3;type=f32",
                                     "model=tiny-cnn;phase=forward;batch=3;type=f16",
                                     "model=tiny-cnn;phase=forward;batch=17;type=tf32",
                                     "model=tiny-cnn;phase=forward;batch=64;type=bf16",
                                     "model=tiny-cnn;phase=forward;batch=5;type=f16;transfers=yes",
                                     "model=tiny-cnn;phase=forward;batch=2;type=f32;transfers=yes",
                                     "model=resnet18;phase=forward;type=f16",
                                     NULL};

static void test_networks(void **state) {
    (void)state;
    assert_true(check_all(&as_inference_suite, "naive", shapes) >= 11);
    check_all(&as_inference_suite, "eager", shapes);
    check_all(&as_inference_suite, "graph", shapes);
}

/* The device's float64 logits and scales are the host's. */
static void test_reference(void **state) {
    (void)state;
    bench b;
    void *out[2];
    double got[2][30], expected[30], scale[30];
    const int64_t rows[] = {0, 1, 2};
    assert_true(set_up(&b, &as_inference_suite, case_variant(&as_inference_suite, "cuda", "naive"),
                       "model=tiny-cnn;phase=forward;batch=3;type=f16", false));
    for (int i = 0; i < 2; i++)
        assert_ok(DRIVER.alloc(&device, AS_MEM_DEVICE, sizeof got[0], &out[i], e));
    void *const operand[] = {b.operand[0], b.operand[1], out[0], out[1]};
    as_call call = b.call;
    call.operand = operand;
    assert_ok(as_inference_suite.device_reference(&call, e));
    for (int i = 0; i < 2; i++) {
        assert_ok(DRIVER.copy(&device, got[i], out[i], sizeof got[0], e));
        DRIVER.release(&device, AS_MEM_DEVICE, out[i]);
    }
    const as_reference r = {&b.params, &b.work, (const void *const[]){b.host[0], b.host[1], NULL}, rows, 3, expected,
                            scale,     NULL};
    assert_ok(as_inference_suite.reference(&r, e));
    for (int i = 0; i < 30; i++) {
        assert_true(fabs(got[0][i] - expected[i]) <= 1e-9 * scale[i]);
        assert_true(fabs(got[1][i] - scale[i]) <= 1e-9 * scale[i]);
    }
    tear_down(&b);
}

/* Each image of a batch alone gives, bit by bit, what it gives among the others. */
static void test_images_apart(void **state) {
    (void)state;
    bench all, one;
    const as_variant *v = case_variant(&as_inference_suite, "cuda", "graph");
    if (!set_up(&all, &as_inference_suite, v, "model=tiny-cnn;phase=forward;batch=5;type=f16", false))
        return;
    run(&all);
    const size_t image = bytes_of(&all.work.operand[1]) / 5;
    for (size_t n = 0; n < 5; n++) {
        assert_true(set_up(&one, &as_inference_suite, v, "model=tiny-cnn;phase=forward;type=f16", false));
        assert_ok(DRIVER.copy(&device, one.operand[1], (char *)all.host[1] + n * image, image, e));
        run(&one);
        assert_memory_equal(one.host[2], (float *)all.host[2] + n * 10, 10 * sizeof(float));
        tear_down(&one);
    }
    tear_down(&all);
}

/* Stages that the copies bring, and that all of them add up to the whole. */
static void test_breakdown(void **state) {
    (void)state;
    const char *const rungs[] = {"naive", "eager", "graph"};
    for (int i = 0; i < 3; i++) {
        bench b;
        as_parts *parts;
        as_error e;
        const as_variant *v = case_variant(&as_inference_suite, "cuda", rungs[i]);
        if (!set_up(&b, &as_inference_suite, v, "model=tiny-cnn;phase=forward;batch=4;type=f16;transfers=yes", false))
            continue;
        assert_int_equal(as_parts_create(&parts, &e), AS_OK);
        for (int k = 0; k < 5; k++)
            assert_int_equal(v->breakdown(&b.call, parts, &e), AS_OK);
        json_t *all = as_parts_json(parts), *row;
        const double operations = json_number_value(json_object_get(all, "operations"));
        double sum = 0;
        int copies = 0;
        size_t at;
        json_array_foreach(json_object_get(all, "rows"), at, row) {
            const char *path = json_string_value(json_object_get(row, "path"));
            if (!json_is_null(json_object_get(row, "layer")))
                continue;
            copies += strcmp(path, "images/h2d") == 0 || strcmp(path, "logits/d2h") == 0;
            sum += json_number_value(json_object_get(row, "total_ns"));
        }
        const double whole = json_number_value(json_object_get(all, "instrumented_ns")) * operations;
        assert_int_equal(copies, 2);
        assert_true(sum > 0.95 * whole && sum <= 1.001 * whole);
        json_decref(all);
        as_parts_free(parts);
        tear_down(&b);
    }
}

int main(void) {
    const int absent = without_device();
    if (absent)
        return absent;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_networks),
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_images_apart),
        cmocka_unit_test(test_breakdown),
    };
    return cmocka_run_group_tests_name("cuda images", tests, open_device, close_device) != 0;
}
