/* The context of a run on fake and real machines, what it must not tell, and the judgement of a round. */
#include "environment.h"
#include "fake_tree.h"

#include <jansson.h>
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define CPU0 "/sys/devices/system/cpu/cpu0/"

static int setup(void **state) {
    static fake_tree tree;
    fake_tree_init(&tree);
    *state = &tree;
    return 0;
}

static int teardown(void **state) {
    fake_tree_free(*state);
    unsetenv("ASSAY_ANONYMOUS");
    return 0;
}

static const char *text_of(const json_t *o, const char *key) { return json_string_value(json_object_get(o, key)); }

static bool lists(const json_t *array, const char *part) {
    size_t i;
    json_t *v;
    json_array_foreach((json_t *)array, i, v) if (strstr(json_string_value(v), part)) return true;
    return false;
}

/* A server as its files show it. */
static void server(const fake_tree *t) {
    fake_tree_write(
        t, "/proc/cpuinfo",
        "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R) Platinum 8480C\n"
        "cpu MHz\t\t: 1234.567\nflags\t\t: fpu sse4_2 avx avx2 avx512f amx_bf16 hypervisor\n\nprocessor\t: 1\n");
    fake_tree_write(t, "/proc/meminfo", "MemTotal:       1048576 kB\nMemAvailable: 524288 kB\n");
    fake_tree_write(t, "/proc/loadavg", "0.25 1.50 2.75 1/100 4242\n");
    fake_tree_write(t, "/proc/stat", "cpu  100 0 50 1000 7 1 2 30 9 0\ncpu0 1 2 3 4\n");
    fake_tree_write(t, "/etc/os-release", "NAME=\"Ubuntu\"\nPRETTY_NAME=\"Ubuntu 24.04.1 LTS\"\nID=ubuntu\n");
    fake_tree_write(t, "/sys/devices/system/cpu/online", "0-3\n");
    fake_tree_write(t, "/sys/devices/system/cpu/smt/active", "1\n");
    fake_tree_write(t, "/sys/devices/system/cpu/intel_pstate/no_turbo", "0\n");
    fake_tree_write(t, CPU0 "cpufreq/scaling_governor", "powersave\n");
    fake_tree_write(t, CPU0 "cpufreq/base_frequency", "2000000\n");
    fake_tree_write(t, CPU0 "cpufreq/scaling_cur_freq", "3000000\n");
    fake_tree_write(t, CPU0 "cache/index0/level", "1\n");
    fake_tree_write(t, CPU0 "cache/index0/type", "Data\n");
    fake_tree_write(t, CPU0 "cache/index0/size", "48K\n");
    fake_tree_write(t, CPU0 "cache/index0/shared_cpu_list", "0,2\n");
    fake_tree_write(t, "/sys/devices/system/cpu/vulnerabilities/spectre_v2", "Mitigation: \"IBRS\", x\n");
}

static void expect_keys(const json_t *o, const char *const *keys) {
    for (; *keys; keys++)
        if (!json_object_get(o, *keys))
            fail_msg("key '%s' is missing", *keys);
}

static const char *const context_keys[] = {"date",
                                           "host_name",
                                           "executable",
                                           "num_cpus",
                                           "mhz_per_cpu",
                                           "caches",
                                           "load_avg",
                                           "machine",
                                           "kernel",
                                           "os",
                                           "warnings",
                                           "container",
                                           "mitigations",
                                           "environment_variables",
                                           "cpu_scaling_enabled",
                                           "library_build_type",
                                           NULL};
static const char *const machine_keys[] = {
    "cpu_model", "cpu_vendor", "packages",     "cores",      "hardware_threads", "numa_nodes", "isa", "l1d_bytes",
    "l2_bytes",  "l3_bytes",   "memory_bytes", "hypervisor", "governor",         "turbo",      "smt", NULL};

