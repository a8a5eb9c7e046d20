/* Clocks, hardware threads and isolation of the measured CPUs. Kernel documentation: admin-guide/pm/cpufreq.rst,
 * intel_pstate.rst, cpuidle.rst; admin-guide/cputopology.rst. */
#include "doctor_internal.h"
#include "sysfile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CPU_FOLDER "/sys/devices/system/cpu/"

static const double SIBLING_LOAD = 0.05; /* of the sample */
static const double CAPPED = 0.99;       /* of the highest clock */
static const double UNLIKE = 0.90;       /* of the fastest measured CPU: favoured cores of one kind differ by less */
enum { DEEP_IDLE_US = 100 };

static bool cpu_text(const as_doctor_view *v, int cpu, const char *file, char *text, size_t size) {
    char path[128];
    snprintf(path, sizeof path, CPU_FOLDER "cpu%d/%s", cpu, file);
    return as_sysfile_read(v->sysroot, path, text, size);
}

static bool cpu_uint(const as_doctor_view *v, int cpu, const char *file, uint64_t *out) {
    char path[128];
    snprintf(path, sizeof path, CPU_FOLDER "cpu%d/%s", cpu, file);
    return as_sysfile_uint(v->sysroot, path, out);
}

static void cpu_unreadable(const as_doctor_view *v, as_finding *f, const char *file) {
    char path[128];
    snprintf(path, sizeof path, CPU_FOLDER "cpu%d/%s", v->place->cpu[0], file);
    as_doctor_unreadable(v, f, path);
}

/* ---- governor, energy preference ---- */

/* Every measured CPU must say `wanted`. True where some CPU says otherwise: the caller adds the remedy. */
static bool one_word(const as_doctor_view *v, as_finding *f, const char *file, const char *wanted) {
    int known = 0, others = 0, first = -1;
    char text[64], other[64] = "";
    for (int i = 0; i < as_doctor_measured(v); i++) {
        if (!cpu_text(v, v->place->cpu[i], file, text, sizeof text))
            continue;
        known++;
        if (strcmp(text, wanted) == 0 || others++ > 0)
            continue;
        first = v->place->cpu[i];
        snprintf(other, sizeof other, "%s", text);
    }
    if (others > 0)
        as_found(f, AS_FIT_WARNING, "%s on cpu%d, not %s on %d of %d measured CPUs", other, first, wanted, others,
                 as_doctor_measured(v));
    else if (known < as_doctor_measured(v))
        cpu_unreadable(v, f, file);
    else
        as_found(f, AS_FIT_OK, "%s on %d of %d measured CPUs", wanted, known, known);
    return others > 0;
}

void as_check_governor(const as_doctor_view *v, as_finding *f) {
    if (one_word(v, f, "cpufreq/scaling_governor", "performance"))
        as_doctor_setting(v, f, "echo performance | sudo tee " CPU_FOLDER "cpu*/cpufreq/scaling_governor");
}

void as_check_energy_preference(const as_doctor_view *v, as_finding *f) {
    char text[64];
    if (cpu_text(v, v->place->cpu[0], "cpufreq/scaling_driver", text, sizeof text) &&
        !cpu_text(v, v->place->cpu[0], "cpufreq/energy_performance_preference", text, sizeof text)) {
        as_found(f, AS_FIT_OK, "the frequency driver has no such preference");
        return;
    }
    if (one_word(v, f, "cpufreq/energy_performance_preference", "performance"))
        as_doctor_setting(v, f, "echo performance | sudo tee " CPU_FOLDER "cpu*/cpufreq/energy_performance_preference");
}

/* ---- clocks ---- */

void as_check_turbo(const as_doctor_view *v, as_finding *f) {
    uint64_t value;
    const char *command = "echo 1 | sudo tee " CPU_FOLDER "intel_pstate/no_turbo";
    bool on;
    if (as_sysfile_uint(v->sysroot, CPU_FOLDER "intel_pstate/no_turbo", &value)) {
        on = value == 0;
    } else if (as_sysfile_uint(v->sysroot, CPU_FOLDER "cpufreq/boost", &value)) {
        on = value != 0;
        command = "echo 0 | sudo tee " CPU_FOLDER "cpufreq/boost";
    } else {
        as_doctor_unreadable(v, f, CPU_FOLDER "cpufreq/boost");
        return;
    }
    as_found(f, on ? AS_FIT_WARNING : AS_FIT_OK, on ? "on: clocks above the rated one" : "off");
    if (on)
        as_doctor_setting(v, f, "%s (steadier and slower: say so beside the figures)", command);
}

