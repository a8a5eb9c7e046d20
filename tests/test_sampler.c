/* The sampler's process: samples, deaths and hangs of it and of its supervisor, whole runs and dmon beside it. This binary
 * is the supervisor and the sampler too (fake_main). */
#include "fake_suite.h"
#include "process.h"
#include "telemetry.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void wait_ms(long ms) { nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL); }

static int column_of(const as_device_telemetry *t, const char *name) {
    for (int i = 0; t->columns[i].name; i++)
        if (strcmp(t->columns[i].name, name) == 0)
            return i;
    fail_msg("no column %s", name);
    return -1;
}

static as_telemetry_request request(const json_t *description) {
    return (as_telemetry_request){
        .device = {{"cpu", "cpu", &as_host_telemetry, NULL}, {"fake0", "fake", &fake_telemetry, description}},
        .devices = 2,
        .period_ns = 20000000};
}

static void start(as_telemetry *t) {
    json_t *description = json_pack("{s:s}", "model", "a device of the tests");
    const as_telemetry_request q = request(description);
    as_telemetry_start(t, &q);
    json_decref(description);
}

static void wait_for_rows(as_telemetry *t, int rows) {
    for (int i = 0; i < 2000 && as_telemetry_rows(t) < rows; i++)
        wait_ms(5);
    assert_true(as_telemetry_rows(t) >= rows);
}

static double value_of(const as_telemetry *t, int row, const char *device, const char *name) {
    for (int s = 0; s < t->sources; s++)
        if (strcmp(t->source[s].name, device) == 0)
            return as_telemetry_row(t, row)[1 + t->source[s].first + column_of(t->source[s].driver, name)];
    fail_msg("no source %s", device);
    return NAN;
}

static void the_sampler_samples_and_ends(void **unused) {
    (void)unused;
    as_telemetry t;
    start(&t);
    as_telemetry_follow(&t, getpid());
    wait_for_rows(&t, 6);
    const pid_t pid = t.pid;
    as_telemetry_stop(&t);
    assert_string_equal(t.state, "complete");
    assert_string_equal(t.fault, "");
    assert_int_equal(kill(pid, 0), -1);
    assert_true(value_of(&t, 1, "fake0", "power_watts") == 123.456);
    assert_true(isnan(value_of(&t, 0, "fake0", "throttle_fraction"))); /* one reading is no rate */
    assert_float_equal(value_of(&t, 1, "fake0", "throttle_fraction"), 0.5, 0.2);
    assert_true(value_of(&t, 5, "cpu", "worker_rss_bytes") > 0);
    for (int i = 1; i < as_telemetry_rows(&t); i++)
        assert_true(as_telemetry_row(&t, i)[0] > as_telemetry_row(&t, i - 1)[0]);
    json_t *out = as_telemetry_json(&t);
    assert_string_equal(fake_text(out, "state"), "complete");
    assert_true(json_number_value(json_object_get(json_object_get(out, "sampler"), "cpu_share")) > 0);
    char *text = json_dumps(json_object_get(out, "unreadable"), 0);
    assert_non_null(strstr(text, "fake0.memory_temperature_c"));
    free(text);
    json_decref(out);
    as_telemetry_free(&t);
}

static void a_killed_sampler_leaves_its_samples(void **unused) {
    (void)unused;
    as_telemetry t;
    start(&t);
    wait_for_rows(&t, 3);
    kill(t.pid, SIGKILL);
    for (int i = 0; i < 500 && as_telemetry_alive(&t); i++)
        wait_ms(10);
    as_telemetry_stop(&t);
    assert_string_equal(t.state, "died");
    assert_non_null(strstr(t.fault, "signal 9"));
    assert_true(as_telemetry_rows(&t) >= 3);
    json_t *out = as_telemetry_json(&t);
    assert_string_equal(fake_text(out, "fault"), t.fault);
    json_decref(out);
    as_telemetry_free(&t);
}

static void a_hanging_sampler_is_ended(void **unused) {
    (void)unused;
    as_telemetry t;
    start(&t);
    wait_for_rows(&t, 1);
    kill(t.pid, SIGSTOP);
    const int64_t begin = as_now_ns();
    const pid_t pid = t.pid;
    as_telemetry_stop(&t);
    assert_true(as_now_ns() - begin < 3000000000);
    assert_string_equal(t.state, "stuck");
    assert_int_equal(kill(pid, 0), -1);
    as_telemetry_free(&t);
}

