/* The rule of the period under a fake clock, the host on fake trees, what a result keeps of the samples. */
#include "fake_suite.h"
#include "fake_tree.h"
#include "options.h"
#include "telemetry_internal.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>
#include <unistd.h>

/* ---- the period, under a fake clock ---- */

enum { MOST_SAMPLES = 20000 };
static struct {
    int64_t at_ns;
    double cpu_ns;
} spent[MOST_SAMPLES];

/* Runs the rule for `seconds`; sample k costs base, every `rare`th 20 times as much. Returns the number of samples. */
static int run_pace(double base_ns, int rare, double seconds) {
    as_pace p;
    const int64_t begin = 5000000000;
    as_pace_init(&p, 100000000);
    int64_t now = begin;
    int n = 0;
    while ((double)(now - begin) < seconds * 1e9 && n < MOST_SAMPLES) {
        const double cost = rare && n % rare == 0 ? 20 * base_ns : base_ns;
        now += (int64_t)cost;
        as_pace_spent(&p, now, cost);
        spent[n].at_ns = now;
        spent[n++].cpu_ns = cost;
        const int64_t next = as_pace_next(&p, now);
        assert_true(next >= now + 100000000);
        now = next;
    }
    return n;
}

/* The most CPU time in any window of 60 s that ends with a sample, over the window. */
static double worst_share(int n) {
    double worst = 0, sum = 0;
    for (int end = 0, begin = 0; end < n; end++) {
        sum += spent[end].cpu_ns;
        while (spent[begin].at_ns <= spent[end].at_ns - as_pace_window_ns)
            sum -= spent[begin++].cpu_ns;
        worst = fmax(worst, sum / (double)as_pace_window_ns);
    }
    return worst;
}

static void a_cheap_sample_keeps_the_shortest_period(void **unused) {
    (void)unused;
    const int n = run_pace(100e3, 0, 300);
    assert_in_range(n, 2950, 3001);
    assert_true(worst_share(n) < 0.0012);
}

static void a_dear_sample_stretches_the_period(void **unused) {
    (void)unused;
    const int n = run_pace(5e6, 0, 600); /* 5 ms / 0.27% = 1.85 s */
    assert_in_range(n, 280, 330);
    assert_true(worst_share(n) <= 0.003);
    assert_true(worst_share(n) > 0.002); /* it uses what it may */
}

static void dear_samples_among_cheap_ones_stay_within(void **unused) {
    (void)unused;
    for (int rare = 5; rare < 200; rare *= 3) {
        const int n = run_pace(1e6, rare, 900);
        assert_true(n > 100);
        /* A sample's cost is known only when it is over: the guard reckons with the mean, one dear one may exceed. */
        assert_true(worst_share(n) <= 0.003 + 20e6 / (double)as_pace_window_ns);
    }
}

/* ---- the host, on a tree of files ---- */

#define RAPL "/sys/class/powercap/intel-rapl:"

static int setup(void **state) {
    static fake_tree tree;
    fake_tree_init(&tree);
    *state = &tree;
    return 0;
}

static int teardown(void **state) {
    fake_tree_free(*state);
    return 0;
}

static int column_of(const as_device_telemetry *t, const char *name) {
    for (int i = 0; t->columns[i].name; i++)
        if (strcmp(t->columns[i].name, name) == 0)
            return i;
    fail_msg("no column %s", name);
    return -1;
}

static double host_value(void *monitor, const char *name) {
    double values[32];
    as_host_telemetry.read(monitor, values);
    return values[column_of(&as_host_telemetry, name)];
}

