/* Every host check of `assay doctor` both ways: content with a clean machine, and right about one that has the fault.
 * On a machine that hides everything each check says unknown, never ok. */
#include "doctor_tree.h"
#include "sysfile.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CPU "/sys/devices/system/cpu/"
#define BOX "/sys/fs/cgroup/box/"
#define MEMINFO(available, swap, swap_free, huge)                                                                      \
    "MemTotal: 134217728 kB\nMemAvailable: " available " kB\nSwapTotal: " swap " kB\nSwapFree: " swap_free             \
    " kB\nHugePages_Free: " huge "\nHugepagesize: 2048 kB\n"
#define LIMITS(cpu, file, core, locked)                                                                                \
    "Max cpu time              " cpu " x s\nMax file size             " file " x b\nMax core file size        " core   \
    " x b\nMax locked memory         " locked " x b\n"

/* A fault: one file before the sample, or written in the middle of it. */
typedef struct fault {
    const char *check;
    as_fitness status;
    const char *path, *text;
    bool during;                /* the file changes within the sample */
    const char *found, *remedy; /* parts of what must be said */
} fault;

static const fault faults[] = {
    {"governor", AS_FIT_WARNING, CPU "cpu3/cpufreq/scaling_governor", "powersave\n", false, "powersave on cpu3",
     "echo performance | sudo tee"},
    {"energy_preference", AS_FIT_WARNING, CPU "cpu0/cpufreq/energy_performance_preference", "balance_power\n", false,
     "balance_power on cpu0", "energy_performance_preference"},
    {"turbo", AS_FIT_WARNING, CPU "intel_pstate/no_turbo", "0\n", false, "on", "no_turbo"},
    {"clock_limit", AS_FIT_WARNING, CPU "cpu2/cpufreq/scaling_max_freq", "2000000\n", false, "cpu2 at 2000 MHz",
     "echo 3500000"},
    {"clock_limit", AS_FIT_WARNING, CPU "cpu2/cpufreq/cpuinfo_max_freq", "5000000\n", false, "capped", "echo 5000000"},
    {"idle_states", AS_FIT_WARNING, CPU "cpu0/cpuidle/state1/latency", "300\n", false, "300 us", "cpupower idle-set"},
    {"isolation", AS_FIT_NOTE, CPU "isolated", "\n", false, "0 of 8", "isolcpus"},
    {"isolation", AS_FIT_WARNING, CPU "isolated", "2-9\n", false, "6 of 8", "--cpus"},
    {"thermal_throttling", AS_FIT_WARNING, CPU "cpu5/thermal_throttle/core_throttle_count", "3\n", true,
     "3 events in the sample", "cooling"},
    {"thermal_throttling", AS_FIT_NOTE, CPU "cpu5/thermal_throttle/core_throttle_count", "3\n", false,
     "0 events in the sample, 3 since boot", "cooling"},
    {"temperature", AS_FIT_WARNING, "/sys/class/thermal/thermal_zone0/temp", "93000\n", false, "x86_pkg_temp at 93 C",
     "cool"},
    {"power_supply", AS_FIT_WARNING, "/sys/class/power_supply/BAT0/status", "Discharging\n", false, "on battery",
     "adapter"},
    {"load_average", AS_FIT_WARNING, "/proc/loadavg", "12.50 2.00 1.00 1/200 1\n", false, "12.50", "8.0"},
    {"pressure", AS_FIT_WARNING, "/proc/pressure/memory", "some avg10=3.50 avg60=0.00\n", false, "memory 3.5 %",
     "/proc/pressure"},
    {"pressure", AS_FIT_WARNING, BOX "memory.pressure", "some avg10=4.00 avg60=0.00\n", false, "cgroup 4.0 %",
     "/proc/pressure"},
    {"interrupts", AS_FIT_WARNING, "/proc/interrupts",
     "           CPU0       CPU3       CPU9\n 36:          5        907     100000  PCI-MSI 1-edge      nvme0q1\n",
     true, "cpu3: 900 device interrupts/s; most: 36 nvme0q1", "echo 8-15 | sudo tee /proc/irq/36/smp_affinity_list"},
    {"irq_affinity", AS_FIT_WARNING, "/proc/irq/40/smp_affinity_list", "0-15\n", false, "1 of 2",
     "/proc/irq/40/smp_affinity_list"},
    {"irqbalance", AS_FIT_WARNING, "/proc/77/stat", "77 (irqbalance) S 1 1 1 0 -1 0 0 0 0 0 1 1\n", false, "running",
     "systemctl stop irqbalance"},
    {"cpu_quota", AS_FIT_WARNING, BOX "cpu.max", "250000 100000\n", false, "2.50 CPUs for 8",
     "assay run --cpus with 2 CPUs"},
    {"cpu_quota", AS_FIT_NOTE, BOX "cpu.max", "1600000 100000\n", false, "16.00 CPUs", "CPUQuota"},
    {"cpu_throttling", AS_FIT_WARNING, BOX "cpu.stat", "nr_throttled 4\nthrottled_usec 2500000\n", true,
     "in 4 periods of the sample, 4 since the cgroup was made (2.5 s)", "quota"},
    {"cpu_throttling", AS_FIT_NOTE, BOX "cpu.stat", "nr_throttled 4\nthrottled_usec 2500000\n", false,
     "in 0 periods of the sample, 4", "quota"},
    {"cpuset", AS_FIT_NOTE, CPU "online", "0-31\n", false, "16 of the machine's 32", "taskset"},
    {"memory_limit", AS_FIT_NOTE, BOX "memory.max", "17179869184\n", false, "16384 MiB", "MemoryMax"},
    {"memory_limit", AS_FIT_WARNING, BOX "memory.max", "1073741824\n", false, "1024 MiB", "MemoryMax"},
    {"memory_limit", AS_FIT_UNFIT, BOX "memory.max", "104857600\n", false, "100 MiB, 99 MiB of it free", "MemoryMax"},
    {"process_limits", AS_FIT_WARNING, "/proc/self/limits", LIMITS("60", "unlimited", "0", "unlimited"), false, "60 s",
     "ulimit -t unlimited"},
    {"process_limits", AS_FIT_WARNING, "/proc/self/limits", LIMITS("unlimited", "1048576", "0", "unlimited"), false,
     "1.0 MiB", "ulimit -f unlimited"},
    {"process_limits", AS_FIT_NOTE, "/proc/self/limits", LIMITS("unlimited", "unlimited", "unlimited", "unlimited"),
     false, "core files", "ulimit -c 0"},
    {"process_limits", AS_FIT_NOTE, "/proc/self/limits", LIMITS("unlimited", "unlimited", "0", "8388608"), false,
     "8 MiB", "ulimit -l unlimited"},
    {"memory_free", AS_FIT_WARNING, "/proc/meminfo", MEMINFO("8000000", "0", "0", "0"), false, "7812 of 131072 MiB",
     "ps"},
    {"memory_free", AS_FIT_UNFIT, "/proc/meminfo", MEMINFO("100000", "0", "0", "0"), false, "98 of 131072 MiB", "ps"},
    {"swap", AS_FIT_NOTE, "/proc/meminfo", MEMINFO("120000000", "2048000", "1024000", "0"), false, "1000 of 2000 MiB",
     "swapoff"},
    {"huge_pages", AS_FIT_WARNING, "/proc/meminfo", MEMINFO("100000000", "0", "0", "10000"), false, "20000 MiB",
     "vm.nr_hugepages=0"},
    {"transparent_huge_pages", AS_FIT_WARNING, "/sys/kernel/mm/transparent_hugepage/enabled",
     "[always] madvise never\n", false, "always", "echo madvise"},
    {"numa_balancing", AS_FIT_WARNING, "/proc/sys/kernel/numa_balancing", "1\n", false, "2 NUMA nodes",
     "kernel.numa_balancing=0"},
    {"virtualization", AS_FIT_NOTE, "/proc/cpuinfo", "flags\t\t: fpu hypervisor\n", false, "a virtual machine",
     "--launches"},
    {"virtualization", AS_FIT_NOTE, "/.dockerenv", "", false, "a container", "host of this container"},
    {"mitigations", AS_FIT_NOTE, CPU "vulnerabilities/spectre_v2", "Mitigation: Retpolines\n", false,
     "1 of 2 on: spectre_v2", "none needed"},
    {"clock_source", AS_FIT_WARNING, "/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n",
     false, "hpet", "echo tsc | sudo tee"},
    {"clock_source", AS_FIT_NOTE, "/sys/devices/system/clocksource/clocksource0/current_clocksource", "kvm-clock\n",
     false, "kvm-clock", "tsc"},
    {"aslr", AS_FIT_WARNING, "/proc/sys/kernel/randomize_va_space", "0\n", false, "is 0",
     "kernel.randomize_va_space=2"},
    {"aslr", AS_FIT_WARNING, "/proc/self/personality", "00040000\n", false, "this process", "setarch"},
    {"preemption", AS_FIT_NOTE, "/proc/version", "Linux version 6.1 #1 SMP PREEMPT_RT\n", false, "real-time",
     "ordinary kernel"},
    {"perf_events", AS_FIT_NOTE, "/proc/sys/kernel/perf_event_paranoid", "4\n", false, "4", "perf_event_paranoid=2"},
};
enum { FAULTS = sizeof faults / sizeof *faults };

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