static void the_sampler_dies_with_the_supervisor(void **unused) {
    (void)unused;
    int ends[2];
    pid_t sampler = 0;
    assert_int_equal(pipe(ends), 0);
    const pid_t supervisor = fork();
    if (supervisor == 0) {
        as_telemetry t;
        start(&t);
        (void)!write(ends[1], &t.pid, sizeof t.pid);
        for (;;)
            pause();
    }
    assert_int_equal(read(ends[0], &sampler, sizeof sampler), sizeof sampler);
    assert_true(sampler > 0 && kill(sampler, 0) == 0);
    kill(supervisor, SIGKILL);
    waitpid(supervisor, NULL, 0);
    char path[64], line[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)sampler);
    for (int i = 0; i < 500; i++) { /* gone, or a zombie that its new parent has not reaped yet */
        FILE *f = fopen(path, "r");
        const bool alive = f && fgets(line, sizeof line, f) && !strstr(line, ") Z");
        if (f)
            fclose(f);
        if (!alive)
            break;
        assert_true(i < 499);
        wait_ms(10);
    }
    close(ends[0]);
    close(ends[1]);
}

/* ---- runs ---- */

static json_t *run_with(const char *fault, const char *switch_word) {
    char *folder = fake_folder(), *text = NULL, path[300];
    snprintf(path, sizeof path, "%s/r.json", folder);
    setenv("FAKE_SAMPLER", fault, 1);
    const char *const words[] = {
        "run", "--suite",    "vector", "--device",    "fake",      "--filter", "good/dev:", "--rounds", "6", "--budget",
        "20s", "--ceilings", "off",    "--telemetry", switch_word, "--quiet",  "--out",     path,       NULL};
    const int code = fake_assay(words, &text);
    unsetenv("FAKE_SAMPLER");
    if (code != 0)
        fail_msg("exit %d: %s", code, text);
    free(text);
    json_t *result = json_load_file(path, 0, NULL);
    assert_non_null(result);
    fake_remove_folder(folder);
    assert_string_equal(fake_text(json_array_get(json_object_get(result, "cases"), 0), "status"), "done");
    return result;
}

static bool warned(const json_t *result, const char *part) {
    size_t i;
    json_t *w;
    json_array_foreach(json_object_get(json_object_get(result, "context"), "warnings"), i,
                       w) if (strstr(json_string_value(w), part)) return true;
    return false;
}

static void a_run_keeps_its_curves(void **unused) {
    (void)unused;
    json_t *result = run_with("", "on"), *t = json_object_get(result, "telemetry");
    assert_string_equal(fake_text(t, "state"), "complete");
    assert_true(json_array_size(json_object_get(t, "columns")) > 5);
    assert_false(warned(result, "telemetry"));
    json_decref(result);
    result = run_with("", "off");
    assert_true(json_is_null(json_object_get(result, "telemetry")));
    json_decref(result);
}

static void a_broken_driver_costs_the_curves_alone(void **unused) {
    (void)unused;
    static const char *const faults[][2] = {{"crash", "died"}, {"hang", "stuck"}, {"stop", "stuck"}};
    for (int i = 0; i < 3; i++) {
        json_t *result = run_with(faults[i][0], "on");
        assert_string_equal(fake_text(json_object_get(result, "telemetry"), "state"), faults[i][1]);
        assert_true(warned(result, "telemetry: the sampler"));
        json_decref(result);
    }
}

static void dmon_shows_the_device_and_says_when_it_breaks(void **unused) {
    (void)unused;
    const char *const words[] = {"dmon", "--device", "fake0", "--count", "2", "--period", "50ms", "--json", NULL},
                      *const table[] = {"dmon", "--count", "1", "--period", "50ms", NULL};
    char *text = NULL;
    assert_int_equal(fake_assay(words, &text), 0);
    json_t *first = json_loads(text, JSON_DISABLE_EOF_CHECK, NULL), *device = json_object_get(first, "fake0");
    assert_true(json_number_value(json_object_get(device, "power_watts")) == 123.456);
    assert_true(json_is_null(json_object_get(device, "memory_temperature_c")));
    json_decref(first);
    free(text);
    assert_int_equal(fake_assay(table, &text), 0);
    assert_non_null(strstr(text, "123.5"));
    assert_null(strstr(text, "mtemp")); /* a column without values is left out of the table */
    free(text);
    setenv("FAKE_SAMPLER", "crash", 1);
    assert_int_equal(fake_assay(words, &text), 3);
    assert_non_null(strstr(text, "the sampler died: signal 6"));
    unsetenv("FAKE_SAMPLER");
    free(text);
}

int main(int argc, char **argv) {
    const int code = fake_main(argc, argv);
    if (code >= 0)
        return code;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sampler_samples_and_ends),
        cmocka_unit_test(a_killed_sampler_leaves_its_samples),
        cmocka_unit_test(a_hanging_sampler_is_ended),
        cmocka_unit_test(the_sampler_dies_with_the_supervisor),
        cmocka_unit_test(a_run_keeps_its_curves),
        cmocka_unit_test(a_broken_driver_costs_the_curves_alone),
        cmocka_unit_test(dmon_shows_the_device_and_says_when_it_breaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