static void server_is_described(void **state) {
    const fake_tree *t = *state;
    server(t);
    json_t *c = as_environment_context(t->root, "build/bin/assay");
    const json_t *m = json_object_get(c, "machine"), *cache = json_array_get(json_object_get(c, "caches"), 0);
    expect_keys(c, context_keys);
    expect_keys(m, machine_keys);
    assert_string_equal(text_of(c, "executable"), "build/bin/assay");
    assert_string_equal(text_of(c, "os"), "Ubuntu 24.04.1 LTS");
    assert_string_equal(text_of(c, "library_build_type"), "release");
    assert_int_equal(json_integer_value(json_object_get(c, "num_cpus")), 4);
    assert_int_equal(json_integer_value(json_object_get(c, "mhz_per_cpu")), 2000); /* rated, not momentary */
    assert_true(json_is_true(json_object_get(c, "cpu_scaling_enabled")));
    assert_true(json_real_value(json_array_get(json_object_get(c, "load_avg"), 1)) == 1.5);
    assert_int_equal(json_array_size(json_object_get(c, "load_avg")), 3);
    assert_string_equal(text_of(cache, "type"), "Data");
    assert_int_equal(json_integer_value(json_object_get(cache, "size")), 48 << 10);
    assert_int_equal(json_integer_value(json_object_get(cache, "num_sharing")), 2);
    assert_string_equal(text_of(m, "cpu_model"), "Intel(R) Xeon(R) Platinum 8480C");
    assert_string_equal(text_of(m, "cpu_vendor"), "GenuineIntel");
    assert_string_equal(text_of(m, "governor"), "powersave");
    assert_string_equal(text_of(m, "hypervisor"), "unknown");
    assert_true(json_is_true(json_object_get(m, "turbo")));
    assert_true(json_is_true(json_object_get(m, "smt")));
    assert_true(lists(json_object_get(m, "isa"), "amx_bf16"));
    assert_false(lists(json_object_get(m, "isa"), "fpu"));
    assert_string_equal(text_of(json_object_get(c, "mitigations"), "spectre_v2"), "Mitigation: \"IBRS\", x");
    assert_true(lists(json_object_get(c, "warnings"), "governor"));
    assert_true(lists(json_object_get(c, "warnings"), "cache sizes are unknown"));
    json_decref(c);
}

static void machine_holds_no_noise(void **state) {
    const fake_tree *t = *state;
    server(t);
    json_t *a = as_environment_context(t->root, "assay");
    fake_tree_write(t, CPU0 "cpufreq/scaling_cur_freq", "800000\n");
    fake_tree_write(t, "/proc/loadavg", "9.00 9.00 9.00 1/1 1\n");
    fake_tree_write(t, "/proc/meminfo", "MemTotal:       1048576 kB\nMemAvailable: 1 kB\n");
    json_t *b = as_environment_context(t->root, "assay");
    assert_true(json_equal(json_object_get(a, "machine"), json_object_get(b, "machine")));
    assert_true(lists(json_object_get(b, "warnings"), "other processes"));
    assert_false(lists(json_object_get(a, "warnings"), "other processes"));
    json_decref(a);
    json_decref(b);
}

static void empty_machine_is_survived(void **state) {
    const fake_tree *t = *state;
    json_t *c = as_environment_context(t->root, "assay");
    const json_t *m = json_object_get(c, "machine");
    expect_keys(c, context_keys);
    expect_keys(m, machine_keys);
    assert_true(json_is_null(json_object_get(m, "governor")));
    assert_true(json_is_null(json_object_get(m, "turbo")));
    assert_true(json_is_null(json_object_get(m, "hypervisor")));
    assert_string_equal(text_of(c, "os"), "unknown");
    assert_int_equal(json_object_size(json_object_get(c, "mitigations")), 0);
    assert_true(lists(json_object_get(c, "warnings"), "memory size is unknown"));
    json_decref(c);
    json_t *k = as_environment_counters(t->root, NULL);
    assert_int_equal(json_integer_value(json_object_get(k, "cpu_ticks")), 0);
    json_decref(k);
}

static void strange_bytes_stay_valid_json(void **state) {
    const fake_tree *t = *state;
    fake_tree_write(t, "/proc/cpuinfo", "model name\t: Bad\xff\x01 \"name\"\nvendor_id\t: \xfe\n");
    fake_tree_write(t, "/etc/os-release", "PRETTY_NAME=\"O\xffS\"\n");
    fake_tree_write(t, "/sys/devices/system/cpu/vulnerabilities/x", "\xff\n");
    setenv("OMP_NUM_THREADS",
           "\xff"
           "4",
           1);
    json_t *c = as_environment_context(t->root, "a\xff/b");
    char *dump = json_dumps(c, 0);
    assert_non_null(dump);
    json_t *again = json_loads(dump, 0, NULL);
    assert_non_null(again);
    assert_string_equal(text_of(c, "os"), "O?S");
    assert_string_equal(text_of(c, "executable"), "a?/b");
    assert_string_equal(text_of(json_object_get(c, "machine"), "cpu_model"), "Bad?? \"name\"");
    assert_string_equal(text_of(json_object_get(c, "environment_variables"), "OMP_NUM_THREADS"), "?4");
    json_decref(again);
    free(dump);
    json_decref(c);
    unsetenv("OMP_NUM_THREADS");
}

