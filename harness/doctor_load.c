/* What else runs: on the measured CPUs, beside them, and on the host below. proc(5), accounting/psi.rst. */
#include "doctor_internal.h"
#include "sysfile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double MEASURED_LOAD = 0.05; /* of the sample, the busiest CPU; a tick of 10 ms is 1% of 1 s */
static const double OTHER_LOAD = 0.05;    /* of the sample, the mean of the other CPUs */
static const double STEAL = 0.02;         /* as around each round of a run */
static const double LOAD_AVERAGE = 0.5;   /* of the CPUs, as in a result's warnings */

/* Names of what runs, in a remedy. */
static void stop_consumers(const as_doctor_view *v, as_finding *f) {
    char names[120];
    as_doctor_consumers(v, names, sizeof names);
    if (names[0])
        as_remedy(f, "stop or wait for: %s", names);
    else if (v->container)
        as_remedy(f, "on the host of this container: see with top what runs there; stop it or wait");
    else
        as_remedy(f, "see with top what runs; stop it or wait");
}

/* CPUs of the placement that were idle, where it has busy ones too. */
static void idle_cpus(const as_doctor_view *v, char *out, size_t size) {
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    int idle = 0;
    out[0] = '\0';
    for (int i = 0; set && i < v->place->cpus; i++)
        if (as_doctor_busy(v, v->place->cpu[i]) <= as_doctor_limit(v, MEASURED_LOAD)) {
            hwloc_bitmap_set(set, (unsigned)v->place->cpu[i]);
            idle++;
        }
    if (set && idle > 0 && idle < v->place->cpus)
        hwloc_bitmap_list_snprintf(out, size, set);
    hwloc_bitmap_free(set);
}

void as_check_cpu_load(const as_doctor_view *v, as_finding *f) {
    double most = 0, sum = 0;
    int busiest = v->place->cpu[0];
    char list[100];
    for (int i = 0; i < as_doctor_measured(v); i++) {
        const double load = as_doctor_busy(v, v->place->cpu[i]);
        if (isnan(load)) {
            as_doctor_unreadable(v, f, "/proc/stat");
            return;
        }
        sum += load;
        if (load > most) {
            most = load;
            busiest = v->place->cpu[i];
        }
    }
    as_found(f, most > as_doctor_limit(v, MEASURED_LOAD) ? AS_FIT_WARNING : AS_FIT_OK,
             "busiest measured CPU, cpu%d: %.0f %% of the sample; mean of %d: %.1f %%", busiest, 100 * most,
             as_doctor_measured(v), 100 * sum / as_doctor_measured(v));
    if (f->status == AS_FIT_OK)
        return;
    stop_consumers(v, f);
    idle_cpus(v, list, sizeof list);
    if (list[0])
        as_remedy(f, "; or assay run --cpus %s (idle in the sample)", list);
}

void as_check_other_load(const as_doctor_view *v, as_finding *f) {
    double sum = 0;
    int others = 0;
    char names[100], running[48] = "";
    for (int cpu = 0; cpu < AS_MAX_CPUS; cpu++) {
        const double load = as_doctor_busy(v, cpu);
        if (isnan(load) || as_doctor_is_measured(v, cpu))
            continue;
        sum += load;
        others++;
    }
    if (!v->after->has_stat) {
        as_doctor_unreadable(v, f, "/proc/stat");
        return;
    }
    if (v->after->running > 0) /* one of them reads this */
        snprintf(running, sizeof running, "; %d other tasks ready to run", v->after->running - 1);
    as_doctor_consumers(v, names, sizeof names);
    as_found(f, others > 0 && sum / others > OTHER_LOAD ? AS_FIT_WARNING : AS_FIT_OK,
             "%.1f of %d other CPUs busy%s%s%s", sum, others, running, names[0] ? "; most: " : "", names);
    if (f->status == AS_FIT_WARNING)
        stop_consumers(v, f);
}

