/* NVML's readings of a real GPU: plausible, and of the device that CUDA has opened. Exit 77 without a device. */
#include "gpu_test.h"

#include "harness/telemetry.h"

#include <jansson.h>
#include <math.h>
#include <string.h>
#include <time.h>

static as_device device;
static void *monitor;
static double values[64];

static double value_of(const char *name) {
    for (int i = 0; as_cuda_telemetry.columns[i].name; i++)
        if (strcmp(as_cuda_telemetry.columns[i].name, name) == 0)
            return values[i];
    fail_msg("no column %s", name);
    return NAN;
}

static void wait_ms(long ms) { nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL); }

static void test_readings_are_plausible(void **state) {
    (void)state;
    size_t free_bytes, total_bytes;
    as_error e = {0};
    as_cuda_telemetry.read(monitor, values);
    wait_ms(200);
    as_cuda_telemetry.read(monitor, values);
    for (int i = 0; as_cuda_telemetry.columns[i].name; i++)
        print_message("  %-32s %.6g\n", as_cuda_telemetry.columns[i].name, values[i]);
    assert_true(value_of("sm_clock_hz") > 50e6 && value_of("sm_clock_hz") < 5e9);
    assert_true(value_of("power_watts") > 1 && value_of("power_watts") < 3000);
    assert_true(value_of("temperature_c") > 5 && value_of("temperature_c") < 120);
    assert_int_equal(device.driver->memory(&device, &free_bytes, &total_bytes, &e), AS_OK);
    /* What both say is in use, but for what others took in between. */
    assert_true(fabs(value_of("memory_used_bytes") - (double)(total_bytes - free_bytes)) < 2e9);
    const double sent = value_of("pcie_sent_bytes_per_s");
    assert_true(isnan(sent) || (sent >= 0 && sent < 200e9));
}

/* Where there is a counter it agrees with the power within a factor of 3, and it moves in steps. */
static void test_energy_counter_counts_power(void **state) {
    (void)state;
    double before, after;
    char reason[160] = "";
    if (!as_cuda_telemetry.energy(monitor, &before, reason)) {
        print_message("  no energy counter: %s\n", reason);
        assert_true(reason[0] != '\0');
        return;
    }
    as_cuda_telemetry.read(monitor, values);
    wait_ms(2000);
    assert_true(as_cuda_telemetry.energy(monitor, &after, reason));
    const double watts = (after - before) / 2;
    print_message("  %.1f W by the counter, %.1f W by the reading\n", watts, value_of("power_watts"));
    assert_true(watts > value_of("power_watts") / 3 && watts < value_of("power_watts") * 3);
}

static void test_a_reading_costs_little(void **state) {
    (void)state;
    struct timespec a, b;
    enum { READS = 50 };
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    for (int i = 0; i < READS; i++)
        as_cuda_telemetry.read(monitor, values);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    const double ns = ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / READS;
    print_message("  %.0f us of CPU time a reading\n", ns * 1e-3);
    assert_true(ns < 180e6 / 2); /* else one sample takes half of what 60 s allow */
}

int main(void) {
    as_error e = {0};
    if (as_cuda_driver.open(0, &device, &e) != AS_OK) {
        fprintf(stderr, "skipped: %s\n", e.message);
        return 77;
    }
    json_t *description = as_cuda_driver.describe(&device);
    monitor = as_cuda_telemetry.open(description);
    json_decref(description);
    if (!monitor) {
        fprintf(stderr, "skipped: NVML does not know the device\n");
        as_cuda_driver.close(&device);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_readings_are_plausible),
        cmocka_unit_test(test_energy_counter_counts_power),
        cmocka_unit_test(test_a_reading_costs_little),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    as_cuda_telemetry.close(monitor);
    as_cuda_driver.close(&device);
    return failed;
}
