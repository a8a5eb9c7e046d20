/* Counters around a round and what they say about it. A reading costs a few system calls: getrusage, two files of
 * /proc and at most CLOCK_CPUS + 2 small files of sysfs. */
#include "environment.h"
#include "process.h"
#include "sysfile.h"

#include <jansson.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum {
    CLOCK_CPUS = 4,      /* some kernels take long to answer scaling_cur_freq: a few CPUs stand for all */
    MIN_STEAL_TICKS = 2, /* one tick may have been gathered before the round */
};
static const double steal_limit = 0.02, clock_limit = 0.10, wait_limit = 0.05, least_wait_ns = 1e6;

/* First line of /proc/stat: user nice system idle iowait irq softirq steal guest guest_nice. Busy time includes
 * steal and leaves out idle and iowait; guest time is contained in user. */
static void read_ticks(const char *sysroot, json_int_t *busy, json_int_t *steal) {
    char text[512];
    *busy = *steal = 0;
    if (!as_sysfile_read(sysroot, "/proc/stat", text, sizeof text) || strncmp(text, "cpu ", 4) != 0)
        return;
    char *p = text + 4;
    for (int field = 0; field < 8; field++) {
        char *end;
        json_int_t ticks = (json_int_t)strtoull(p, &end, 10);
        if (end == p)
            return;
        p = end;
        if (field == 7)
            *steal = ticks;
        if (field != 3 && field != 4)
            *busy += ticks;
    }
}

/* Mean clock of the placement's first CPUs, of the current CPU without a placement; 0 where sysfs does not tell. */
static double read_clock_hz(const char *sysroot, const as_placement *p) {
    double sum_khz = 0;
    int known = 0, here = sched_getcpu(), cpus = p ? p->cpus : 1;
    for (int k = 0; k < cpus && k < CLOCK_CPUS; k++) {
        char path[96];
        uint64_t khz;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", p ? p->cpu[k] : here);
        if (!as_sysfile_uint(sysroot, path, &khz))
            break; /* where one CPU has none, none has */
        sum_khz += (double)khz;
        known++;
    }
    return known ? sum_khz * 1e3 / known : 0;
}

/* /proc/self/schedstat: time on a CPU, time ready and waiting for one (ns), of the first thread, which is member 0 of
 * every team and the one that times. -1 where the kernel keeps none. */
static json_int_t read_wait_ns(const char *sysroot) {
    char text[96], *end;
    if (!as_sysfile_read(sysroot, "/proc/self/schedstat", text, sizeof text))
        return -1;
    (void)strtoull(text, &end, 10);
    return *end == ' ' ? (json_int_t)strtoull(end, NULL, 10) : -1;
}

/* Time that the current CPU's core and package were held down for their temperature; -1 where the kernel does not
 * tell (not Intel, a virtual machine). */
static json_int_t read_throttled_ms(const char *sysroot) {
    static const char *const names[] = {"core", "package"};
    json_int_t sum = -1;
    for (int i = 0; i < 2; i++) {
        char path[96];
        uint64_t ms;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/thermal_throttle/%s_throttle_total_time_ms",
                 sched_getcpu(), names[i]);
        if (!as_sysfile_uint(sysroot, path, &ms))
            break; /* where the core has none, the package has none */
        sum = (sum < 0 ? 0 : sum) + (json_int_t)ms;
    }
    return sum;
}

static void put_known(json_t *o, const char *key, json_int_t value) {
    if (value >= 0)
        json_object_set_new(o, key, json_integer(value));
}

json_t *as_environment_counters(const char *sysroot, const as_placement *p) {
    struct rusage use = {0};
    json_int_t busy, steal;
    getrusage(RUSAGE_SELF, &use);
    read_ticks(sysroot, &busy, &steal);
    json_t *out = json_object();
    json_object_set_new(out, "minor_faults", json_integer(use.ru_minflt));
    json_object_set_new(out, "major_faults", json_integer(use.ru_majflt));
    json_object_set_new(out, "voluntary_switches", json_integer(use.ru_nvcsw));
    json_object_set_new(out, "involuntary_switches", json_integer(use.ru_nivcsw));
    json_object_set_new(out, "steal_ticks", json_integer(steal));
    json_object_set_new(out, "cpu_ticks", json_integer(busy));
    json_object_set_new(out, "cpu_hz", json_real(read_clock_hz(sysroot, p)));
    put_known(out, "wait_ns", read_wait_ns(sysroot));
    put_known(out, "thermal_throttle_ms", read_throttled_ms(sysroot));
    json_object_set_new(out, "time_ns", json_integer(as_now_ns()));
    return out;
}

static double number(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }

/* `value` and `limit` as percentages with one decimal, in integers so that no locale can touch them. */
static void add_reason(json_t *flags, const char *what, double value, double limit) {
    char text[160];
    long v = lround(value * 1000), l = lround(limit * 1000);
    snprintf(text, sizeof text, "%s: %ld.%ld%% > %ld.%ld%%", what, v / 10, v % 10, l / 10, l % 10);
    json_array_append_new(flags, json_string(text));
}

/* Absent on either side: no growth, and no reason. */
static double growth(const json_t *before, const json_t *after, const char *key) {
    return json_object_get(before, key) && json_object_get(after, key) ? number(after, key) - number(before, key) : 0;
}

void as_environment_judge(const json_t *before, const json_t *after, json_t *flags) {
    double steal = number(after, "steal_ticks") - number(before, "steal_ticks");
    double ticks = number(after, "cpu_ticks") - number(before, "cpu_ticks");
    double faults = number(after, "major_faults") - number(before, "major_faults");
    double hz_before = number(before, "cpu_hz"), hz_after = number(after, "cpu_hz");
    if (steal >= MIN_STEAL_TICKS && ticks > 0 && steal / ticks > steal_limit)
        add_reason(flags, "other load: steal", steal / ticks, steal_limit);
    const double wait_ns = growth(before, after, "wait_ns"), elapsed_ns = growth(before, after, "time_ns");
    if (wait_ns > least_wait_ns && wait_ns > wait_limit * elapsed_ns && elapsed_ns > 0)
        json_array_append_new(
            flags, json_sprintf("disturbed: waited for a CPU over %ld%% of the time", lround(wait_limit * 100)));
    if (growth(before, after, "thermal_throttle_ms") > 0)
        json_array_append_new(flags, json_string("throttled: thermal"));
    if (faults > 0) {
        char text[64];
        snprintf(text, sizeof text, "major page faults: %ld", lround(faults));
        json_array_append_new(flags, json_string(text));
    }
    if (hz_before > 0 && hz_after > 0) {
        double moved = fabs(hz_after - hz_before) / hz_before;
        if (moved > clock_limit)
            add_reason(flags, "clocks moved", moved, clock_limit);
    }
}
