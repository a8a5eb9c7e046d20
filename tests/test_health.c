/* The rules about a GPU's health, on readings of GPUs that nobody has here; the reading, from an NVML of the tests. */
#include "doctor_tree.h"
#include "kernels/cuda/health.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static as_gpu_health healthy(void) {
    as_gpu_health h;
    as_gpu_health_init(&h);
    h.nvml = true;
    snprintf(h.pci_bus_id, sizeof h.pci_bus_id, "0000:65:00.0");
    h.facts = (as_nvml_facts){.driver = "580.95.05",
                              .sm_clock_max_hz = 1980e6,
                              .memory_clock_max_hz = 3201e6,
                              .power_limit_watts = 700,
                              .ecc = 1,
                              .mig = 0,
                              .persistence = 1,
                              .pcie_generation = 5,
                              .pcie_generation_max = 5,
                              .pcie_width = 16,
                              .pcie_width_max = 16};
    h.now = (as_nvml_reading){.throttle = AS_THROTTLE_IDLE,
                              .sm_clock_hz = 345e6, /* idle clocks are no fault */
                              .memory_clock_hz = 2619e6,
                              .power_watts = 76,
                              .temperature_c = 31,
                              .processes = 0};
    h.sm_application_hz = 1980e6;
    h.memory_application_hz = 3201e6;
    h.power_limit_watts = h.power_default_watts = 700;
    h.corrected = h.uncorrected = h.corrected_ever = h.uncorrected_ever = 0;
    h.rows_corrected = h.rows_uncorrected = h.rows_pending = h.rows_failed = 0;
    h.compute_mode = h.graphics_processes = h.utilization_percent = h.virtualization = 0;
    h.memory_total_bytes = 150e9;
    h.memory_free_bytes = 149e9;
    h.bar1_total_bytes = 256e9;
    h.slowdown_c = NAN;
    h.margin_c = 54;
    h.driver_cuda = h.runtime_cuda = 13000;
    return h;
}

static as_finding judge(const as_gpu_health *h, const char *check) {
    for (const as_gpu_check *c = as_gpu_checks; c->rule.name; c++)
        if (strcmp(c->rule.name, check) == 0) {
            as_finding f = {.rule = &c->rule};
            c->judge(h, &f);
            return f;
        }
    fail_msg("there is no check %s", check);
    return (as_finding){0};
}

static void expect(const as_finding *f, as_fitness status, const char *found, const char *remedy) {
    if (f->status != status)
        fail_msg("%s is %s, not %s: %s", f->rule->name, as_fitness_name(f->status), as_fitness_name(status), f->found);
    if (!strstr(f->found, found))
        fail_msg("%s found '%s', not '%s'", f->rule->name, f->found, found);
    if (!strstr(f->remedy, remedy))
        fail_msg("%s: the remedy '%s' lacks '%s'", f->rule->name, f->remedy, remedy);
    if ((f->status == AS_FIT_OK) != (f->remedy[0] == '\0'))
        fail_msg("%s is %s with remedy '%s'", f->rule->name, as_fitness_name(f->status), f->remedy);
    if (strlen(f->found) >= sizeof f->found - 1 || strlen(f->remedy) >= sizeof f->remedy - 1)
        fail_msg("%s: a text is cut", f->rule->name);
}

/* ---- one fault each ---- */

