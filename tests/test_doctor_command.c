/* `assay doctor` as a command, with the fake device: exit codes, profiles, a driver that crashes. This binary is the
 * command and its child process too (fake_main). What the host of the test is like is not judged here. */
#include "fake_suite.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DOCTOR(...) ((const char *const[]){"doctor", "--json", "--sample", "100ms", __VA_ARGS__, NULL})

/* The report and its exit code, which the report states too. */
static json_t *doctor(const char *const *words, int *code) {
    char *text = NULL;
    *code = fake_assay(words, &text);
    json_t *report = json_loads(text ? text : "", JSON_REJECT_DUPLICATES, NULL);
    if (!report)
        fail_msg("no report: %s", text ? text : "");
    free(text);
    assert_int_equal(json_integer_value(json_object_get(report, "exit_code")), *code);
    return report;
}

static const char *status_of(const json_t *report, const char *subject, const char *check) {
    size_t i;
    json_t *f;
    json_array_foreach(json_object_get(report, "findings"), i,
                       f) if (strcmp(fake_text(f, "subject"), subject) == 0 &&
                              strcmp(fake_text(f, "check"), check) == 0) return fake_text(f, "status");
    return "";
}

static void set(const char *count, const char *health) {
    setenv("FAKE_COUNT", count, 1);
    setenv("FAKE_HEALTH", health, 1);
}

static void expect(const char *const *words, int code, const char *subject, const char *check, const char *status) {
    int got;
    json_t *report = doctor(words, &got);
    if (code >= 0) /* -1: what the host's load decides */
        assert_int_equal(got, code);
    if (status)
        assert_string_equal(status_of(report, subject, check), status);
    else /* what the host decides */
        assert_true(strlen(status_of(report, subject, check)) > 0);
    json_decref(report);
}

static void findings_of_the_device_are_told(void **state) {
    (void)state;
    set("2", "note");
    expect(DOCTOR("--device", "fake1"), -1, "fake1", "fake_check", "note");
    expect(DOCTOR("--device", "fake1"), -1, "fake0", "fake_check", "");
    expect(DOCTOR("--device", "cpu,fake"), -1, "fake0", "fake_check", "note");
    expect(DOCTOR(NULL), -1, "fake0", "present", "ok");
    expect(DOCTOR("--device", "cpu"), -1, "fake0", "present", "");
    expect(DOCTOR("--device", "cpu"), -1, "host", "aslr", NULL);
}

static void unfit_is_3_where_it_was_asked_for(void **state) {
    (void)state;
    set("1", "unfit");
    expect(DOCTOR("--device", "fake0"), 3, "fake0", "fake_check", "unfit");
    expect(DOCTOR("--for", "publish"), 4, "fake0", "fake_check", "warning");
    set("1", "ok");
    expect(DOCTOR("--device", "fake3"), 3, "fake3", "present", "unfit");
    set("0", "ok");
    expect(DOCTOR("--device", "fake0"), 3, "fake0", "present", "unfit");
    expect(DOCTOR("--device", "cpu,fake"), 3, "fake", "present", "unfit");
    expect(DOCTOR(NULL), -1, "fake", "present", "note");
}

static void warning_counts_from_its_profile_on(void **state) {
    (void)state;
    set("1", "warning"); /* its rule warns from publish on */
    expect(DOCTOR("--for", "publish"), 4, "fake0", "fake_check", "warning");
    expect(DOCTOR("--for", "standard"), -1, "fake0", "fake_check", "note");
    expect(DOCTOR(NULL), -1, "fake0", "fake_check", "note");
}

static void broken_and_crashing_drivers_are_survived(void **state) {
    (void)state;
    set("broken", "ok");
    expect(DOCTOR("--device", "fake0"), 3, "fake0", "present", "unfit");
    expect(DOCTOR(NULL), 4, "fake", "present", "warning");
    set("crash", "ok");
    expect(DOCTOR("--device", "fake0"), 3, "drivers", "present", "unfit");
    set("1", "crash");
    expect(DOCTOR("--device", "fake0"), 3, "drivers", "present", "unfit");
    expect(DOCTOR(NULL), 4, "drivers", "present", "warning");
    expect(DOCTOR(NULL), 4, "host", "aslr", NULL);                   /* the rest is told all the same */
    expect(DOCTOR("--device", "cpu"), -1, "drivers", "present", ""); /* not asked, not started */
}

static void cpus_and_folder_that_are_not_there(void **state) {
    (void)state;
    set("1", "ok");
    expect(DOCTOR("--cpus", "1023"), 3, "host", "cpus", "unfit");
    expect(DOCTOR("--out", "/nowhere/at/all/x.json"), 3, "host", "disk", "unfit");
}

static void counts_agree_with_the_findings(void **state) {
    (void)state;
    static const char *const names[] = {"ok", "note", "unknown", "warning", "unfit"};
    set("1", "unfit");
    int code;
    json_t *report = doctor(DOCTOR("--device", "fake0"), &code);
    const json_t *findings = json_object_get(report, "findings");
    size_t i, sum = 0;
    json_t *f;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        size_t n = 0;
        json_array_foreach((json_t *)findings, i, f) n += strcmp(fake_text(f, "status"), names[k]) == 0;
        assert_int_equal(json_integer_value(json_object_get(json_object_get(report, "counts"), names[k])), n);
        sum += n;
    }
    assert_int_equal(sum, json_array_size(findings));
    json_array_foreach((json_t *)findings, i, f)
        assert_int_equal(json_is_null(json_object_get(f, "remedy")), strcmp(fake_text(f, "status"), "ok") == 0);
    assert_string_equal(fake_text(report, "verdict"), "unfit");
    json_decref(report);
}

int main(int argc, char **argv) {
    const int rc = fake_main(argc, argv);
    if (rc >= 0)
        return rc;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(findings_of_the_device_are_told),
        cmocka_unit_test(unfit_is_3_where_it_was_asked_for),
        cmocka_unit_test(warning_counts_from_its_profile_on),
        cmocka_unit_test(broken_and_crashing_drivers_are_survived),
        cmocka_unit_test(cpus_and_folder_that_are_not_there),
        cmocka_unit_test(counts_agree_with_the_findings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