typedef struct clocks {
    int known, capped, first_capped;
    uint64_t cap_khz, slowest_khz, fastest_khz;
} clocks;

static clocks read_clocks(const as_doctor_view *v) {
    clocks c = {.slowest_khz = UINT64_MAX};
    for (int i = 0; i < as_doctor_measured(v); i++) {
        const int cpu = v->place->cpu[i];
        uint64_t limit, highest;
        if (!cpu_uint(v, cpu, "cpufreq/scaling_max_freq", &limit) ||
            !cpu_uint(v, cpu, "cpufreq/cpuinfo_max_freq", &highest))
            continue;
        c.known++;
        if ((double)limit < CAPPED * (double)highest && c.capped++ == 0) {
            c.first_capped = cpu;
            c.cap_khz = limit;
        }
        c.slowest_khz = highest < c.slowest_khz ? highest : c.slowest_khz;
        c.fastest_khz = highest > c.fastest_khz ? highest : c.fastest_khz;
    }
    return c;
}

/* Measured CPUs whose clock is near the fastest one's. */
static void fast_cpus(const as_doctor_view *v, uint64_t fastest_khz, char *out, size_t size) {
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    uint64_t khz;
    out[0] = '\0';
    for (int i = 0; set && i < as_doctor_measured(v); i++)
        if (cpu_uint(v, v->place->cpu[i], "cpufreq/cpuinfo_max_freq", &khz) &&
            (double)khz >= UNLIKE * (double)fastest_khz)
            hwloc_bitmap_set(set, (unsigned)v->place->cpu[i]);
    if (set)
        hwloc_bitmap_list_snprintf(out, size, set);
    hwloc_bitmap_free(set);
}

void as_check_clock_limit(const as_doctor_view *v, as_finding *f) {
    const clocks c = read_clocks(v);
    char list[160];
    if (c.capped > 0) {
        as_found(f, AS_FIT_WARNING, "%d of %d measured CPUs are capped: cpu%d at %.0f MHz", c.capped, c.known,
                 c.first_capped, (double)c.cap_khz * 1e-3);
        as_doctor_setting(v, f, "echo %llu | sudo tee " CPU_FOLDER "cpu*/cpufreq/scaling_max_freq",
                          (unsigned long long)c.fastest_khz);
    } else if (c.known > 0 && (double)c.slowest_khz < UNLIKE * (double)c.fastest_khz) {
        fast_cpus(v, c.fastest_khz, list, sizeof list);
        as_found(f, AS_FIT_WARNING, "cores of unlike kinds: %.0f to %.0f MHz at most", (double)c.slowest_khz * 1e-3,
                 (double)c.fastest_khz * 1e-3);
        as_remedy(f, "assay run --cpus %s", list);
    } else if (c.known < as_doctor_measured(v)) {
        cpu_unreadable(v, f, "cpufreq/scaling_max_freq");
    } else {
        as_found(f, AS_FIT_OK, "up to %.0f MHz on %d measured CPUs", (double)c.fastest_khz * 1e-3, c.known);
    }
}

void as_check_idle_states(const as_doctor_view *v, as_finding *f) {
    char file[64], text[64], name[64] = "";
    uint64_t deepest_us = 0, us, disabled;
    int states = 0;
    for (int k = 0; k < 16; k++) {
        snprintf(file, sizeof file, "cpuidle/state%d/latency", k);
        if (!cpu_uint(v, v->place->cpu[0], file, &us))
            break;
        states++;
        snprintf(file, sizeof file, "cpuidle/state%d/disable", k);
        if ((cpu_uint(v, v->place->cpu[0], file, &disabled) && disabled) || us <= deepest_us)
            continue;
        deepest_us = us;
        snprintf(file, sizeof file, "cpuidle/state%d/name", k);
        snprintf(name, sizeof name, "%s", cpu_text(v, v->place->cpu[0], file, text, sizeof text) ? text : "?");
    }
    if (states == 0 && as_sysfile_read(v->sysroot, CPU_FOLDER "cpuidle/current_driver", text, sizeof text) &&
        strcmp(text, "none") == 0)
        as_found(f, AS_FIT_OK, "no idle driver: CPUs halt and wake at once%s",
                 v->virtual_machine ? ", as far as the guest sees" : "");
    else if (states == 0)
        cpu_unreadable(v, f, "cpuidle/state0/latency");
    else if (deepest_us < DEEP_IDLE_US)
        as_found(f, AS_FIT_OK, "the deepest enabled state wakes in %llu us", (unsigned long long)deepest_us);
    else {
        as_found(f, AS_FIT_WARNING, "state %s takes %llu us to wake", name, (unsigned long long)deepest_us);
        as_doctor_setting(v, f, "sudo cpupower idle-set -D %d (disables states slower than that, in us)", DEEP_IDLE_US);
    }
}

