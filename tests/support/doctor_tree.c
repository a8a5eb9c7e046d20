#include "doctor_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CPU "/sys/devices/system/cpu/"

void doctor_write(const doctor_machine *m, const char *path, const char *text) {
    fake_tree_write(&m->tree, path, text);
}

void doctor_write_cpus(const doctor_machine *m, const char *file, const char *text) {
    for (int cpu = 0; cpu < DOCTOR_CPUS; cpu++) {
        char path[128];
        snprintf(path, sizeof path, CPU "cpu%d/%s", cpu, file);
        doctor_write(m, path, text);
    }
}

void doctor_write_stat(const doctor_machine *m, int cpu, int user, int idle, int steal) {
    char text[4096] = "cpu  0 0 0 0 0 0 0 0 0 0\n";
    for (int i = 0; i < DOCTOR_CPUS; i++) {
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "cpu%d %d 0 0 %d 0 0 0 %d 0 0\n", i, i == cpu ? user : 0,
                 i == cpu ? idle : 1000, i == cpu ? steal : 0);
    }
    strcat(text, "intr 1 2 3\nprocs_running 1\nprocs_blocked 0\n");
    doctor_write(m, "/proc/stat", text);
}

void doctor_write_process(const doctor_machine *m, int pid, const char *name, int ticks) {
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    snprintf(text, sizeof text, "%d (%s) S 1 1 1 0 -1 4194560 10 0 0 0 1 %d 0 0 20 0 1 0 5 1000 100\n", pid, name,
             ticks);
    doctor_write(m, path, text);
}

/* ---- the clean tree ---- */

static const struct {
    const char *path, *text;
} files[] = {
    {CPU "online", "0-15\n"},
    {CPU "isolated", "0-7\n"},
    {CPU "nohz_full", "0-7\n"},
    {CPU "intel_pstate/no_turbo", "1\n"},
    {CPU "vulnerabilities/meltdown", "Not affected\n"},
    {"/sys/devices/system/node/online", "0-1\n"},
    {"/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"},
    {"/sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet acpi_pm \n"},
    {"/sys/class/thermal/thermal_zone0/type", "x86_pkg_temp\n"},
    {"/sys/class/thermal/thermal_zone0/temp", "45000\n"},
    {"/sys/class/thermal/thermal_zone0/trip_point_0_type", "critical\n"},
    {"/sys/class/thermal/thermal_zone0/trip_point_0_temp", "100000\n"},
    {"/sys/class/power_supply/AC/type", "Mains\n"},
    {"/sys/class/power_supply/AC/online", "1\n"},
    {"/sys/class/power_supply/BAT0/type", "Battery\n"},
    {"/sys/class/power_supply/BAT0/status", "Full\n"},
    {"/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"},
    {"/proc/sys/vm/swappiness", "60\n"},
    {"/proc/sys/kernel/numa_balancing", "0\n"},
    {"/proc/sys/kernel/randomize_va_space", "2\n"},
    {"/proc/sys/kernel/perf_event_paranoid", "2\n"},
    {"/proc/self/personality", "00000000\n"},
    {"/proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu avx2\n"},
    {"/proc/version", "Linux version 6.1.0 (gcc) #1 SMP PREEMPT_DYNAMIC\n"},
    {"/proc/loadavg", "0.10 0.20 0.30 1/200 4242\n"},
    {"/proc/vmstat", "pswpin 5\npswpout 7\n"},
    {"/proc/meminfo", "MemTotal: 134217728 kB\nMemAvailable: 120000000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"
                      "HugePages_Total: 0\nHugePages_Free: 0\nHugepagesize: 2048 kB\n"},
    {"/proc/pressure/cpu", "some avg10=0.10 avg60=0.00 avg300=0.00 total=1\n"},
    {"/proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n"},
    {"/proc/pressure/io", "some avg10=0.20 avg60=0.00 avg300=0.00 total=1\n"},
    {"/proc/self/cgroup", "0::/box\n"},
    {"/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"},
    {"/sys/fs/cgroup/box/cpu.max", "max 100000\n"},
    {"/sys/fs/cgroup/box/cpu.stat", "usage_usec 1\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n"},
    {"/sys/fs/cgroup/box/memory.max", "max\n"},
    {"/sys/fs/cgroup/box/memory.current", "1000000\n"},
    {"/proc/self/limits", "Limit                     Soft Limit           Hard Limit           Units     \n"
                          "Max cpu time              unlimited            unlimited            seconds   \n"
                          "Max file size             unlimited            unlimited            bytes     \n"
                          "Max core file size        0                    unlimited            bytes     \n"
                          "Max locked memory         unlimited            unlimited            bytes     \n"},
    {"/proc/irq/36/smp_affinity_list", "8-15\n"},
    {"/proc/interrupts", "           CPU0       CPU3       CPU9\n"
                         " 36:          5          7     100000  PCI-MSI 1-edge      nvme0q1\n"
                         "LOC:    1396163    1474907    1474907  Local timer interrupts\n"},
};

