/* The command line: every row, every malformed value, Google Benchmark's flags. */
#include "options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_WORDS = 48 };

/* assay run WORDS..., split at blanks. `o` points into a buffer that lives until the next call. */
static as_status parse(as_options *o, const char *words, as_error *e) {
    static char text[1024];
    char *argv[MOST_WORDS] = {(char *)"assay", (char *)"run"}, *save = NULL;
    int argc = 2;
    bool help = false;
    snprintf(text, sizeof text, "%s", words);
    for (char *w = strtok_r(text, " ", &save); w && argc < MOST_WORDS; w = strtok_r(NULL, " ", &save))
        argv[argc++] = w;
    *e = (as_error){0};
    return as_options_parse(o, argc, argv, &help, e);
}

static void accepted(as_options *o, const char *words) {
    as_error e;
    if (parse(o, words, &e) != AS_OK)
        fail_msg("%s: %s", words, e.message);
}

static void refused(const char *words, const char *says) {
    as_options o;
    as_error e;
    if (parse(&o, words, &e) != AS_EUSAGE)
        fail_msg("'%s' was not refused as a usage error", words);
    if (!strstr(e.message, says))
        fail_msg("%s: '%s' does not mention '%s'", words, e.message, says);
}

static void defaults(void **unused) {
    (void)unused;
    as_options o;
    accepted(&o, "");
    assert_string_equal(o.command, "run");
    assert_int_equal(o.profile, AS_QUICK);
    assert_true(o.seed == 42 && o.launches == 1 && o.gpu == -1 && o.ceilings);
    assert_true(o.budget_ns == 0 && o.rounds == 0 && o.timeout_ns == 60000000000);
    assert_true(!o.filter && !o.cases && !o.cpus && !o.out && !o.resume && !o.exec && !o.exec_name);
    assert_true(!o.strict && !o.dry_run && !o.if_present && !o.json && !o.quiet && !o.list_only);
    assert_true(o.suites.count == 0 && o.devices.count == 0);
    as_options_free(&o);
}

static void every_row(void **unused) {
    (void)unused;
    as_options o;
    accepted(&o,
             "--suite a,b --suite=c --filter ^x$ --cases ids.txt --device cpu,cuda0 --profile publish --budget 4m "
             "--timeout 500ms --launches 7 --rounds 9 --seed 18446744073709551615 --cpus 0-3,8 --gpu 1 --out r.json "
             "--ceilings off --wait 3s --strict --dry-run --if-present --json --quiet");
    assert_int_equal(o.suites.count, 3);
    assert_string_equal(o.suites.name[0], "a");
    assert_string_equal(o.suites.name[2], "c");
    assert_int_equal(o.devices.count, 2);
    assert_string_equal(o.devices.name[1], "cuda0");
    assert_string_equal(o.filter, "^x$");
    assert_string_equal(o.cases, "ids.txt");
    assert_string_equal(o.cpus, "0-3,8");
    assert_string_equal(o.out, "r.json");
    assert_int_equal(o.profile, AS_PUBLISH);
    assert_true(o.budget_ns == 240000000000 && o.timeout_ns == 500000000);
    assert_true(o.launches == 7 && o.rounds == 9 && o.gpu == 1 && o.seed == UINT64_MAX && !o.ceilings);
    assert_true(o.strict && o.dry_run && o.if_present && o.json && o.quiet && o.wait_ns == 3000000000);
    as_options_free(&o);
    accepted(&o, "--resume r.json");
    assert_string_equal(o.resume, "r.json");
    as_options_free(&o);
    accepted(&o, "--resume r.json --quiet --wait 1m");
    assert_int_equal(o.chosen, 0); /* the journal's own command line is taken up */
    as_options_free(&o);
    accepted(&o, "--exec sleep --name nap --ceilings=on --seed 0");
    assert_string_equal(o.exec, "sleep");
    assert_string_equal(o.exec_name, "nap");
    assert_true(o.ceilings && o.seed == 0);
    as_options_free(&o);
}

/* Both spellings of an option with a value, and the words of the message. */
static void malformed_values(void **unused) {
    (void)unused;
    static const char *const numbers[] = {"--launches", "--rounds", "--gpu"};
    static const char *const bad[] = {"5x", "-1", "1.5", "99999999999999999999", "0x2", "two"};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
            char words[128];
            snprintf(words, sizeof words, "%s %s", numbers[i], bad[k]);
            refused(words, numbers[i]);
            snprintf(words, sizeof words, "%s=%s", numbers[i], bad[k]);
            refused(words, numbers[i]);
        }
    refused("--launches 0", "--launches");
    refused("--launches 1001", "1000");
    refused("--rounds 0", "--rounds");
    refused("--launches=", "--launches");
    refused("--seed 18446744073709551616", "--seed");
    refused("--seed -1", "--seed");
    refused("--seed 5x", "--seed");
    refused("--seed=", "--seed");
    refused("--profile fast", "quick, standard or publish");
    refused("--ceilings maybe", "--ceilings");
    refused("--ceilings=", "--ceilings");
    refused("--suite=", "--suite");
    refused("--device ,", "--device");
    refused("--filter=", "--filter");
    refused("--out=", "--out");
    refused("--suite a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q", "more than 16");
}

