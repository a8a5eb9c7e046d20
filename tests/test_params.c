/* Axes, values and ids: what a case is called never depends on chance, and nothing malformed becomes a number. */
#include "params.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const as_axis axes[] = {
    {.name = "n", .fallback = "1024", .integer = true},
    {.name = "threads", .fallback = "1", .integer = true, .all = true},
    {.name = "type", .fallback = "f32"},
};

static as_params defaults(void) {
    as_params p;
    assert_int_equal(as_params_init(&p, axes, 3, NULL), AS_OK);
    return p;
}

static void set(as_params *p, const char *name, const char *text) {
    assert_int_equal(as_params_set(p, name, text, NULL), AS_OK);
}

static void assert_refused(const char *name, const char *text, const char *says) {
    as_params p = defaults();
    as_error e = {0};
    assert_int_equal(as_params_set(&p, name, text, &e), AS_EUSAGE);
    if (!strstr(e.message, says))
        fail_msg("'%s' does not mention '%s'", e.message, says);
}

static void ids_leave_defaults_out(void **unused) {
    (void)unused;
    char id[AS_ID_MAX];
    as_params p = defaults();
    assert_int_equal(as_case_id(id, "matmul", "tiled", &p, "cpu"), strlen("matmul/tiled/dev:cpu"));
    assert_string_equal(id, "matmul/tiled/dev:cpu");
    set(&p, "type", "bf16");
    set(&p, "n", "17");
    as_case_id(id, "matmul", "tiled", &p, "cuda0");
    assert_string_equal(id, "matmul/tiled/n:17/type:bf16/dev:cuda0"); /* the suite's order, not the order of setting */
    set(&p, "n", "1024");
    set(&p, "type", "f32");
    as_case_id(id, "matmul", "tiled", &p, "cpu");
    assert_string_equal(id, "matmul/tiled/dev:cpu"); /* an explicit default is the default */
}

static void numbers_have_one_spelling(void **unused) {
    (void)unused;
    char id[AS_ID_MAX];
    as_params p = defaults();
    set(&p, "n", "0001024"); /* 1024, hence the default: one case has one id */
    assert_true(as_param_is_default(&p.value[0]));
    set(&p, "n", "007");
    as_case_id(id, "s", "v", &p, "cpu");
    assert_string_equal(id, "s/v/n:7/dev:cpu");
    assert_int_equal(as_params_int(&p, "n"), 7);
    set(&p, "n", "9223372036854775807");
    assert_true(as_params_int(&p, "n") == INT64_MAX);
}

static void all_is_a_word_where_it_is_legal(void **unused) {
    (void)unused;
    char id[AS_ID_MAX];
    as_params p = defaults();
    set(&p, "threads", "all");
    assert_int_equal(as_params_int(&p, "threads"), -1);
    assert_string_equal(as_params_text(&p, "threads"), "all");
    as_case_id(id, "s", "v", &p, "cpu");
    assert_string_equal(id, "s/v/threads:all/dev:cpu");
    assert_refused("n", "all", "axis n");
    assert_refused("threads", "ALL", "axis threads");
    set(&p, "type", "all"); /* plain text there */
    assert_string_equal(as_params_text(&p, "type"), "all");
}