static void the_host_is_read(void **state) {
    const fake_tree *t = *state;
    fake_tree_write(t, "/proc/stat", "cpu  100 0 50 1000 7 1 2 30 9 0\ncpu0 1 2\nintr 5 6\nctxt 4242\nbtime 1\n");
    fake_tree_write(t, "/proc/meminfo", "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 400 kB\n");
    fake_tree_write(t, "/proc/vmstat", "nr_free 1\npgfault 1000\npgmajfault 30\n");
    fake_tree_write(t, "/proc/77/statm", "500 20 3 4 5 6 7\n");
    fake_tree_write(t, "/proc/pressure/cpu", "some avg10=1.00 avg60=0 avg300=0 total=500000\n");
    fake_tree_write(t, "/sys/devices/system/cpu/cpu3/cpufreq/scaling_cur_freq", "2000000\n");
    fake_tree_write(t, "/sys/devices/system/cpu/cpu4/cpufreq/scaling_cur_freq", "3000000\n");
    void *m = as_host_monitor_open(t->root);
    const int cpus[] = {3, 4};
    _Atomic int worker = 77;
    as_host_monitor_follow(m, cpus, 2, &worker);
    assert_true(host_value(m, "busy_cpus") == 153.0 / (double)sysconf(_SC_CLK_TCK)); /* neither idle nor stolen */
    assert_true(host_value(m, "steal_cpus") == 30.0 / (double)sysconf(_SC_CLK_TCK));
    assert_true(host_value(m, "context_switches_per_s") == 4242);
    assert_true(host_value(m, "minor_faults_per_s") == 970);
    assert_true(host_value(m, "major_faults_per_s") == 30);
    assert_true(host_value(m, "memory_used_bytes") == 600 * 1024);
    assert_true(host_value(m, "worker_rss_bytes") == 20.0 * (double)sysconf(_SC_PAGESIZE));
    assert_true(host_value(m, "clock_hz") == 2.5e9);
    assert_true(host_value(m, "cpu_pressure_fraction") == 500000);
    assert_true(isnan(host_value(m, "io_pressure_fraction")));
    assert_true(isnan(host_value(m, "package_power_watts")));
    as_host_telemetry.close(m);
}

static void a_host_that_hides_everything_is_unknown(void **state) {
    const fake_tree *t = *state;
    void *m = as_host_monitor_open(t->root);
    double values[32], joules;
    char reason[160];
    as_host_telemetry.read(m, values);
    for (int i = 0; as_host_telemetry.columns[i].name; i++)
        assert_true(isnan(values[i]));
    assert_false(as_host_telemetry.energy(m, &joules, reason));
    assert_non_null(strstr(reason, "no RAPL"));
    as_host_telemetry.close(m);
}

static void rapl_is_joined_over_its_wraps(void **state) {
    const fake_tree *t = *state;
    double joules;
    char reason[160];
    fake_tree_write(t, RAPL "0/name", "package-0\n");
    fake_tree_write(t, RAPL "0/max_energy_range_uj", "1000000\n");
    fake_tree_write(t, RAPL "0/energy_uj", "900000\n");
    fake_tree_write(t, RAPL "1/name", "psys\n"); /* the whole platform: it holds the packages */
    fake_tree_write(t, RAPL "1/max_energy_range_uj", "1000000\n");
    fake_tree_write(t, RAPL "1/energy_uj", "5\n");
    fake_tree_write(t, RAPL "2/name", "package-1\n");
    fake_tree_write(t, RAPL "2/max_energy_range_uj", "1000000\n");
    fake_tree_write(t, RAPL "2/energy_uj", "100000\n");
    void *m = as_host_monitor_open(t->root);
    assert_true(as_host_telemetry.energy(m, &joules, reason));
    assert_float_equal(joules, 1.0, 1e-9);
    fake_tree_write(t, RAPL "0/energy_uj", "100000\n");
    assert_true(as_host_telemetry.energy(m, &joules, reason));
    assert_float_equal(joules, 1.2, 1e-9);
    as_host_telemetry.close(m);
}

static void half_of_the_packages_is_no_energy(void **state) {
    const fake_tree *t = *state;
    double joules;
    char reason[160];
    fake_tree_write(t, RAPL "0/name", "package-0\n");
    fake_tree_write(t, RAPL "0/max_energy_range_uj", "1000000\n");
    fake_tree_write(t, RAPL "0/energy_uj", "900000\n");
    fake_tree_write(t, RAPL "1/name", "package-1\n"); /* its counter is not readable */
    void *m = as_host_monitor_open(t->root);
    assert_false(as_host_telemetry.energy(m, &joules, reason));
    assert_non_null(strstr(reason, "not readable"));
    as_host_telemetry.close(m);
}

