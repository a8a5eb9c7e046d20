/* What the kernel is and how it was set up. Kernel documentation: admin-guide/hw-vuln, admin-guide/sysctl/kernel.rst
 * (randomize_va_space, perf_event_paranoid), ABI/testing/sysfs-devices-system-cpu. */
#include "doctor_internal.h"
#include "sysfile.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>

extern char **environ;

void as_check_virtualization(const as_doctor_view *v, as_finding *f) {
    char text[16];
    if (!v->container && !v->virtual_machine) {
        if (as_sysfile_read(v->sysroot, "/proc/cpuinfo", text, sizeof text))
            as_found(f, AS_FIT_OK, "neither a container nor a virtual machine, as far as this process sees");
        else
            as_doctor_unreadable(v, f, "/proc/cpuinfo");
        return;
    }
    as_found(f, AS_FIT_NOTE, "%s%s%s", v->container ? "a container" : "",
             v->container && v->virtual_machine ? " in " : "", v->virtual_machine ? "a virtual machine" : "");
    as_remedy(f, v->virtual_machine ? "for figures of the hardware take the bare machine; else --launches 6 or more, "
                                      "and compare with guests of the same type alone"
                                    : "run assay doctor on the host of this container, too");
}

void as_check_mitigations(const as_doctor_view *v, as_finding *f) {
    static const char folder[] = "/sys/devices/system/cpu/vulnerabilities";
    char path[PATH_MAX], text[256], names[160] = "";
    int known = 0, mitigated = 0, open = 0;
    const int n = snprintf(path, sizeof path, "%s%s", v->sysroot, folder);
    DIR *dir = n > 0 && (size_t)n < sizeof path ? opendir(path) : NULL;
    for (struct dirent *d; dir && (d = readdir(dir));) {
        snprintf(path, sizeof path, "%s/%.64s", folder, d->d_name);
        if (d->d_name[0] == '.' || !as_sysfile_read(v->sysroot, path, text, sizeof text))
            continue;
        known++;
        open += strncmp(text, "Vulnerable", 10) == 0;
        if (!strstr(text, "Mitigation"))
            continue;
        mitigated++;
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%.40s", used ? ", " : "", d->d_name);
    }
    if (dir)
        closedir(dir);
    if (known == 0) {
        as_doctor_unreadable(v, f, folder);
        return;
    }
    as_found(f, mitigated > 0 ? AS_FIT_NOTE : AS_FIT_OK, "%d of %d on%s%s; %d left open", mitigated, known,
             mitigated ? ": " : "", names, open);
    if (mitigated > 0)
        as_remedy(f, "none needed: the result records them. Only on an isolated machine without secrets: boot with "
                     "mitigations=off");
}

/* ---- the clock ---- */

void as_check_clock_source(const as_doctor_view *v, as_finding *f) {
    static const char path[] = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    static const char *const in_processor[] = {"tsc", "arch_sys_counter", "timebase"};
    /* Read without a system call, too, through a page that the hypervisor keeps. */
    static const char *const in_guest[] = {"kvm-clock", "hyperv_clocksource_tsc_page"};
    char now[64], all[256];
    if (!as_sysfile_read(v->sysroot, path, now, sizeof now)) {
        as_doctor_unreadable(v, f, path);
        return;
    }
    as_fitness s = AS_FIT_WARNING;
    for (size_t i = 0; i < sizeof in_guest / sizeof *in_guest; i++)
        s = strcmp(now, in_guest[i]) == 0 ? AS_FIT_NOTE : s;
    for (size_t i = 0; i < sizeof in_processor / sizeof *in_processor; i++)
        s = strcmp(now, in_processor[i]) == 0 ? AS_FIT_OK : s;
    as_found(f, s, "%s", now);
    if (s == AS_FIT_OK)
        return;
    const bool offered =
        as_sysfile_read(v->sysroot, "/sys/devices/system/clocksource/clocksource0/available_clocksource", all,
                        sizeof all) &&
        strstr(all, "tsc") == all;
    if (offered)
        as_doctor_setting(v, f, "echo tsc | sudo tee %s", path);
    else if (v->virtual_machine)
        as_remedy(f, "let the hypervisor offer an invariant tsc (QEMU: -cpu host,+invtsc), then boot with "
                     "clocksource=tsc");
    else
        as_doctor_setting(v, f, "boot with clocksource=tsc tsc=reliable, if dmesg | grep -i tsc tells no fault of it");
}

/* ---- layouts, preemption, counters ---- */

