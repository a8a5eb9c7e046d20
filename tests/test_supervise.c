/* The order of a run: devices, launches, ceilings, and what gives way where the budget is short. This binary is the
 * supervisor and the worker too (fake_main). */
#include "support/fake_suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

static char *folder, result_path[256];

static int make_folder(void **unused) {
    (void)unused;
    folder = fake_folder();
    snprintf(result_path, sizeof result_path, "%s/result.json", folder);
    return folder ? 0 : -1;
}

static int remove_folder(void **unused) {
    (void)unused;
    fake_remove_folder(folder);
    return 0;
}

static json_t *run(const char *const *words, int exit_code, const char *says) {
    char *output = NULL;
    const int rc = fake_assay(words, &output);
    if (rc != exit_code || (says && !strstr(output, says)))
        fail_msg("exit %d, not %d, or no '%s' in: %s", rc, exit_code, says ? says : "", output);
    free(output);
    json_error_t e;
    json_t *result = json_load_file(result_path, JSON_REJECT_DUPLICATES, &e);
    if (!result)
        fail_msg("%s: %s", result_path, e.text);
    return result;
}

static int64_t of_round(const json_t *row, size_t i, const char *key) {
    return json_integer_value(json_object_get(json_array_get(json_object_get(row, "rounds"), i), key));
}

static int launches(const json_t *row) {
    const size_t n = json_array_size(json_object_get(row, "rounds"));
    int found = 0;
    for (size_t i = 0; i < n; i++)
        found += i == 0 || of_round(row, i, "launch") != of_round(row, i - 1, "launch");
    return found;
}

/* Accelerators come first: their unused time is the host's. Ceilings stand around the cases of their device. */
static void devices_and_ceilings(void **unused) {
    (void)unused;
    const char *words[] = {
        "run",       "--filter", "^vector/(graph|other)/dev", "--rounds", "2", "--quiet", "--budget", "60s", "--out",
        result_path, NULL};
    json_t *result = run(words, 0, "2 intervals speak of one process");
    const json_t *host = fake_case(result, "cases", "vector/other/dev:cpu"),
                 *device = fake_case(result, "cases", "vector/graph/dev:fake0"),
                 *ceiling = fake_case(result, "ceilings", "ceiling/stream/level:cache/dev:cpu");
    assert_true(of_round(device, 0, "launch") == 0 && of_round(host, 0, "launch") == 1);
    assert_string_equal(fake_text(ceiling, "status"), "done");
    assert_int_equal(json_array_size(json_object_get(ceiling, "rounds")), 6);
    assert_int_equal(launches(ceiling), 1);
    assert_true(of_round(ceiling, 2, "end_ns") < of_round(host, 0, "begin_ns"));
    assert_true(of_round(ceiling, 3, "begin_ns") > of_round(host, 1, "end_ns"));
    const json_t *verification = json_object_get(ceiling, "verification");
    assert_string_equal(fake_text(verification, "status"), "passed");
    assert_string_equal(fake_text(verification, "after_timing"), "passed");
    json_decref(result);
}

/* Six processes are the units; the first ones have rounds enough to tell the spread within a process. */
static void launches_are_units(void **unused) {
    (void)unused;
    const char *words[] = {"run",        "--filter", "^(copy|vector)/(good|other)/dev:cpu",
                           "--launches", "6",        "--ceilings",
                           "off",        "--quiet",  "--budget",
                           "30s",        "--out",    result_path,
                           NULL};
    json_t *result = run(words, 0, NULL);
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(result, "cases"), i, row) {
        const json_t *statistics = json_object_get(row, "statistics"), *v = json_object_get(statistics, "variance");
        assert_string_equal(fake_text(row, "status"), "done");
        assert_int_equal(launches(row), 6);
        assert_string_equal(fake_text(statistics, "scope"), "launches");
        assert_int_equal(json_integer_value(json_object_get(statistics, "units")), 6);
        assert_true(json_number_value(json_object_get(json_object_get(v, "launch"), "degrees_of_freedom")) == 5);
        const size_t rounds = json_array_size(json_object_get(row, "rounds"));
        assert_true(rounds >= 3 + 5 && rounds <= 6 * 20); /* the pilot's 3, then at least 1 a launch, at most 20 */
        for (size_t k = 0; k < 3; k++)
            assert_int_equal(of_round(row, k, "launch"), of_round(row, 0, "launch"));
    }
    assert_int_equal(i, 3);
    json_decref(result);
}

/* 100 ms an operation, planned as 1 us: the budget does not hold six launches of both cases, so the last one gives way
 * after its first and the other has all its launches. */
static void fewer_cases_with_all_their_launches(void **unused) {
    (void)unused;
    const char *words[] = {"run",        "--filter",  "^(copy|effect)/good/",
                           "--launches", "6",         "--ceilings",
                           "off",        "--rounds",  "1",
                           "--quiet",    "--budget",  "5s",
                           "--out",      result_path, NULL};
    setenv("FAKE_SLOW_MS", "100", 1);
    json_t *result = run(words, 0, "1 done, 0 failed, 0 skipped, 0 lost, 1 not reached");
    unsetenv("FAKE_SLOW_MS");
    const json_t *copy = fake_case(result, "cases", "copy/good/dev:cpu"),
                 *slow = fake_case(result, "cases", "effect/good/dev:cpu");
    assert_string_equal(fake_text(slow, "status"), "not_reached");
    assert_non_null(strstr(fake_text(slow, "reason"), "does not hold all its launches"));
    assert_int_equal(launches(slow), 1);
    assert_int_equal(launches(copy), 6);
    json_decref(result);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(int argc, char **argv) {
    const int rc = fake_main(argc, argv);
    if (rc >= 0)
        return rc;
    const struct CMUnitTest tests[] = {
        IN_FOLDER(devices_and_ceilings),
        IN_FOLDER(launches_are_units),
        IN_FOLDER(fewer_cases_with_all_their_launches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
