/* The sums of a breakdown: occurrences, layers, and which operations count. */
#include "parts.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Layers that grow are one occurrence of their path; one that starts over is another, as is a new operation. */
static void occurrences_are_counted(void **state) {
    (void)state;
    as_parts *parts;
    as_error e;
    assert_int_equal(as_parts_create(&parts, &e), AS_OK);
    assert_null(as_parts_json(parts)); /* no operation has ended */
    const int layers[] = {0, 1, 0, 1, -1, 1};
    for (int i = 0; i < 6; i++) {
        as_parts_add(parts, &(as_part){"decode", "norm", layers[i], "host", "clock", 10 + i, 4, 2, "memory"});
        if (i == 4)
            as_parts_total(parts, 100);
    }
    as_parts_total(parts, 50);
    json_t *all = as_parts_json(parts), *row = json_array_get(json_object_get(all, "rows"), 0);
    assert_true(json_is_null(json_object_get(row, "layer")));
    assert_int_equal(json_integer_value(json_object_get(row, "count")), 4);
    assert_true(json_number_value(json_object_get(row, "total_ns")) == 10 + 11 + 12 + 13 + 14 + 15);
    assert_true(json_number_value(json_object_get(row, "bytes")) == 6); /* of an occurrence: 6 parts in 4 */
    assert_true(json_number_value(json_object_get(all, "instrumented_ns")) == 75);
    json_decref(all);
    as_parts_free(parts);
}

/* A disturbed operation, and one that was too fast, change no time but the percentiles. */
static void the_middle_counts(void **state) {
    (void)state;
    as_parts *parts;
    as_error e;
    const double times[] = {100, 104, 5000, 102, 98, 1, 100, 96};
    assert_int_equal(as_parts_create(&parts, &e), AS_OK);
    for (int i = 0; i < 8; i++) {
        as_parts_add(parts, &(as_part){"decode", "head", -1, "host", "clock", times[i] - 1, 0, 0, NULL});
        as_parts_total(parts, times[i]);
    }
    json_t *all = as_parts_json(parts), *row = json_array_get(json_object_get(all, "rows"), 0);
    assert_int_equal(json_integer_value(json_object_get(all, "operations")), 4); /* 98, 100, 100, 102 */
    assert_true(json_number_value(json_object_get(all, "instrumented_ns")) == 100);
    assert_true(json_number_value(json_object_get(row, "mean_ns")) == 99);
    assert_int_equal(json_integer_value(json_object_get(row, "count")), 4);
    assert_true(json_number_value(json_object_get(row, "p99_ns")) > 4000);
    json_decref(all);
    as_parts_free(parts);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(occurrences_are_counted),
        cmocka_unit_test(the_middle_counts),
    };
    return cmocka_run_group_tests_name("parts", tests, NULL, NULL);
}