static void clean_machine_is_fit(void **state) {
    (void)state;
    doctor_machine m;
    doctor_machine_init(&m);
    doctor_begin(&m);
    doctor_end(&m);
    for (const as_doctor_check *c = as_doctor_checks; c->rule.name; c++) {
        const as_finding f = doctor_look(&m, c->rule.name);
        expect(&f, AS_FIT_OK, "", "");
        assert_true(strlen(f.found) > 0);
    }
    doctor_machine_free(&m);
}

/* Puts the file back, or away; the tree is made once, since some disks are slow at it. */
static void restore(const doctor_machine *m, const char *path, bool was_there, const char *text) {
    char full[256];
    snprintf(full, sizeof full, "%s%s", m->tree.root, path);
    if (was_there)
        doctor_write(m, path, text);
    else
        assert_int_equal(remove(full), 0);
}

static void each_fault_is_found_with_its_remedy(void **state) {
    (void)state;
    doctor_machine m;
    char before[4096];
    doctor_machine_init(&m);
    for (int i = 0; i < FAULTS; i++) {
        const bool was_there = as_sysfile_read(m.tree.root, faults[i].path, before, sizeof before);
        if (!faults[i].during)
            doctor_write(&m, faults[i].path, faults[i].text);
        doctor_begin(&m);
        if (faults[i].during)
            doctor_write(&m, faults[i].path, faults[i].text);
        doctor_end(&m);
        as_finding f = doctor_look(&m, faults[i].check);
        expect(&f, faults[i].status, faults[i].found, faults[i].remedy);
        restore(&m, faults[i].path, was_there, before);
        doctor_begin(&m);
        doctor_end(&m);
        f = doctor_look(&m, faults[i].check);
        expect(&f, AS_FIT_OK, "", "");
    }
    doctor_machine_free(&m);
}