static void malformed_values_are_refused(void **unused) {
    (void)unused;
    static const char *const numbers[] = {"5x",
                                          "-1",
                                          "+1",
                                          "",
                                          " 5",
                                          "5 ",
                                          "0x10",
                                          "1e3",
                                          "1.5",
                                          "1,000",
                                          "9223372036854775808",
                                          "99999999999999999999999"};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        assert_refused("n", numbers[i], "axis n");
    static const char *const texts[] = {"a/b", "a:b",  "a,b",  "a;b",  "a=b",  "a b",     "a\"b",
                                        "a'b", "a\\b", "a\nb", "a\tb", "\x7f", "\xc3\xa9"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_refused("type", texts[i], "axis type");
    assert_refused("size", "1", "there is no axis 'size'; this suite has n, threads, type");
    char longest[AS_AXIS_TEXT + 1];
    memset(longest, 'x', sizeof longest);
    longest[AS_AXIS_TEXT] = '\0';
    assert_refused("type", longest, "longer than 47");
}

static void a_refused_value_changes_nothing(void **unused) {
    (void)unused;
    as_params p = defaults();
    set(&p, "n", "33");
    assert_int_equal(as_params_set(&p, "n", "5x", NULL), AS_EUSAGE);
    assert_int_equal(as_params_int(&p, "n"), 33);
    assert_string_equal(as_params_text(&p, "n"), "33");
}

static void whole_numbers(void **unused) {
    (void)unused;
    int64_t x = -7;
    as_error e = {0};
    assert_int_equal(as_parse_int("42", 0, 100, &x, &e), AS_OK);
    assert_int_equal(x, 42);
    assert_int_equal(as_parse_int("0", 0, 0, &x, &e), AS_OK);
    static const char *const bad[] = {"101", "", "5x", "-1", "9223372036854775808", "18446744073709551617"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        x = -7;
        assert_int_equal(as_parse_int(bad[i], 0, 100, &x, &e), AS_EUSAGE);
        assert_int_equal(x, -7);
        assert_non_null(strstr(e.message, "100")); /* says what is legal */
    }
    assert_int_equal(as_parse_int(NULL, 0, 100, &x, &e), AS_EUSAGE);
    assert_int_equal(as_parse_int("4", 5, 100, &x, NULL), AS_EUSAGE); /* no error wanted: NULL is allowed */
}

/* Twelve axes, every text at its longest: the id fits whole, or its length says that it does not. */
static void ids_are_never_cut(void **unused) {
    (void)unused;
    char name[AS_MAX_AXES][64], text[AS_AXIS_TEXT], id[AS_ID_MAX + 1];
    memset(text, 'v', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    for (size_t width = 2; width <= 60; width += 29) {
        as_axis wide[AS_MAX_AXES];
        as_params p;
        size_t expected = strlen("suite/variant/dev:cuda0");
        for (int i = 0; i < AS_MAX_AXES; i++) {
            snprintf(name[i], sizeof name[i], "%0*d", (int)width, i);
            wide[i] = (as_axis){.name = name[i], .fallback = ""};
            expected += 1 + width + 1 + sizeof text - 1;
        }
        assert_int_equal(as_params_init(&p, wide, AS_MAX_AXES, NULL), AS_OK);
        for (int i = 0; i < AS_MAX_AXES; i++)
            set(&p, name[i], text);
        id[AS_ID_MAX] = 'G';
        assert_int_equal(as_case_id(id, "suite", "variant", &p, "cuda0"), expected);
        assert_int_equal(id[AS_ID_MAX], 'G'); /* nothing is written behind it */
        if (expected < AS_ID_MAX)
            assert_string_equal(id + strlen(id) - strlen("/dev:cuda0"), "/dev:cuda0");
        else
            assert_true(width > 20);
    }
}

static void lookups(void **unused) {
    (void)unused;
    const as_params p = defaults();
    assert_true(as_params_has(&p, "n") && !as_params_has(&p, "m") && !as_params_has(&p, "threads2"));
    assert_int_equal(as_params_int(&p, "n"), 1024);
    assert_string_equal(as_params_text(&p, "type"), "f32");
    assert_int_equal(p.count, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_leave_defaults_out),
        cmocka_unit_test(numbers_have_one_spelling),
        cmocka_unit_test(all_is_a_word_where_it_is_legal),
        cmocka_unit_test(malformed_values_are_refused),
        cmocka_unit_test(a_refused_value_changes_nothing),
        cmocka_unit_test(whole_numbers),
        cmocka_unit_test(ids_are_never_cut),
        cmocka_unit_test(lookups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