void as_check_aslr(const as_doctor_view *v, as_finding *f) {
    char text[32];
    uint64_t mode;
    if (!as_sysfile_uint(v->sysroot, "/proc/sys/kernel/randomize_va_space", &mode)) {
        as_doctor_unreadable(v, f, "/proc/sys/kernel/randomize_va_space");
        return;
    }
    const bool read = as_sysfile_read(v->sysroot, "/proc/self/personality", text, sizeof text);
    if (mode < 2) {
        as_found(f, AS_FIT_WARNING, "randomize_va_space is %llu: %s", (unsigned long long)mode,
                 mode == 0 ? "off" : "the heap is not random");
        as_doctor_setting(v, f, "sudo sysctl kernel.randomize_va_space=2");
    } else if (read && (strtoul(text, NULL, 16) & ADDR_NO_RANDOMIZE)) {
        as_found(f, AS_FIT_WARNING, "switched off for this process");
        as_remedy(f, "start without setarch -R and outside a debugger");
    } else if (!read) {
        as_doctor_unreadable(v, f, "/proc/self/personality");
    } else {
        as_found(f, AS_FIT_OK, "on: each launch has its own layout");
    }
}

void as_check_preemption(const as_doctor_view *v, as_finding *f) {
    char text[512];
    uint64_t realtime = 0;
    if (!as_sysfile_read(v->sysroot, "/proc/version", text, sizeof text)) {
        as_doctor_unreadable(v, f, "/proc/version");
        return;
    }
    const bool rt = (as_sysfile_uint(v->sysroot, "/sys/kernel/realtime", &realtime) && realtime) ||
                    strstr(text, "PREEMPT_RT") || strstr(text, "PREEMPT RT");
    as_found(f, rt ? AS_FIT_NOTE : AS_FIT_OK, rt ? "a real-time kernel" : "not a real-time kernel");
    if (rt)
        as_remedy(f, "boot the distribution's ordinary kernel, or compare with real-time kernels alone");
}

void as_check_perf_events(const as_doctor_view *v, as_finding *f) {
    char text[32];
    if (!as_sysfile_read(v->sysroot, "/proc/sys/kernel/perf_event_paranoid", text, sizeof text)) {
        as_doctor_unreadable(v, f, "/proc/sys/kernel/perf_event_paranoid");
        return;
    }
    const long level = strtol(text, NULL, 10);
    as_found(f, level > 2 ? AS_FIT_NOTE : AS_FIT_OK, "perf_event_paranoid is %ld", level);
    if (level > 2)
        as_doctor_setting(v, f, "sudo sysctl kernel.perf_event_paranoid=2 (no figure of assay needs it)");
}

/* ---- variables: names alone, values may be secret ---- */

static const struct {
    const char *prefix;
    bool whole, harmful;
} variables[] = {{"LD_PRELOAD", true, true},    {"LD_AUDIT", true, true},         {"MALLOC_PERTURB_", true, true},
                 {"MALLOC_CHECK_", true, true}, {"LD_LIBRARY_PATH", true, false}, {"GLIBC_TUNABLES", true, false},
                 {"OPENBLAS_", false, false},   {"OMP_", false, false},           {"GOMP_", false, false},
                 {"KMP_", false, false},        {"MKL_", false, false},           {"MALLOC_", false, false}};
enum { VARIABLES = sizeof variables / sizeof *variables };

/* Index of the row that a "NAME=value" matches; -1 for none. */
static int match(const char *setting) {
    const size_t length = strcspn(setting, "=");
    for (int i = 0; i < VARIABLES; i++) {
        const size_t n = strlen(variables[i].prefix);
        if (strncmp(setting, variables[i].prefix, n) == 0 && (variables[i].whole ? length == n : length > n))
            return i;
    }
    return -1;
}

void as_check_environment(const as_doctor_view *v, as_finding *f) {
    char names[200] = "";
    bool harmful = false;
    (void)v;
    for (char **e = environ; e && *e; e++) {
        const int i = match(*e);
        if (i < 0)
            continue;
        harmful |= variables[i].harmful;
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%.*s", used ? " " : "", (int)strcspn(*e, "="), *e);
    }
    if (!names[0]) {
        as_found(f, AS_FIT_OK, "none of them is set");
        return;
    }
    as_found(f, harmful ? AS_FIT_WARNING : AS_FIT_NOTE, "set: %s", names);
    as_remedy(f, "unset %s, unless they are what you want to measure", names);
}