static void no_check_is_without_a_fault(void **state) {
    (void)state;
    /* Tried by tests of their own below. */
    static const char *const others[] = {"smt", "cpu_load", "other_load", "steal", "disk", "swappiness", "environment"};
    for (const as_doctor_check *c = as_doctor_checks; c->rule.name; c++) {
        bool tried = false;
        for (int i = 0; i < FAULTS; i++)
            tried |= strcmp(faults[i].check, c->rule.name) == 0;
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            tried |= strcmp(others[i], c->rule.name) == 0;
        if (!tried)
            fail_msg("no test has a machine with the fault of %s", c->rule.name);
    }
}

/* ---- faults of several files ---- */

static void busy_cpu_is_named_with_who_keeps_it_busy(void **state) {
    (void)state;
    doctor_machine m;
    doctor_machine_init(&m);
    doctor_write_process(&m, 50, "stress (1) \033[31m", 100);
    doctor_begin(&m);
    doctor_write_stat(&m, 3, 80, 920, 0); /* 80 of the 100 ticks that begin leaves */
    doctor_write_process(&m, 50, "stress (1) \033[31m", 180);
    doctor_end(&m);
    as_finding f = doctor_look(&m, "cpu_load");
    expect(&f, AS_FIT_WARNING, "cpu3: 80 %", "stress");
    assert_non_null(strstr(f.remedy, "--cpus 0-2,4-15"));
    f = doctor_look(&m, "other_load");
    expect(&f, AS_FIT_OK, "0.0 of 8 other CPUs busy; 0 other tasks ready to run; most: stress (1)", "");
    json_t *o = as_finding_json(&f, "host"); /* names are anybody's bytes */
    assert_null(strchr(json_string_value(json_object_get(o, "found")), '\033'));
    json_decref(o);
    f = doctor_look(&m, "smt");
    expect(&f, AS_FIT_OK, "8 idle siblings", "");
    doctor_machine_free(&m);
}