static void only_allowed_variables_are_told(void **state) {
    const fake_tree *t = *state;
    setenv("AWS_SECRET_ACCESS_KEY", "hush", 1);
    setenv("LANGUAGE", "hush", 1); /* LANG is allowed, longer names are not */
    setenv("OMP", "hush", 1);
    setenv("CUDA_VISIBLE_DEVICES_TOKEN", "hush", 1);
    setenv("CUDA_VISIBLE_DEVICES", "", 1); /* empty is a setting of its own */
    setenv("OMP_PROC_BIND", "close", 1);
    setenv("ASSAY_INJECT", "0.05", 1);
    json_t *c = as_environment_context(t->root, "assay");
    const json_t *v = json_object_get(c, "environment_variables");
    char *dump = json_dumps(c, 0);
    assert_null(strstr(dump, "hush"));
    assert_string_equal(text_of(v, "CUDA_VISIBLE_DEVICES"), "");
    assert_string_equal(text_of(v, "OMP_PROC_BIND"), "close");
    assert_string_equal(text_of(v, "ASSAY_INJECT"), "0.05");
    free(dump);
    json_decref(c);
    unsetenv("AWS_SECRET_ACCESS_KEY");
    unsetenv("LANGUAGE");
    unsetenv("OMP");
    unsetenv("CUDA_VISIBLE_DEVICES_TOKEN");
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("OMP_PROC_BIND");
    unsetenv("ASSAY_INJECT");
}

static void anonymous_hides_host_and_folder(void **state) {
    const fake_tree *t = *state;
    setenv("ASSAY_ANONYMOUS", "1", 1);
    json_t *c = as_environment_context(t->root, "/home/someone/assay");
    assert_string_equal(text_of(c, "host_name"), "host");
    assert_string_equal(text_of(c, "executable"), "assay");
    json_decref(c);
    setenv("ASSAY_ANONYMOUS", "0", 1);
    c = as_environment_context(t->root, "/home/someone/assay");
    assert_string_equal(text_of(c, "executable"), "/home/someone/assay");
    json_decref(c);
}

static void date_has_an_offset(void **state) {
    const fake_tree *t = *state;
    setenv("TZ", "XXX-5:30", 1); /* POSIX writes east as minus */
    tzset();
    json_t *c = as_environment_context(t->root, "assay");
    const char *date = text_of(c, "date");
    assert_int_equal(strlen(date), strlen("2026-11-30T21:42:13+00:00"));
    assert_int_equal(date[10], 'T');
    assert_string_equal(date + 19, "+05:30");
    json_decref(c);
    unsetenv("TZ");
    tzset();
}

/* Makes a locale with a decimal comma in the tree, so that the test needs no installed language. */
static bool use_comma_locale(const fake_tree *t) {
    char command[512];
    snprintf(command, sizeof command, "localedef -c -i '%s/tests/fixtures/locale/comma' '%s/comma' >/dev/null 2>&1",
             ASSAY_SOURCE_DIR, t->root);
    int rc = system(command); /* warns about the categories that the source leaves out */
    setenv("LOCPATH", t->root, 1);
    bool used = rc != -1 && setlocale(LC_NUMERIC, "comma") != NULL;
    unsetenv("LOCPATH");
    return used;
}

static void comma_locale_changes_no_number(void **state) {
    const fake_tree *t = *state;
    char comma[8];
    if (!use_comma_locale(t))
        skip(); /* no localedef here */
    snprintf(comma, sizeof comma, "%.1f", 0.5);
    assert_string_equal(comma, "0,5");
    server(t);
    json_t *c = as_environment_context(t->root, "assay");
    json_t *flags = json_array(), *before = json_pack("{s:f}", "cpu_hz", 1e9),
           *after = json_pack("{s:f}", "cpu_hz", 2e9);
    char *dump = json_dumps(c, 0);
    as_environment_judge(before, after, flags);
    setlocale(LC_NUMERIC, "C");
    assert_true(json_real_value(json_array_get(json_object_get(c, "load_avg"), 0)) == 0.25);
    assert_non_null(strstr(dump, "0.25, 1.5, 2.75"));
    assert_true(lists(flags, "100.0%"));
    free(dump);
    json_decref(c);
    json_decref(flags);
    json_decref(before);
    json_decref(after);
}

