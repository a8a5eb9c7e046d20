/* The host as a source of telemetry, from /proc and /sys. What a machine hides is NaN. A sample costs some 10 small
 * files. The counters of RAPL wrap and are joined here. */
#include "process.h"
#include "sysfile.h"
#include "telemetry_internal.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_PACKAGES = 16, STAT_BYTES = 1 << 16 };

typedef enum column {
    BUSY,
    STEAL,
    CLOCK,
    SWITCHES,
    MINOR_FAULTS,
    MAJOR_FAULTS,
    MEMORY,
    RSS,
    PRESSURE_CPU,
    PRESSURE_MEMORY,
    PRESSURE_IO,
    POWER,
} column;

static const as_telemetry_column columns[] = {
    [BUSY] = {"busy_cpus", AS_RATE, 1, "busy", "CPUs", 1, 2},
    [STEAL] = {"steal_cpus", AS_RATE, 1, "steal", "CPUs", 1, 2},
    [CLOCK] = {"clock_hz", AS_GAUGE, 1, "clock", "GHz", 1e-9, 2},
    [SWITCHES] = {"context_switches_per_s", AS_RATE, 1, "switch", "k/s", 1e-3, 1},
    [MINOR_FAULTS] = {"minor_faults_per_s", AS_RATE, 1, "faults", "k/s", 1e-3, 1},
    [MAJOR_FAULTS] = {"major_faults_per_s", AS_RATE, 1, "major", "/s", 1, 0},
    [MEMORY] = {"memory_used_bytes", AS_GAUGE, 1, "used", "GB", 1e-9, 2},
    [RSS] = {"worker_rss_bytes", AS_GAUGE, 1, "worker", "GB", 1e-9, 2},
    [PRESSURE_CPU] = {"cpu_pressure_fraction", AS_RATE, 1e-6, "psi_cpu", "%", 100, 1},
    [PRESSURE_MEMORY] = {"memory_pressure_fraction", AS_RATE, 1e-6, "psi_mem", "%", 100, 1},
    [PRESSURE_IO] = {"io_pressure_fraction", AS_RATE, 1e-6, "psi_io", "%", 100, 1},
    [POWER] = {"package_power_watts", AS_RATE, 1, "power", "W", 1, 1},
    {0},
};

typedef struct package {
    char energy[80]; /* path of energy_uj */
    uint64_t range_uj, last_uj;
    double wrapped_joules; /* of all wraps so far */
} package;

typedef struct monitor {
    char sysroot[PATH_MAX];
    int cpu[AS_CLOCK_CPUS], cpus;
    const _Atomic int *worker;
    double ticks_per_s;
    int packages;
    package package[MOST_PACKAGES];
    char no_energy[160];
    char text[STAT_BYTES];
} monitor;

/* ---- RAPL ---- */

static void find_packages(monitor *m) {
    char path[96], name[64];
    uint64_t value;
    bool any = false;
    for (int i = 0; i < MOST_PACKAGES; i++) {
        snprintf(path, sizeof path, "/sys/class/powercap/intel-rapl:%d/name", i);
        if (!as_sysfile_read(m->sysroot, path, name, sizeof name) || strncmp(name, "package", 7) != 0)
            continue;
        any = true;
        package *p = &m->package[m->packages];
        snprintf(p->energy, sizeof p->energy, "/sys/class/powercap/intel-rapl:%d/energy_uj", i);
        snprintf(path, sizeof path, "/sys/class/powercap/intel-rapl:%d/max_energy_range_uj", i);
        if (!as_sysfile_uint(m->sysroot, p->energy, &value) || !as_sysfile_uint(m->sysroot, path, &p->range_uj)) {
            m->packages = 0; /* one of several packages would tell half of the energy */
            break;
        }
        p->last_uj = value;
        m->packages++;
    }
    if (m->packages == 0)
        snprintf(m->no_energy, sizeof m->no_energy, "%s",
                 any ? "RAPL: /sys/class/powercap/*/energy_uj is not readable; let root grant it (chmod a+r)"
                     : "no RAPL counter in /sys/class/powercap (a virtual machine has none)");
}

static double packages_joules(monitor *m) {
    double sum = 0;
    for (int i = 0; i < m->packages; i++) {
        package *p = &m->package[i];
        uint64_t now;
        if (!as_sysfile_uint(m->sysroot, p->energy, &now))
            return NAN;
        if (now < p->last_uj)
            p->wrapped_joules += (double)p->range_uj * 1e-6;
        p->last_uj = now;
        sum += p->wrapped_joules + (double)now * 1e-6;
    }
    return m->packages ? sum : NAN;
}

static bool host_energy(void *monitor_, double *joules, char reason[160]) {
    monitor *m = monitor_;
    *joules = packages_joules(m);
    if (isfinite(*joules))
        return true;
    snprintf(reason, 160, "%s", m->packages ? "RAPL stopped answering" : m->no_energy);
    return false;
}

/* ---- files ---- */