static void one_tick_is_no_load(void **state) {
    (void)state;
    doctor_machine m;
    doctor_machine_init(&m);
    for (int ticks = 1; ticks <= 2; ticks++) {
        doctor_write_stat(&m, 0, 0, 1000, 0);
        doctor_begin(&m);
        for (int i = 0; i < DOCTOR_CPUS; i++)
            m.before.cpu[i].idle += 90; /* 10 ticks are left: a sample of 100 ms */
        doctor_write_stat(&m, 3, ticks, 1000 - ticks, 0);
        doctor_end(&m);
        m.after.at_ns = 100000000;
        const as_finding f = doctor_look(&m, "cpu_load");
        expect(&f, ticks == 1 ? AS_FIT_OK : AS_FIT_WARNING, ticks == 1 ? "10 %" : "20 %", "");
    }
    doctor_machine_free(&m);
}

static void busy_sibling_is_found(void **state) {
    (void)state;
    doctor_machine m;
    doctor_machine_init(&m);
    doctor_begin(&m);
    doctor_write_stat(&m, 11, 60, 940, 0);
    doctor_end(&m);
    as_finding f = doctor_look(&m, "smt");
    expect(&f, AS_FIT_WARNING, "cpu11, a sibling of a measured CPU, was busy for 60 %", "smt/control");
    f = doctor_look(&m, "other_load");
    expect(&f, AS_FIT_WARNING, "0.6 of 8 other CPUs busy", "top");
    f = doctor_look(&m, "cpu_load");
    expect(&f, AS_FIT_OK, "", "");
    doctor_machine_free(&m);
}

static void steal_is_told_now_and_since_boot(void **state) {
    (void)state;
    doctor_machine m;
    doctor_machine_init(&m);
    doctor_begin(&m);
    doctor_write_stat(&m, 2, 0, 990, 10);
    doctor_end(&m);
    as_finding f = doctor_look(&m, "steal");
    expect(&f, AS_FIT_WARNING, "cpu2: 10.0 %", "dedicated");
    doctor_begin(&m);
    doctor_end(&m);
    f = doctor_look(&m, "steal");
    expect(&f, AS_FIT_NOTE, "0.0 % of the sample; since boot 100.0 %", "dedicated");
    doctor_machine_free(&m);
}

static void swapping_and_eager_swap(void **state) {
    (void)state;
    doctor_machine m;
    doctor_machine_init(&m);
    doctor_write(&m, "/proc/meminfo", MEMINFO("120000000", "2048000", "2048000", "0"));
    doctor_begin(&m);
    doctor_end(&m);
    as_finding f = doctor_look(&m, "swap");
    expect(&f, AS_FIT_OK, "0 of 2000 MiB", "");
    f = doctor_look(&m, "swappiness");
    expect(&f, AS_FIT_WARNING, "60", "vm.swappiness=1");
    doctor_write(&m, "/proc/vmstat", "pswpin 50\npswpout 7\n");
    doctor_end(&m);
    f = doctor_look(&m, "swap");
    expect(&f, AS_FIT_WARNING, "45 pages moved", "swapoff");
    doctor_machine_free(&m);
}

static void folder_of_the_result(void **state) {
    (void)state;
    doctor_machine m;
    doctor_machine_init(&m);
    m.view.folder_bytes = 500 << 20;
    as_finding f = doctor_look(&m, "disk");
    expect(&f, AS_FIT_WARNING, "500 MiB free", "--out");
    m.view.folder_bytes = 1 << 20;
    f = doctor_look(&m, "disk");
    expect(&f, AS_FIT_UNFIT, "1 MiB free", "--out");
    m.view.folder_bytes = -1;
    f = doctor_look(&m, "disk");
    expect(&f, AS_FIT_UNKNOWN, "does not tell", "df");
    m.view.folder_writable = false;
    snprintf(m.view.folder_reason, sizeof m.view.folder_reason, "Read-only file system");
    f = doctor_look(&m, "disk");
    expect(&f, AS_FIT_UNFIT, "Read-only", "--out");
    char folder[4096];
    as_doctor_folder(&m.view, "/nowhere/at/all/x.json", folder);
    assert_false(m.view.folder_writable);
    assert_string_equal(folder, "/nowhere/at/all");
    as_doctor_folder(&m.view, NULL, folder);
    assert_true(m.view.folder_writable && m.view.folder_bytes > 0);
    doctor_machine_free(&m);
}