/* ---- counters and judgement ---- */

static void counters_are_read(void **state) {
    const fake_tree *t = *state;
    const as_placement p = {.cpus = 1, .cpu = {0}, .cores = 1, .numa_node = -1};
    server(t);
    json_t *k = as_environment_counters(t->root, &p);
    static const char *const keys[] = {"minor_faults", "major_faults", "voluntary_switches", "involuntary_switches",
                                       NULL};
    expect_keys(k, keys);
    assert_int_equal(json_integer_value(json_object_get(k, "steal_ticks")), 30);
    assert_int_equal(json_integer_value(json_object_get(k, "cpu_ticks")), 183); /* user .. softirq + steal, not idle */
    assert_true(json_real_value(json_object_get(k, "cpu_hz")) == 3e9);
    json_decref(k);
}

static void counters_are_cheap(void **state) {
    (void)state;
    double best_ns = 1e18;
    for (int i = 0; i < 100; i++) {
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC_RAW, &a);
        json_t *k = as_environment_counters("", NULL);
        clock_gettime(CLOCK_MONOTONIC_RAW, &b);
        json_decref(k);
        double ns = (double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec);
        best_ns = ns < best_ns ? ns : best_ns;
    }
    assert_true(best_ns < 1e6); /* about 15 us at rest; a bound that no busy or instrumented machine breaks */
}

typedef struct reading {
    int steal, ticks, major;
    double hz;
} reading;

static json_t *judged(reading a, reading b) {
    json_t *before = json_pack("{s:i, s:i, s:i, s:f}", "steal_ticks", a.steal, "cpu_ticks", a.ticks, "major_faults",
                               a.major, "cpu_hz", a.hz);
    json_t *after = json_pack("{s:i, s:i, s:i, s:f}", "steal_ticks", b.steal, "cpu_ticks", b.ticks, "major_faults",
                              b.major, "cpu_hz", b.hz);
    json_t *flags = json_array();
    as_environment_judge(before, after, flags);
    json_decref(before);
    json_decref(after);
    return flags;
}

static void expect_flag(reading a, reading b, const char *flag) {
    json_t *flags = judged(a, b);
    if (!flag && json_array_size(flags) != 0)
        fail_msg("unexpected: %s", json_string_value(json_array_get(flags, 0)));
    if (flag) {
        assert_int_equal(json_array_size(flags), 1);
        assert_string_equal(json_string_value(json_array_get(flags, 0)), flag);
    }
    json_decref(flags);
}

static void rounds_are_judged(void **state) {
    (void)state;
    expect_flag((reading){5, 100, 0, 2e9}, (reading){5, 200, 0, 2e9}, NULL);
    expect_flag((reading){5, 100, 0, 0}, (reading){7, 200, 0, 0}, NULL); /* 2% is not more than 2% */
    expect_flag((reading){5, 100, 0, 0}, (reading){8, 200, 0, 0}, "other load: steal: 3.0% > 2.0%");
    expect_flag((reading){5, 100, 0, 0}, (reading){6, 105, 0, 0}, NULL); /* a single tick says nothing */
    expect_flag((reading){5, 100, 3, 0}, (reading){5, 200, 5, 0}, "major page faults: 2");
    expect_flag((reading){0, 1, 0, 2e9}, (reading){0, 2, 0, 2.19e9}, NULL);
    expect_flag((reading){0, 1, 0, 2e9}, (reading){0, 2, 0, 1.7e9}, "clocks moved: 15.0% > 10.0%");
    expect_flag((reading){0, 1, 0, 2e9}, (reading){0, 2, 0, 2.5e9}, "clocks moved: 25.0% > 10.0%");
    expect_flag((reading){0, 1, 0, 2e9}, (reading){0, 2, 0, 0}, NULL); /* unknown is not a move */
    json_t *nothing = json_object(), *flags = json_array();
    as_environment_judge(nothing, nothing, flags);
    as_environment_judge(NULL, NULL, flags);
    assert_int_equal(json_array_size(flags), 0);
    json_decref(nothing);
    json_decref(flags);
}