/* The number behind "name " at the beginning of a line; NaN if there is none. */
static double line_number(const char *text, const char *name) {
    const size_t n = strlen(name);
    for (const char *p = text; p && *p; p = strchr(p, '\n'), p += p != NULL)
        if (strncmp(p, name, n) == 0 && p[n] == ' ')
            return (double)strtoull(p + n, NULL, 10);
    return NAN;
}

/* First line: user nice system idle iowait irq softirq steal; idle and iowait are not busy. */
static void read_stat(monitor *m, double *out) {
    if (!as_sysfile_read(m->sysroot, "/proc/stat", m->text, sizeof m->text) || strncmp(m->text, "cpu ", 4) != 0)
        return;
    double busy = 0, steal = NAN;
    char *p = m->text + 4;
    for (int field = 0; field < 8; field++) {
        char *end;
        const double ticks = (double)strtoull(p, &end, 10);
        if (end == p)
            return;
        p = end;
        busy += field == 3 || field == 4 || field == 7 ? 0 : ticks;
        steal = ticks;
    }
    out[BUSY] = busy / m->ticks_per_s;
    out[STEAL] = steal / m->ticks_per_s;
    out[SWITCHES] = line_number(p, "ctxt");
}

static void read_clock(monitor *m, double *out) {
    double sum_khz = 0;
    for (int i = 0; i < m->cpus; i++) {
        char path[96];
        uint64_t khz;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", m->cpu[i]);
        if (!as_sysfile_uint(m->sysroot, path, &khz)) {
            m->cpus = 0; /* where one CPU has none, none has: not asked again */
            return;
        }
        sum_khz += (double)khz;
    }
    if (m->cpus > 0)
        out[CLOCK] = sum_khz * 1e3 / m->cpus;
}

static void read_memory(monitor *m, double *out) {
    char value[64];
    if (as_sysfile_read(m->sysroot, "/proc/meminfo", m->text, sizeof m->text)) {
        double kib[2] = {NAN, NAN};
        static const char *const names[] = {"MemTotal", "MemAvailable"};
        for (int i = 0; i < 2; i++)
            if (as_sysfile_field(m->text, names[i], value, sizeof value))
                kib[i] = (double)strtoull(value, NULL, 10);
        out[MEMORY] = (kib[0] - kib[1]) * 1024;
    }
    if (as_sysfile_read(m->sysroot, "/proc/vmstat", m->text, sizeof m->text)) {
        out[MINOR_FAULTS] = line_number(m->text, "pgfault") - line_number(m->text, "pgmajfault");
        out[MAJOR_FAULTS] = line_number(m->text, "pgmajfault");
    }
    const int worker = m->worker ? atomic_load(m->worker) : 0;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/statm", worker);
    if (worker > 0 && as_sysfile_read(m->sysroot, path, m->text, sizeof m->text)) {
        const char *second = strchr(m->text, ' ');
        if (second)
            out[RSS] = (double)strtoull(second, NULL, 10) * (double)sysconf(_SC_PAGESIZE);
    }
}

/* "some ... total=microseconds": time in which at least one task waited for the resource. */
static double pressure_us(monitor *m, const char *path) {
    const char *total = as_sysfile_read(m->sysroot, path, m->text, sizeof m->text) ? strstr(m->text, "total=") : NULL;
    return total ? (double)strtoull(total + 6, NULL, 10) : NAN;
}

static void host_read(void *monitor_, double *out) {
    monitor *m = monitor_;
    for (int i = 0; columns[i].name; i++)
        out[i] = NAN;
    read_stat(m, out);
    read_clock(m, out);
    read_memory(m, out);
    out[PRESSURE_CPU] = pressure_us(m, "/proc/pressure/cpu");
    out[PRESSURE_MEMORY] = pressure_us(m, "/proc/pressure/memory");
    out[PRESSURE_IO] = pressure_us(m, "/proc/pressure/io");
    out[POWER] = packages_joules(m);
}

/* ---- the monitor ---- */

void *as_host_monitor_open(const char *sysroot) {
    monitor *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    snprintf(m->sysroot, sizeof m->sysroot, "%s", sysroot);
    m->ticks_per_s = (double)sysconf(_SC_CLK_TCK);
    m->cpus = 1; /* CPU 0, until told otherwise */
    find_packages(m);
    return m;
}

void as_host_monitor_follow(void *monitor_, const int *cpu, int cpus, const _Atomic int *worker) {
    monitor *m = monitor_;
    m->worker = worker;
    if (cpus > 0)
        m->cpus = cpus < AS_CLOCK_CPUS ? cpus : AS_CLOCK_CPUS;
    for (int i = 0; cpus > 0 && i < m->cpus; i++)
        m->cpu[i] = cpu[i];
}

static void *host_open(const struct json_t *description) {
    (void)description;
    return as_host_monitor_open("");
}

const as_device_telemetry as_host_telemetry = {
    .columns = columns,
    .open = host_open,
    .close = free,
    .read = host_read,
    .energy = host_energy,
};