static void unlike_cores_are_found(void **state) {
    (void)state;
    doctor_machine m;
    doctor_machine_init(&m);
    for (int cpu = 4; cpu < 8; cpu++) {
        char path[96];
        for (int k = 0; k < 2; k++) {
            snprintf(path, sizeof path, CPU "cpu%d/cpufreq/%s", cpu, k ? "cpuinfo_max_freq" : "scaling_max_freq");
            doctor_write(&m, path, "2400000\n");
        }
    }
    const as_finding f = doctor_look(&m, "clock_limit");
    expect(&f, AS_FIT_WARNING, "2400 to 3500 MHz", "--cpus 0-3");
    doctor_machine_free(&m);
}

static void harmful_variables_are_named_without_their_values(void **state) {
    (void)state;
    doctor_machine m;
    doctor_machine_init(&m);
    setenv("OMP_SECRET", "hush", 1);
    as_finding f = doctor_look(&m, "environment");
    expect(&f, AS_FIT_NOTE, "OMP_SECRET", "unset OMP_SECRET");
    setenv("MALLOC_PERTURB_", "hush", 1);
    f = doctor_look(&m, "environment");
    expect(&f, AS_FIT_WARNING, "MALLOC_PERTURB_", "unset");
    assert_null(strstr(f.found, "hush"));
    unsetenv("OMP_SECRET");
    unsetenv("MALLOC_PERTURB_");
    f = doctor_look(&m, "environment");
    expect(&f, AS_FIT_OK, "", "");
    doctor_machine_free(&m);
}

/* ---- where the remedy is another one ---- */

static void remedies_know_where_they_apply(void **state) {
    (void)state;
    doctor_machine m;
    doctor_machine_init(&m);
    doctor_write(&m, "/run/.containerenv", "");
    doctor_write(&m, CPU "cpu0/cpufreq/scaling_governor", "powersave\n");
    doctor_write(&m, BOX "cpu.max", "50000 100000\n");
    doctor_begin(&m);
    doctor_end(&m);
    as_finding f = doctor_look(&m, "governor");
    expect(&f, AS_FIT_WARNING, "powersave", "on the host of this container: echo performance");
    f = doctor_look(&m, "cpu_quota");
    expect(&f, AS_FIT_WARNING, "0.50 CPUs", "docker run --cpuset-cpus");
    f = doctor_look(&m, "irqbalance"); /* a container does not see the host's processes */
    expect(&f, AS_FIT_UNKNOWN, "container", "on the host of this container");
    doctor_write(&m, "/proc/cpuinfo", "flags\t\t: fpu hypervisor\n");
    doctor_write(&m, "/sys/devices/system/clocksource/clocksource0/current_clocksource", "acpi_pm\n");
    doctor_write(&m, "/sys/devices/system/clocksource/clocksource0/available_clocksource", "acpi_pm\n");
    doctor_end(&m);
    f = doctor_look(&m, "clock_source");
    expect(&f, AS_FIT_WARNING, "acpi_pm", "invtsc");
    doctor_machine_free(&m);
}

/* ---- what cannot be read ---- */

static void hidden_machine_is_unknown_not_ok(void **state) {
    (void)state;
    /* These do not look at the tree. */
    static const char *const outside[] = {"disk", "environment"};
    doctor_machine m;
    doctor_machine_init(&m);
    fake_tree_free(&m.tree);
    fake_tree_init(&m.tree);
    m.view.sysroot = m.tree.root;
    doctor_begin(&m);
    doctor_end(&m);
    for (const as_doctor_check *c = as_doctor_checks; c->rule.name; c++) {
        const as_finding f = doctor_look(&m, c->rule.name);
        bool skip = false;
        for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
            skip |= strcmp(outside[i], c->rule.name) == 0;
        if (!skip)
            expect(&f, AS_FIT_UNKNOWN, " ", " ");
    }
    doctor_machine_free(&m);
}