static void durations(void **unused) {
    (void)unused;
    static const struct {
        const char *text;
        int64_t ns;
    } good[] = {{"1ms", 1000000},    {"90s", 90000000000},       {"4m", 240000000000},  {"1h", 3600000000000},
                {"20", 20000000000}, {"720h", 2592000000000000}, {"0005s", 5000000000}, {"2592000s", 2592000000000000}};
    int64_t ns;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(as_parse_duration(good[i].text, &ns, NULL), AS_OK);
        assert_true(ns == good[i].ns);
    }
    static const char *const bad[] = {"",
                                      "0",
                                      "0s",
                                      "-1s",
                                      "1.5s",
                                      "5x",
                                      "s",
                                      "ms",
                                      "1 s",
                                      "1s ",
                                      " 1s",
                                      "1sec",
                                      "1us",
                                      "1d",
                                      "721h",
                                      "1e3s",
                                      "+1s",
                                      "1S",
                                      "99999999999999999999h",
                                      "9999999999999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        as_error e = {0};
        ns = -7;
        if (as_parse_duration(bad[i], &ns, &e) != AS_EUSAGE)
            fail_msg("'%s' passed as a duration", bad[i]);
        assert_true(ns == -7);
        assert_non_null(strstr(e.message, "90s, 4m"));
    }
    refused("--budget 5x", "--budget");
    refused("--budget 0", "--budget");
    refused("--timeout=1.5s", "--timeout");
}

static void google_benchmark_flags(void **unused) {
    (void)unused;
    as_options o;
    accepted(&o, "--benchmark_filter=mat --benchmark_repetitions=12 --benchmark_min_time=0.5 --benchmark_out=x.json "
                 "--benchmark_out_format=json --benchmark_list_tests=true");
    assert_string_equal(o.filter, "mat");
    assert_string_equal(o.out, "x.json");
    assert_true(o.rounds == 12 && o.budget_ns == 500000000 && o.list_only);
    as_options_free(&o);
    static const struct {
        const char *words;
        int64_t ns;
    } times[] = {{"--benchmark_min_time=2s", 2000000000},
                 {"--benchmark_min_time 2", 2000000000},
                 {"--benchmark_min_time=1.25s", 1250000000},
                 {"--benchmark_min_time=0.001", 1000000}};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        accepted(&o, times[i].words);
        assert_true(o.budget_ns == times[i].ns);
        as_options_free(&o);
    }
    static const char *const bad[] = {"0", "5x", "-1", "0.5sx", ".", "1..5", "1e3", "0.0000", "100x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char words[64];
        snprintf(words, sizeof words, "--benchmark_min_time=%s", bad[i]);
        refused(words, "--benchmark_min_time");
    }
    refused("--benchmark_out_format=csv", "json is the only format");
    refused("--benchmark_repetitions=0", "--benchmark_repetitions");
    refused("--benchmark_list_tests=maybe", "--benchmark_list_tests");
    static const char *const unmapped[] = {
        "--benchmark_counters_tabular",  "--benchmark_color=yes", "--benchmark_x",
        "--benchmark_min_warmup_time=1", "--benchmark_filte=x",   "--benchmark_filters=x"};
    for (size_t i = 0; i < sizeof unmapped / sizeof *unmapped; i++)
        refused(unmapped[i], "there is no option");
}

static void unknown_words(void **unused) {
    (void)unused;
    refused("--sute matmul", "--sute");
    refused("--", "no option");
    refused("--=5", "no option");
    refused("matmul", "'matmul' is not an option");
    refused("-q", "'-q' is not an option");
    refused("--strict=yes", "--strict takes no value");
    refused("--strict yes", "'yes' is not an option");
    refused("--out", "--out needs a value: FILE");
    refused("--suite a --device cpu --bogus", "--bogus"); /* what was parsed before is freed: leak checkers look */
}

static void exec_and_name_go_together(void **unused) {
    (void)unused;
    refused("--exec true", "--exec and --name go together");
    refused("--name x", "--exec and --name go together");
}

static void help(void **unused) {
    (void)unused;
    as_options o;
    as_error e;
    bool asked = false;
    char *argv[] = {(char *)"assay", (char *)"run",    (char *)"--suite",
                    (char *)"a",     (char *)"--help", (char *)"--bogus"};
    assert_int_equal(as_options_parse(&o, 6, argv, &asked, &e), AS_OK);
    assert_true(asked);
    as_options_free(&o);
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    as_options_help(to);
    fclose(to);
    static const char *const named[] = {
        "--suite NAME",  "--filter REGEX", "--cases FILE",       "--device",  "--profile",
        "--budget TIME", "--timeout",      "--launches",         "--rounds",  "--seed",
        "--cpus",        "--gpu",          "--out FILE",         "--resume",  "--ceilings",
        "--exec",        "--name",         "--strict",           "--dry-run", "--if-present",
        "--json",        "--quiet",        "--benchmark_filter", "exit codes"};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (!strstr(text, named[i]))
            fail_msg("the help does not name %s", named[i]);
    free(text);
}

static void profile_names(void **unused) {
    (void)unused;
    for (int i = AS_QUICK; i <= AS_PUBLISH; i++) {
        as_profile p;
        assert_int_equal(as_profile_parse(as_profile_name((as_profile)i), &p, NULL), AS_OK);
        assert_int_equal(p, i);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(every_row),
        cmocka_unit_test(malformed_values),
        cmocka_unit_test(durations),
        cmocka_unit_test(google_benchmark_flags),
        cmocka_unit_test(unknown_words),
        cmocka_unit_test(exec_and_name_go_together),
        cmocka_unit_test(help),
        cmocka_unit_test(profile_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