static void no_nvml(as_gpu_health *h) { h->nvml = false; }
static void old_major(as_gpu_health *h) { h->driver_cuda = 12080; }
static void old_minor(as_gpu_health *h) { h->runtime_cuda = 13010; }
static void not_persistent(as_gpu_health *h) { h->facts.persistence = 0; }
static void low_sm(as_gpu_health *h) { h->sm_application_hz = 1200e6; }
static void low_memory(as_gpu_health *h) { h->memory_application_hz = 1593e6; }
static void low_cap(as_gpu_health *h) { h->power_limit_watts = 500; }
static void enforced_cap(as_gpu_health *h) { h->facts.power_limit_watts = 600; }
static void hot(as_gpu_health *h) { h->now.throttle = AS_THROTTLE_SW_THERMAL | AS_THROTTLE_HW_SLOWDOWN; }
static void synced(as_gpu_health *h) { h->now.throttle = AS_THROTTLE_SYNC_BOOST; }
static void near_slowdown(as_gpu_health *h) {
    h->now.temperature_c = 84;
    h->margin_c = 3;
}
static void ecc_off(as_gpu_health *h) { h->facts.ecc = 0; }
static void uncorrected(as_gpu_health *h) { h->uncorrected = 2; }
static void corrected(as_gpu_health *h) { h->corrected = 7; }
static void remap_due(as_gpu_health *h) { h->rows_pending = 1; }
static void remap_failed(as_gpu_health *h) { h->rows_failed = 1; }
static void remapped(as_gpu_health *h) { h->rows_uncorrected = 3; }
static void retired(as_gpu_health *h) {
    h->rows_corrected = h->rows_uncorrected = h->rows_pending = h->rows_failed = -1;
    h->pages_retired = 4;
    h->pages_pending = 1;
}
static void mig(as_gpu_health *h) { h->facts.mig = 1; }
static void vgpu(as_gpu_health *h) { h->virtualization = 2; }
static void prohibited(as_gpu_health *h) { h->compute_mode = 2; }
static void taken(as_gpu_health *h) {
    h->compute_mode = 3;
    h->now.processes = 1;
}
static void shared(as_gpu_health *h) { h->now.processes = 2; }
static void displayed(as_gpu_health *h) { h->graphics_processes = 1; }
static void busy(as_gpu_health *h) { h->utilization_percent = 40; }
static void half_full(as_gpu_health *h) { h->memory_free_bytes = 20e9; }
static void full(as_gpu_health *h) { h->memory_free_bytes = 100e6; }
static void narrow(as_gpu_health *h) { h->facts.pcie_width = 4; }
static void slow_link(as_gpu_health *h) {
    h->facts.pcie_generation = 3;
    h->now.throttle = 0;
}
static void idle_link(as_gpu_health *h) { h->facts.pcie_generation = 1; }
static void small_bar(as_gpu_health *h) { h->bar1_total_bytes = 268435456; }
static void hidden(as_gpu_health *h) { h->visible_devices = "3"; }
static void blocking(as_gpu_health *h) { snprintf(h->harmful, sizeof h->harmful, "CUDA_LAUNCH_BLOCKING"); }
static void tuned(as_gpu_health *h) { snprintf(h->variables, sizeof h->variables, "CUDA_DEVICE_MAX_CONNECTIONS"); }

static const struct {
    void (*spoil)(as_gpu_health *h);
    const char *check;
    as_fitness status;
    const char *found, *remedy;
} faults[] = {
    {no_nvml, "nvml", AS_FIT_UNKNOWN, "libnvidia-ml.so.1", "install"},
    {old_major, "driver", AS_FIT_UNFIT, "for CUDA 12.8, this build needs 13.0", "CUDA 13.0 or newer"},
    {old_minor, "driver", AS_FIT_NOTE, "for CUDA 13.0, this build needs 13.1", "CUDA 13.1"},
    {not_persistent, "persistence", AS_FIT_WARNING, "off", "sudo nvidia-smi -i 0000:65:00.0 -pm 1"},
    {low_sm, "sm_clock", AS_FIT_WARNING, "now 345 MHz, at most 1980 MHz; applications get 1200 MHz", "-rac"},
    {low_memory, "memory_clock", AS_FIT_WARNING, "applications get 1593 MHz", "-rac"},
    {low_cap, "power_cap", AS_FIT_WARNING, "500 W, default 700 W", "-pl 700"},
    {enforced_cap, "power_cap", AS_FIT_WARNING, "600 W, default 700 W", "-pl 700"},
    {hot, "throttle", AS_FIT_WARNING, "hardware slowdown, software thermal", "PERFORMANCE"},
    {synced, "throttle", AS_FIT_NOTE, "sync boost", "PERFORMANCE"},
    {near_slowdown, "gpu_temperature", AS_FIT_WARNING, "84 C, 3 C below", "cool"},
    {ecc_off, "ecc", AS_FIT_NOTE, "off", "-e 1"},
    {ecc_off, "ecc_errors", AS_FIT_UNKNOWN, "not counted", "ecc"},
    {uncorrected, "ecc_errors", AS_FIT_WARNING, "uncorrected 2", "replace"},
    {corrected, "ecc_errors", AS_FIT_NOTE, "corrected 7", "replace"},
    {remap_due, "memory_repair", AS_FIT_WARNING, "a remap is due", "-r"},
    {remap_failed, "memory_repair", AS_FIT_WARNING, "a remap failed", "replace the card"},
    {remapped, "memory_repair", AS_FIT_NOTE, "3 uncorrected", "none needed"},
    {retired, "memory_repair", AS_FIT_WARNING, "4 pages retired; a retirement is due", "-r"},
    {mig, "mig", AS_FIT_NOTE, "on", "-mig 0"},
    {vgpu, "vgpu", AS_FIT_WARNING, "virtual GPU", "passed through"},
    {prohibited, "compute_mode", AS_FIT_UNFIT, "prohibited", "-c 0"},
    {taken, "compute_mode", AS_FIT_UNFIT, "exclusive process, and a process has it", "end that process"},
    {shared, "processes", AS_FIT_WARNING, "2 with a compute context", "nvidia-smi"},
    {displayed, "processes", AS_FIT_NOTE, "1 with a graphics context", "display"},
    {busy, "utilization", AS_FIT_WARNING, "40 %", "nvidia-smi"},
    {half_full, "gpu_memory", AS_FIT_WARNING, "19073 of 143051 MiB", "nvidia-smi"},
    {full, "gpu_memory", AS_FIT_UNFIT, "95 of", "nvidia-smi"},
    {narrow, "pcie_width", AS_FIT_WARNING, "x4 of x16", "reseat"},
    {slow_link, "pcie_generation", AS_FIT_WARNING, "3 of 5, in use", "auto"},
    {idle_link, "pcie_generation", AS_FIT_NOTE, "1 of 5, read idle", "under load"},
    {small_bar, "bar1", AS_FIT_NOTE, "256 MiB for", "Resizable BAR"},
    {hidden, "visible_devices", AS_FIT_NOTE, "\"3\"; this device is 0000:65:00.0", "unset CUDA_VISIBLE_DEVICES"},
    {blocking, "gpu_environment", AS_FIT_WARNING, "CUDA_LAUNCH_BLOCKING", "unset CUDA_LAUNCH_BLOCKING"},
    {tuned, "gpu_environment", AS_FIT_NOTE, "CUDA_DEVICE_MAX_CONNECTIONS", "unset"},
};
enum { FAULTS = sizeof faults / sizeof *faults };

