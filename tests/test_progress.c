/* Numbers for people, and the progress that goes to a pipe. */
#include "progress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <locale.h>
#include <math.h>

static void times(void **unused) {
    (void)unused;
    static const struct {
        double ns;
        const char *text;
    } rows[] = {{0.4, "0.40 ns"},   {1, "1.00 ns"},     {9.994, "9.99 ns"}, {9.996, "10.0 ns"}, {99.94, "99.9 ns"},
                {99.96, "100 ns"},  {999.4, "999 ns"},  {999.6, "1.00 us"}, {1234, "1.23 us"},  {12345, "12.3 us"},
                {123456, "123 us"}, {1.5e6, "1.50 ms"}, {2.5e9, "2.50 s"},  {999e9, "999 s"},   {3.6e12, "3600 s"},
                {0, "-"},           {-5, "-"},          {NAN, "-"},         {INFINITY, "-"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char out[32];
        as_format_time(out, rows[i].ns);
        assert_string_equal(out, rows[i].text);
    }
}

static void rates(void **unused) {
    (void)unused;
    static const struct {
        double value;
        const char *unit, *text;
    } rows[] = {{55.3e9, "bytes_per_s", "55.3 GB/s"},
                {1e9, "bytes_per_s", "1.00 GB/s"}, /* 1e9, not 2^30 */
                {4.8e12, "bytes_per_s", "4.80 TB/s"},
                {4.8e16, "bytes_per_s", "48000 TB/s"},
                {50.2e12, "flops_per_s", "50.2 TFLOP/s"},
                {1.98e15, "flops_per_s", "1.98 PFLOP/s"},
                {12, "bytes_per_s", "12.0 B/s"},
                {1500, "ns", "1.50 us"},
                {2.5e5, "launches_per_s", "2.5e+05 launches_per_s"},
                {NAN, "bytes_per_s", "-"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char out[32];
        as_format_rate(out, rows[i].value, rows[i].unit);
        assert_string_equal(out, rows[i].text);
    }
}

/* Standard error of `fn` through a file. */
static char *captured(void (*fn)(void)) {
    FILE *to = tmpfile();
    fflush(stderr);
    const int saved = dup(STDERR_FILENO);
    dup2(fileno(to), STDERR_FILENO);
    fn();
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    char *text = calloc(1, 4096);
    rewind(to);
    assert_true(fread(text, 1, 4095, to) < 4095);
    fclose(to);
    return text;
}

static void two_cases(void) {
    as_progress p;
    as_progress_init(&p, true, 2, 1000000000);
    as_progress_step(&p, "measure", "suite/a/dev:cpu", 1234);
    as_progress_note(&p, "%d notes", 1);
    as_progress_case(&p, "suite/a/dev:cpu", "done", 1234, 0.012, NULL);
    as_progress_case(&p, "suite/b/dev:cpu", "failed", NAN, INFINITY, "verification failed: row 3");
    as_progress_end(&p);
}

static void quiet(void) {
    as_progress p;
    as_progress_init(&p, false, 2, 1000000000);
    as_progress_step(&p, "measure", "suite/a/dev:cpu", 1234);
    as_progress_note(&p, "a note");
    as_progress_case(&p, "suite/a/dev:cpu", "done", 1234, 0.012, "why");
    as_progress_end(&p);
}

static void a_pipe_gets_plain_lines(void **unused) {
    (void)unused;
    char *text = captured(two_cases);
    assert_null(strchr(text, '\r')); /* no bar */
    assert_null(strchr(text, '\033'));
    assert_non_null(strstr(text, "1 notes\n"));
    assert_non_null(strstr(text, "[  1/2] suite/a/dev:cpu"));
    assert_non_null(strstr(text, "1.23 us +- 1.2%\n"));
    assert_non_null(strstr(text, "[  2/2] suite/b/dev:cpu"));
    assert_non_null(strstr(text, "failed            -   verification failed: row 3\n"));
    assert_null(strstr(text, "inf"));
    assert_null(strstr(text, "nan"));
    free(text);
}

static void quiet_says_nothing(void **unused) {
    (void)unused;
    char *text = captured(quiet);
    assert_string_equal(text, "");
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times),
        cmocka_unit_test(rates),
        cmocka_unit_test(a_pipe_gets_plain_lines),
        cmocka_unit_test(quiet_says_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