static void partly_hidden_files_are_unknown(void **state) {
    (void)state;
    doctor_machine m;
    char path[256];
    doctor_machine_init(&m);
    snprintf(path, sizeof path, "%s" CPU "cpu6/cpufreq/scaling_governor", m.tree.root);
    assert_int_equal(remove(path), 0);
    as_finding f = doctor_look(&m, "governor");
    expect(&f, AS_FIT_UNKNOWN, "cpu", "cat");
    doctor_write(&m, "/sys/kernel/mm/transparent_hugepage/enabled", "strange\n");
    f = doctor_look(&m, "transparent_huge_pages");
    expect(&f, AS_FIT_UNKNOWN, "understands", "cat");
    doctor_machine_free(&m);
}

static void rubbish_is_survived(void **state) {
    (void)state;
    doctor_machine m;
    doctor_machine_init(&m);
    static const char *const files[] = {"/proc/stat",         "/proc/interrupts",     "/proc/1/stat",  "/proc/loadavg",
                                        "/proc/self/limits",  "/proc/meminfo",        CPU "online",    CPU "isolated",
                                        "/proc/pressure/cpu", "/proc/self/mountinfo", BOX "cpu.max",   BOX "cpu.stat",
                                        "/proc/vmstat",       "/proc/self/cgroup",    CPU "nohz_full", "/proc/version"};
    static const char *const rubbish[] = {"",
                                          "\n",
                                          "cpu",
                                          "cpu99999999999 -1 x\n",
                                          "CPU-5 CPU9999999\n 1: -3 \n",
                                          "((((",
                                          "18446744073709551616",
                                          "\xff\xfe\n"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        for (size_t k = 0; k < sizeof rubbish / sizeof *rubbish; k++) {
            doctor_write(&m, files[i], rubbish[k]);
            doctor_begin(&m);
            doctor_end(&m);
            json_t *all = as_doctor_host(&m.view);
            assert_non_null(all);
            char *text = json_dumps(all, 0); /* NULL where a byte is no UTF-8 */
            assert_non_null(text);
            free(text);
            json_decref(all);
        }
    doctor_machine_free(&m);
}

/* ---- the documentation ---- */

static void documentation_names_the_same_checks(void **state) {
    (void)state;
    char names[DOC_ROWS][32];
    int n = doctor_doc_rows("## Checks of the host", names), k = 0;
    for (const as_doctor_check *c = as_doctor_checks; c->rule.name; c++, k++) {
        if (k >= n || strcmp(names[k], c->rule.name) != 0)
            fail_msg("docs/doctor.md: row %d is not %s", k + 1, c->rule.name);
        assert_true(strlen(c->rule.why) > 0 && strlen(c->rule.looks_at) > 0);
    }
    assert_int_equal(n, k);
    n = doctor_doc_rows("## Checks of what was asked", names);
    for (k = 0; as_doctor_asked[k].name; k++)
        assert_string_equal(names[k], as_doctor_asked[k].name);
    assert_int_equal(n, k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clean_machine_is_fit),
        cmocka_unit_test(each_fault_is_found_with_its_remedy),
        cmocka_unit_test(no_check_is_without_a_fault),
        cmocka_unit_test(busy_cpu_is_named_with_who_keeps_it_busy),
        cmocka_unit_test(one_tick_is_no_load),
        cmocka_unit_test(busy_sibling_is_found),
        cmocka_unit_test(steal_is_told_now_and_since_boot),
        cmocka_unit_test(swapping_and_eager_swap),
        cmocka_unit_test(folder_of_the_result),
        cmocka_unit_test(unlike_cores_are_found),
        cmocka_unit_test(harmful_variables_are_named_without_their_values),
        cmocka_unit_test(remedies_know_where_they_apply),
        cmocka_unit_test(hidden_machine_is_unknown_not_ok),
        cmocka_unit_test(partly_hidden_files_are_unknown),
        cmocka_unit_test(rubbish_is_survived),
        cmocka_unit_test(documentation_names_the_same_checks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