static void healthy_gpu_is_fit(void **state) {
    (void)state;
    const as_gpu_health h = healthy();
    for (const as_gpu_check *c = as_gpu_checks; c->rule.name; c++) {
        const as_finding f = judge(&h, c->rule.name);
        expect(&f, AS_FIT_OK, "", "");
    }
}

static void each_fault_is_found_with_its_remedy(void **state) {
    (void)state;
    for (int i = 0; i < FAULTS; i++) {
        as_gpu_health h = healthy();
        faults[i].spoil(&h);
        const as_finding f = judge(&h, faults[i].check);
        expect(&f, faults[i].status, faults[i].found, faults[i].remedy);
    }
    for (const as_gpu_check *c = as_gpu_checks; c->rule.name; c++) {
        bool tried = false;
        for (int i = 0; i < FAULTS; i++)
            tried |= strcmp(faults[i].check, c->rule.name) == 0;
        if (!tried)
            fail_msg("no test has a GPU with the fault of %s", c->rule.name);
    }
}

static void what_is_not_told_is_unknown(void **state) {
    (void)state;
    static const char *const settings[] = {"visible_devices", "gpu_environment"}; /* known without NVML */
    for (int loaded = 0; loaded < 2; loaded++) {
        as_gpu_health h;
        as_gpu_health_init(&h);
        h.nvml = loaded;
        for (const as_gpu_check *c = as_gpu_checks; c->rule.name; c++) {
            const as_finding f = judge(&h, c->rule.name);
            bool known = loaded && strcmp(c->rule.name, "nvml") == 0;
            for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
                known |= strcmp(settings[i], c->rule.name) == 0;
            expect(&f, known ? AS_FIT_OK : AS_FIT_UNKNOWN, "", "");
        }
    }
}

static void in_a_container_settings_are_the_hosts(void **state) {
    (void)state;
    as_gpu_health h = healthy();
    h.container = true;
    not_persistent(&h);
    as_finding f = judge(&h, "persistence");
    expect(&f, AS_FIT_WARNING, "off", "on the host of this container: sudo nvidia-smi");
    no_nvml(&h);
    f = judge(&h, "nvml");
    expect(&f, AS_FIT_UNKNOWN, "absent", "NVIDIA_DRIVER_CAPABILITIES");
}

/* ---- reading ---- */