static void write_cpus(const doctor_machine *m) {
    doctor_write_cpus(m, "cpufreq/scaling_driver", "intel_pstate\n");
    doctor_write_cpus(m, "cpufreq/scaling_governor", "performance\n");
    doctor_write_cpus(m, "cpufreq/energy_performance_preference", "performance\n");
    doctor_write_cpus(m, "cpufreq/scaling_max_freq", "3500000\n");
    doctor_write_cpus(m, "cpufreq/cpuinfo_max_freq", "3500000\n");
    doctor_write_cpus(m, "cpuidle/state0/latency", "2\n");
    doctor_write_cpus(m, "cpuidle/state0/disable", "0\n");
    doctor_write_cpus(m, "cpuidle/state0/name", "C1\n");
    doctor_write_cpus(m, "thermal_throttle/core_throttle_count", "0\n");
    doctor_write_cpus(m, "thermal_throttle/package_throttle_count", "0\n");
    for (int cpu = 0; cpu < DOCTOR_CPUS; cpu++) {
        char path[128], list[16];
        snprintf(path, sizeof path, CPU "cpu%d/topology/thread_siblings_list", cpu);
        snprintf(list, sizeof list, "%d,%d\n", cpu % 8, cpu % 8 + 8);
        doctor_write(m, path, list);
    }
}

static void recorded_placement(as_placement *p) {
    hwloc_topology_t t;
    as_error e;
    hwloc_bitmap_t all = hwloc_bitmap_alloc();
    hwloc_bitmap_set_range(all, 0, DOCTOR_CPUS - 1);
    assert_int_equal(hwloc_topology_init(&t), 0);
    assert_int_equal(hwloc_topology_set_xml(t, ASSAY_SOURCE_DIR "/tests/fixtures/topology/two_packages_smt.xml"), 0);
    assert_int_equal(hwloc_topology_load(t), 0);
    assert_int_equal(as_place_resolve_in(t, all, NULL, p, &e), AS_OK);
    assert_int_equal(p->cores, DOCTOR_MEASURED);
    hwloc_topology_destroy(t);
    hwloc_bitmap_free(all);
}

void doctor_machine_init(doctor_machine *m) {
    memset(m, 0, sizeof *m);
    fake_tree_init(&m->tree);
    recorded_placement(&m->place);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        doctor_write(m, files[i].path, files[i].text);
    write_cpus(m);
    doctor_write_stat(m, 0, 0, 1000, 0);
    doctor_write_process(m, 1, "init", 10);
    m->view = (as_doctor_view){.sysroot = m->tree.root,
                               .place = &m->place,
                               .before = &m->before,
                               .after = &m->after,
                               .allowed_cpus = DOCTOR_CPUS,
                               .folder = ".",
                               .folder_bytes = 1LL << 40,
                               .folder_writable = true};
}

void doctor_machine_free(doctor_machine *m) {
    as_doctor_sample_free(&m->before);
    as_doctor_sample_free(&m->after);
    fake_tree_free(&m->tree);
}

/* The end of the sample is 100 ticks of idle time later: a test that moves no counter has an idle machine. */
void doctor_begin(doctor_machine *m) {
    as_doctor_sample_free(&m->before);
    as_doctor_sample_read(m->tree.root, &m->place, &m->before);
    m->before.at_ns = 0;
    for (int i = 0; i < DOCTOR_CPUS; i++)
        m->before.cpu[i].idle -= m->before.cpu[i].known ? 100 : 0;
}

void doctor_end(doctor_machine *m) {
    as_doctor_sample_free(&m->after);
    as_doctor_sample_read(m->tree.root, &m->place, &m->after);
    m->after.at_ns = 1000000000;
    as_doctor_surroundings(&m->view);
}

as_finding doctor_look(doctor_machine *m, const char *check) {
    for (const as_doctor_check *c = as_doctor_checks; c->rule.name; c++)
        if (strcmp(c->rule.name, check) == 0) {
            as_finding f = {.rule = &c->rule};
            c->look(&m->view, &f);
            return f;
        }
    fail_msg("there is no check %s", check);
    return (as_finding){0};
}

int doctor_doc_rows(const char *heading, char names[DOC_ROWS][32]) {
    FILE *f = fopen(ASSAY_SOURCE_DIR "/docs/doctor.md", "r");
    char *line = NULL;
    size_t room = 0;
    bool inside = false;
    int n = 0;
    assert_non_null(f);
    while (getline(&line, &room, f) > 0) {
        if (line[0] == '#')
            inside = strncmp(line, heading, strlen(heading)) == 0;
        if (inside && n < DOC_ROWS && sscanf(line, "| `%31[^`]`", names[n]) == 1)
            n++;
    }
    free(line);
    fclose(f);
    return n;
}