void as_check_load_average(const as_doctor_view *v, as_finding *f) {
    char text[128];
    double load;
    const int online = as_doctor_online(v);
    if (!as_sysfile_read(v->sysroot, "/proc/loadavg", text, sizeof text) || !as_sysfile_decimal(text, NULL, &load)) {
        as_doctor_unreadable(v, f, "/proc/loadavg");
        return;
    }
    if (online == 0) {
        as_doctor_unreadable(v, f, "/sys/devices/system/cpu/online");
        return;
    }
    const bool busy = load > LOAD_AVERAGE * online;
    as_found(f, busy ? AS_FIT_WARNING : AS_FIT_OK, "%.2f over the last minute, on %d CPUs", load, online);
    if (busy)
        as_remedy(f, "wait until the first number of /proc/loadavg is below %.1f", LOAD_AVERAGE * online);
}

/* ---- the hypervisor ---- */

static double steal_since_boot(const as_doctor_view *v) {
    double steal = 0, all = 0;
    for (int i = 0; i < as_doctor_measured(v); i++) {
        const as_cpu_time *t = &v->after->cpu[v->place->cpu[i]];
        steal += (double)t->steal;
        all += (double)(t->steal + t->busy);
    }
    return all > 0 ? steal / all : 0;
}

void as_check_steal(const as_doctor_view *v, as_finding *f) {
    double most = 0;
    int worst = v->place->cpu[0];
    for (int i = 0; i < as_doctor_measured(v); i++) {
        const double share = as_doctor_steal(v, v->place->cpu[i]);
        if (isnan(share)) {
            as_doctor_unreadable(v, f, "/proc/stat");
            return;
        }
        if (share > most) {
            most = share;
            worst = v->place->cpu[i];
        }
    }
    const double history = steal_since_boot(v);
    as_found(f,
             most > as_doctor_limit(v, STEAL) ? AS_FIT_WARNING
             : history > STEAL                ? AS_FIT_NOTE
                                              : AS_FIT_OK,
             "cpu%d: %.1f %% of the sample; since boot %.1f %% of the time that the measured CPUs were wanted", worst,
             100 * most, 100 * history);
    if (f->status != AS_FIT_OK)
        as_remedy(f, "take a machine with dedicated CPUs, or pin this guest's CPUs on its host; else more --launches "
                     "at another hour");
}

/* ---- pressure ---- */

static const struct {
    const char *path, *name;
    double limit; /* percent of the last 10 s in which some task waited */
} pressures[] = {
    {"/proc/pressure/cpu", "cpu", 10}, {"/proc/pressure/memory", "memory", 1}, {"/proc/pressure/io", "io", 10}};
enum { PRESSURES = sizeof pressures / sizeof *pressures };

/* "some avg10=0.64 avg60=0.87 avg300=1.09 total=1592486827" */
static double avg10(const as_doctor_view *v, const char *path) {
    char text[256];
    double percent;
    if (!as_sysfile_read(v->sysroot, path, text, sizeof text))
        return NAN;
    const char *p = strstr(text, "some avg10=");
    return p && as_sysfile_decimal(p + strlen("some avg10="), NULL, &percent) ? percent : NAN;
}

void as_check_pressure(const as_doctor_view *v, as_finding *f) {
    char text[160] = "some task waited";
    const char *missing = NULL;
    bool over = false;
    for (int i = 0; i < PRESSURES; i++) {
        const double percent = avg10(v, pressures[i].path);
        if (isnan(percent)) {
            missing = pressures[i].path;
            continue;
        }
        over |= percent > pressures[i].limit;
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s %s %.1f %%", i ? "," : " for", pressures[i].name, percent);
    }
    const double group = v->after->group.memory_pressure;
    if (group > pressures[1].limit) {
        over = true;
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, ", memory of the cgroup %.1f %%", group);
    }
    if (missing && !over) {
        as_doctor_unreadable(v, f, missing);
        return;
    }
    as_found(f, over ? AS_FIT_WARNING : AS_FIT_OK, "%s of the last 10 s", text);
    if (over)
        as_remedy(f,
                  "wait or stop other work until cat /proc/pressure/* shows avg10 below 10 (cpu, io) and 1 (memory)");
}