static void nvml_is_read(void **state) {
    (void)state;
    as_gpu_health h;
    as_gpu_health_init(&h);
    as_nvml *n = as_nvml_open("0000:65:00.0");
    assert_non_null(n);
    as_gpu_health_read(&h, n);
    as_nvml_close(n);
    assert_true(h.nvml);
    assert_string_equal(h.facts.driver, "580.95.05");
    assert_true(h.sm_application_hz == 1980e6 && h.memory_application_hz == 3201e6);
    assert_true(h.power_limit_watts == 700 && h.power_default_watts == 700);
    assert_int_equal(h.corrected, 0);
    assert_int_equal(h.uncorrected, 1);
    assert_int_equal(h.corrected_ever, 10);
    assert_int_equal(h.uncorrected_ever, 11);
    assert_int_equal(h.rows_corrected, 3);
    assert_int_equal(h.rows_uncorrected, 4);
    assert_int_equal(h.rows_pending, 1);
    assert_int_equal(h.rows_failed, 0);
    assert_int_equal(h.pages_retired, 7);
    assert_int_equal(h.pages_pending, 0);
    assert_int_equal(h.graphics_processes, 2);
    assert_int_equal(h.utilization_percent, 7);
    assert_int_equal(h.compute_mode, 0);
    assert_int_equal(h.virtualization, 0);
    assert_true(h.memory_total_bytes == 150e9 && h.memory_free_bytes == 149e9);
    assert_true(h.bar1_total_bytes == 274877906944.0);
    assert_true(h.slowdown_c == 87 && h.margin_c == 54);
}

static void silent_nvml_leaves_it_unknown(void **state) {
    (void)state;
    as_gpu_health h;
    setenv("FAKE_NVML", "old", 1);
    as_gpu_health_init(&h);
    as_nvml *n = as_nvml_open("0000:65:00.0");
    assert_non_null(n);
    as_gpu_health_read(&h, n);
    as_nvml_close(n);
    unsetenv("FAKE_NVML");
    assert_int_equal(h.uncorrected, -1);
    assert_int_equal(h.pages_retired, -1);
    assert_true(isnan(h.margin_c) && isnan(h.memory_free_bytes) && isnan(h.power_default_watts));
    json_t *list = as_gpu_judge(&h, "cuda0");
    assert_true(json_array_size(list) > 0);
    json_decref(list);
    setenv("FAKE_NVML", "broken", 1);
    assert_null(as_nvml_open("0000:65:00.0"));
    unsetenv("FAKE_NVML");
    assert_null(as_nvml_open("0000:01:00.0"));
}

static void settings_are_read_by_name(void **state) {
    (void)state;
    as_gpu_health h;
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    setenv("CUDA_FORCE_PTX_JIT", "0", 1); /* switched off */
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
    setenv("CUDA_VISIBLE_DEVICES", "", 1); /* set to nothing is set */
    as_gpu_health_init(&h);
    as_gpu_health_settings(&h);
    assert_string_equal(h.harmful, "CUDA_LAUNCH_BLOCKING");
    assert_string_equal(h.variables, "CUDA_DEVICE_MAX_CONNECTIONS");
    assert_non_null(h.visible_devices);
    unsetenv("CUDA_LAUNCH_BLOCKING");
    unsetenv("CUDA_FORCE_PTX_JIT");
    unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
    unsetenv("CUDA_VISIBLE_DEVICES");
}

static void documentation_names_the_same_checks(void **state) {
    (void)state;
    char names[DOC_ROWS][32];
    const int n = doctor_doc_rows("## Checks of a GPU", names);
    int k = 0;
    for (const as_gpu_check *c = as_gpu_checks; c->rule.name; c++, k++)
        if (k >= n || strcmp(names[k], c->rule.name) != 0)
            fail_msg("docs/doctor.md: row %d is not %s", k + 1, c->rule.name);
    assert_int_equal(n, k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(healthy_gpu_is_fit),
        cmocka_unit_test(each_fault_is_found_with_its_remedy),
        cmocka_unit_test(what_is_not_told_is_unknown),
        cmocka_unit_test(in_a_container_settings_are_the_hosts),
        cmocka_unit_test(nvml_is_read),
        cmocka_unit_test(silent_nvml_leaves_it_unknown),
        cmocka_unit_test(settings_are_read_by_name),
        cmocka_unit_test(documentation_names_the_same_checks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