/* ---- hardware threads ---- */

typedef struct siblings {
    int unknown, unmeasured, busiest; /* busiest: OS index; -1 none */
    double load;
    bool load_known;
} siblings;

static void add_siblings(const as_doctor_view *v, int cpu, hwloc_bitmap_t set, siblings *s) {
    char list[256];
    as_error ignored;
    unsigned other;
    if (!cpu_text(v, cpu, "topology/thread_siblings_list", list, sizeof list) ||
        as_place_parse(list, set, &ignored) != AS_OK) {
        s->unknown++;
        return;
    }
    hwloc_bitmap_foreach_begin(other, set) {
        if (as_doctor_is_measured(v, (int)other))
            continue;
        const double load = as_doctor_busy(v, (int)other);
        s->unmeasured++;
        s->load_known &= !isnan(load);
        if (load > s->load || s->busiest < 0) {
            s->load = isnan(load) ? 0 : load;
            s->busiest = (int)other;
        }
    }
    hwloc_bitmap_foreach_end();
}

void as_check_smt(const as_doctor_view *v, as_finding *f) {
    siblings s = {.busiest = -1, .load_known = true};
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    for (int i = 0; set && i < as_doctor_measured(v); i++)
        add_siblings(v, v->place->cpu[i], set, &s);
    hwloc_bitmap_free(set);
    if (s.busiest >= 0 && s.load > as_doctor_limit(v, SIBLING_LOAD)) {
        as_found(f, AS_FIT_WARNING, "cpu%d, a sibling of a measured CPU, was busy for %.0f %% of the sample", s.busiest,
                 100 * s.load);
        as_remedy(f, "stop what runs there, or take idle cores with --cpus, or ");
        as_doctor_setting(v, f, "echo off | sudo tee " CPU_FOLDER "smt/control");
    } else if (s.unknown > 0 || !set) {
        cpu_unreadable(v, f, "topology/thread_siblings_list");
    } else if (s.busiest >= 0 && !s.load_known) {
        as_doctor_unreadable(v, f, "/proc/stat");
    } else if (s.busiest >= 0) {
        as_found(f, AS_FIT_OK, "%d idle siblings; the busiest was busy for %.0f %% of the sample", s.unmeasured,
                 100 * s.load);
    } else {
        as_found(f, AS_FIT_OK, "no measured CPU has a sibling outside the measured set");
    }
}

/* ---- isolation ---- */

/* Measured CPUs that the kernel's list names; -1 where the file is hidden. Without nohz_full some kernels say
 * "(null)". */
static int listed(const as_doctor_view *v, const char *path) {
    char list[1024];
    as_error ignored;
    if (!as_doctor_file(v, path, list, sizeof list))
        return -1;
    hwloc_bitmap_t named = hwloc_bitmap_alloc(), measured = as_doctor_measured_set(v);
    int n = 0;
    if (named && measured && as_place_parse(list, named, &ignored) == AS_OK) {
        hwloc_bitmap_and(named, named, measured);
        n = hwloc_bitmap_weight(named);
    }
    hwloc_bitmap_free(named);
    hwloc_bitmap_free(measured);
    return n;
}

void as_check_isolation(const as_doctor_view *v, as_finding *f) {
    const int all = as_doctor_measured(v), isolated = listed(v, CPU_FOLDER "isolated");
    const int tickless = listed(v, CPU_FOLDER "nohz_full");
    if (isolated < 0) {
        as_doctor_unreadable(v, f, CPU_FOLDER "isolated");
        return;
    }
    if (isolated == all) {
        as_found(f, AS_FIT_OK, "all %d measured CPUs are isolated, %d of them without tick", all,
                 tickless > 0 ? tickless : 0);
        return;
    }
    as_found(f, isolated > 0 ? AS_FIT_WARNING : AS_FIT_NOTE, "%d of %d measured CPUs are isolated", isolated, all);
    if (isolated > 0)
        as_remedy(f, "unlike CPUs make unlike threads: --cpus with isolated ones alone (cat " CPU_FOLDER "isolated)");
    else
        as_doctor_setting(v, f,
                          "boot with isolcpus=LIST nohz_full=LIST rcu_nocbs=LIST, then assay run --cpus LIST; for "
                          "results of a few percent it is not needed");
}