static void the_spare_core_is_no_sibling(void **state) {
    const fake_tree *t = *state;
    static as_placement p = {.cpus = 2, .cpu = {0, 1}};
    const int all[] = {0, 1, 2, 3, 4}, few[] = {0, 1, 2};
    fake_tree_write(t, "/sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "0,2\n");
    fake_tree_write(t, "/sys/devices/system/cpu/cpu3/topology/thread_siblings_list", "1,3\n");
    fake_tree_write(t, "/sys/devices/system/cpu/cpu4/topology/thread_siblings_list", "4-5\n");
    assert_int_equal(as_spare_cpu(t->root, &p, all, 5), 4);
    assert_int_equal(as_spare_cpu(t->root, &p, few, 3), -1);
    assert_int_equal(as_spare_cpu("/nowhere", &p, few, 3), 2); /* no topology: only what is measured is known */
}

/* ---- the switches ---- */

static void the_switch_has_a_variable(void **unused) {
    (void)unused;
    as_options o;
    as_error e = {0};
    bool help;
    char *plain[] = {"assay", "run", NULL}, *on[] = {"assay", "run", "--telemetry", "on", NULL},
         *standard[] = {"assay", "run", "--energy=off", "--profile", "standard", NULL};
    assert_int_equal(as_options_parse(&o, 2, plain, &help, &e), AS_OK);
    assert_true(o.telemetry == 1 && o.energy == 0);
    setenv("ASSAY_TELEMETRY", "off", 1);
    assert_int_equal(as_options_parse(&o, 2, plain, &help, &e), AS_OK);
    assert_int_equal(o.telemetry, 0);
    assert_int_equal(as_options_parse(&o, 4, on, &help, &e), AS_OK); /* the command line wins */
    assert_int_equal(o.telemetry, 1);
    setenv("ASSAY_TELEMETRY", "maybe", 1);
    assert_int_equal(as_options_parse(&o, 2, plain, &help, &e), AS_EUSAGE);
    unsetenv("ASSAY_TELEMETRY");
    assert_int_equal(as_options_parse(&o, 5, standard, &help, &e), AS_OK);
    assert_int_equal(o.energy, 0);
    assert_int_equal(
        as_options_parse(&o, 5, (char *[]){"assay", "run", "--profile", "standard", "--quiet", NULL}, &help, &e),
        AS_OK);
    assert_int_equal(o.energy, 1);
}

/* ---- what is kept ---- */

/* Rows 1 s apart: a gauge that counts, a mask of bit (row mod 8), a rate that is never known. */
static void made_up(as_telemetry *t, int rows) {
    static const as_telemetry_column columns[] = {
        {.name = "count", .kind = AS_GAUGE}, {.name = "mask", .kind = AS_MASK}, {.name = "unknown", .kind = AS_RATE}};
    *t = (as_telemetry){.sources = 1, .columns = 3, .state = "complete", .fd = -1};
    snprintf(t->source[0].name, sizeof t->source[0].name, "fake0");
    t->source[0].driver = &fake_telemetry;
    for (int c = 0; c < 3; c++)
        t->column[c] = &columns[c];
    t->area = calloc(1, sizeof *t->area + sizeof(double) * 4 * AS_TELEMETRY_ROWS);
    t->area->rows = rows;
    for (int i = 0; i < rows; i++) {
        double *row = as_area_row(t->area, i, 3);
        row[0] = (i + 1) * 1e9;
        row[1] = i;
        row[2] = 1 << i % 8;
        row[3] = NAN;
    }
}

static double kept(const json_t *telemetry, size_t column, size_t i) {
    const json_t *c = json_array_get(json_object_get(telemetry, "columns"), column);
    return json_number_value(json_array_get(json_object_get(c, "values"), i));
}

static void many_samples_are_joined(void **unused) {
    (void)unused;
    as_telemetry t;
    made_up(&t, 10001);
    json_t *out = as_telemetry_json(&t);
    assert_int_equal(json_integer_value(json_object_get(out, "samples")), 10001);
    assert_int_equal(json_integer_value(json_object_get(out, "joined")), 3);
    const json_t *times = json_object_get(out, "time_ns");
    assert_int_equal(json_array_size(times), 3334);
    assert_true(json_integer_value(json_array_get(times, 0)) == 2000000000);
    assert_true(kept(out, 0, 0) == 1 && kept(out, 0, 1) == 4 && kept(out, 0, 3333) == 9999.5);
    assert_true(kept(out, 1, 0) == 1 + 2 + 4); /* masks are joined by OR */
    assert_int_equal(json_array_size(json_object_get(out, "columns")), 2);
    assert_string_equal(json_string_value(json_array_get(json_object_get(out, "unreadable"), 0)), "fake0.unknown");
    json_decref(out);
    free(t.area);
}

static void rows_that_a_kill_left_twice_are_skipped(void **unused) {
    (void)unused;
    as_telemetry t;
    made_up(&t, 100);
    for (int i = 1; i < 20; i++) /* killed while every second row was dropped */
        memcpy(as_area_row(t.area, i, 3), as_area_row(t.area, 2 * i, 3), 4 * sizeof(double));
    json_t *out = as_telemetry_json(&t);
    const json_t *times = json_object_get(out, "time_ns");
    for (size_t i = 1; i < json_array_size(times); i++)
        assert_true(json_integer_value(json_array_get(times, i)) > json_integer_value(json_array_get(times, i - 1)));
    assert_int_equal(json_array_size(times), 20 + 61); /* 0, 2 .. 38, then 39 on */
    json_decref(out);
    free(t.area);
}

static void a_case_has_the_samples_of_its_rounds(void **unused) {
    (void)unused;
    as_telemetry t;
    made_up(&t, 100);
    t.first_launch = 1;
    json_t *rounds = json_pack("[{s:i, s:I, s:I}, {s:i, s:I, s:I}, {s:i, s:I, s:I}]", "launch", 0, "begin_ns",
                               (json_int_t)1, "end_ns", (json_int_t)90000000000, "launch", 1, "begin_ns",
                               (json_int_t)10000000000, "end_ns", (json_int_t)12000000000, "launch", 1, "begin_ns",
                               (json_int_t)20500000000, "end_ns", (json_int_t)21500000000);
    json_t *out = as_telemetry_case_json(&t, rounds, "fake0");
    assert_int_equal(json_integer_value(json_object_get(out, "samples")), 4);
    assert_int_equal(json_array_size(json_object_get(out, "columns")), 1); /* no mean of a mask */
    const json_t *c = json_array_get(json_object_get(out, "columns"), 0);
    assert_true(json_number_value(json_object_get(c, "min")) == 9);
    assert_true(json_number_value(json_object_get(c, "max")) == 20);
    assert_true(json_number_value(json_object_get(c, "mean")) == 12.5);
    json_decref(out);
    out = as_telemetry_case_json(&t, rounds, "other"); /* another device's samples are not this case's */
    assert_int_equal(json_array_size(json_object_get(out, "columns")), 0);
    json_decref(out);
    json_decref(rounds);
    free(t.area);
}

int main(void) {
#define ON_TREE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cheap_sample_keeps_the_shortest_period),
        cmocka_unit_test(a_dear_sample_stretches_the_period),
        cmocka_unit_test(dear_samples_among_cheap_ones_stay_within),
        ON_TREE(the_host_is_read),
        ON_TREE(a_host_that_hides_everything_is_unknown),
        ON_TREE(rapl_is_joined_over_its_wraps),
        ON_TREE(half_of_the_packages_is_no_energy),
        ON_TREE(the_spare_core_is_no_sibling),
        cmocka_unit_test(the_switch_has_a_variable),
        cmocka_unit_test(many_samples_are_joined),
        cmocka_unit_test(rows_that_a_kill_left_twice_are_skipped),
        cmocka_unit_test(a_case_has_the_samples_of_its_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