/* Waited for a CPU for `wait` of 100 ms; held down for `ms`. */
static void expect_disturbed(json_int_t wait_ns, int ms, const char *flag) {
    json_t *before = json_pack("{s:I, s:I, s:i}", "wait_ns", (json_int_t)7, "time_ns", (json_int_t)0,
                               "thermal_throttle_ms", 3),
           *after = json_pack("{s:I, s:I, s:i}", "wait_ns", 7 + wait_ns, "time_ns", (json_int_t)100000000,
                              "thermal_throttle_ms", 3 + ms),
           *flags = json_array(), *unknown = json_object();
    as_environment_judge(unknown, after, flags);
    as_environment_judge(before, unknown, flags);
    assert_int_equal(json_array_size(flags), 0); /* what one side lacks did not grow */
    as_environment_judge(before, after, flags);
    assert_int_equal(json_array_size(flags), flag != NULL);
    if (flag)
        assert_string_equal(json_string_value(json_array_get(flags, 0)), flag);
    json_decref(before), json_decref(after), json_decref(flags), json_decref(unknown);
}

static void waiting_and_heat_are_judged(void **state) {
    (void)state;
    expect_disturbed(0, 0, NULL);
    expect_disturbed(5000000, 0, NULL); /* 5% is not more than 5% */
    expect_disturbed(5100000, 0, "disturbed: waited for a CPU over 5% of the time");
    expect_disturbed(0, 1, "throttled: thermal");
}

static void waiting_and_heat_are_read(void **state) {
    const fake_tree *t = *state;
    char path[128];
    server(t);
    json_t *k = as_environment_counters(t->root, NULL);
    assert_null(json_object_get(k, "wait_ns")); /* unknown is absent, not 0 */
    assert_null(json_object_get(k, "thermal_throttle_ms"));
    assert_true(json_integer_value(json_object_get(k, "time_ns")) > 0);
    json_decref(k);
    fake_tree_write(t, "/proc/self/schedstat", "1000 2500 7\n");
    for (int cpu = 0; cpu < 1024; cpu++) { /* this thread may run on any */
        if (sysconf(_SC_NPROCESSORS_CONF) <= cpu)
            break;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/thermal_throttle/core_throttle_total_time_ms", cpu);
        fake_tree_write(t, path, "30\n");
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/thermal_throttle/package_throttle_total_time_ms",
                 cpu);
        fake_tree_write(t, path, "12\n");
    }
    k = as_environment_counters(t->root, NULL);
    assert_int_equal(json_integer_value(json_object_get(k, "wait_ns")), 2500);
    assert_int_equal(json_integer_value(json_object_get(k, "thermal_throttle_ms")), 42);
    json_decref(k);
}

static void real_machine_is_described(void **state) {
    (void)state;
    json_t *c = as_environment_context("", "assay");
    const json_t *m = json_object_get(c, "machine");
    expect_keys(c, context_keys);
    expect_keys(m, machine_keys);
    assert_true(json_integer_value(json_object_get(c, "num_cpus")) >= 1);
    assert_true(json_integer_value(json_object_get(m, "memory_bytes")) > 0);
    assert_true(strncmp(text_of(c, "kernel"), "Linux ", 6) == 0);
    assert_true(strlen(text_of(m, "cpu_model")) > 0);
    json_decref(c);
}

#define ON_TREE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_TREE(server_is_described),
        ON_TREE(machine_holds_no_noise),
        ON_TREE(empty_machine_is_survived),
        ON_TREE(strange_bytes_stay_valid_json),
        ON_TREE(only_allowed_variables_are_told),
        ON_TREE(anonymous_hides_host_and_folder),
        ON_TREE(date_has_an_offset),
        ON_TREE(comma_locale_changes_no_number),
        ON_TREE(counters_are_read),
        cmocka_unit_test(counters_are_cheap),
        cmocka_unit_test(rounds_are_judged),
        cmocka_unit_test(waiting_and_heat_are_judged),
        ON_TREE(waiting_and_heat_are_read),
        cmocka_unit_test(real_machine_is_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
