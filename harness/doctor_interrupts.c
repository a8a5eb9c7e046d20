/* Device interrupts on the measured CPUs. Kernel documentation: core-api/irq/irq-affinity.rst. */
#include "doctor_internal.h"
#include "sysfile.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double INTERRUPTS_PER_S = 100; /* on one CPU: at about 5 us each, 0.05% of its time, in lumps */

/* The interrupt that struck most within the sample. */
static const as_interrupt_count *busiest(const as_doctor_view *v, uint64_t *count) {
    const as_interrupt_count *most = NULL;
    *count = 0;
    for (int i = 0; i < v->after->n_interrupts; i++)
        for (int k = 0; k < v->before->n_interrupts; k++) {
            const as_interrupt_count *now = &v->after->interrupt[i], *then = &v->before->interrupt[k];
            if (strcmp(now->label, then->label) == 0 && now->count > then->count && now->count - then->count > *count) {
                *count = now->count - then->count;
                most = now;
            }
        }
    return most;
}

static void away(const as_doctor_view *v, as_finding *f, const char *label) {
    char others[120];
    as_doctor_other_cpus(v, others, sizeof others);
    if (others[0])
        as_doctor_setting(v, f, "echo %s | sudo tee /proc/irq/%s/smp_affinity_list", others, label);
    else
        as_remedy(f,
                  "every CPU is measured: leave one to the devices with --cpus, then move the interrupts there by "
                  "/proc/irq/%s/smp_affinity_list",
                  label);
}

void as_check_interrupts(const as_doctor_view *v, as_finding *f) {
    double most = 0;
    int worst = v->place->cpu[0];
    uint64_t count;
    if (!v->before->has_interrupts || !v->after->has_interrupts) {
        as_doctor_unreadable(v, f, "/proc/interrupts");
        return;
    }
    for (int i = 0; i < as_doctor_measured(v); i++) {
        const int cpu = v->place->cpu[i];
        const double rate =
            ((double)v->after->interrupts[cpu] - (double)v->before->interrupts[cpu]) / as_doctor_seconds(v);
        if (rate > most) {
            most = rate;
            worst = cpu;
        }
    }
    const as_interrupt_count *device = busiest(v, &count);
    const bool over = most > INTERRUPTS_PER_S && device;
    as_found(f, over ? AS_FIT_WARNING : AS_FIT_OK, "cpu%d: %.0f device interrupts/s%s%s%s%s", worst, most,
             device ? "; most: " : "", device ? device->label : "", device ? " " : "", device ? device->name : "");
    if (over)
        away(v, f, device->label);
}

/* ---- where interrupts may go ---- */

typedef struct affinity {
    int known, onto;
    char first[12];
} affinity;

static void add_irq(const as_doctor_view *v, const char *irq, hwloc_const_bitmap_t measured, hwloc_bitmap_t set,
                    affinity *a) {
    char path[64], list[1024];
    as_error ignored;
    snprintf(path, sizeof path, "/proc/irq/%.12s/smp_affinity_list", irq);
    if (!as_sysfile_read(v->sysroot, path, list, sizeof list) || as_place_parse(list, set, &ignored) != AS_OK)
        return;
    a->known++;
    if (hwloc_bitmap_intersects(set, measured) && a->onto++ == 0)
        snprintf(a->first, sizeof a->first, "%.11s", irq);
}

static affinity read_affinity(const as_doctor_view *v) {
    affinity a = {0};
    char path[PATH_MAX];
    const int n = snprintf(path, sizeof path, "%s/proc/irq", v->sysroot);
    DIR *dir = n > 0 && (size_t)n < sizeof path ? opendir(path) : NULL;
    hwloc_bitmap_t set = hwloc_bitmap_alloc(), measured = as_doctor_measured_set(v);
    for (struct dirent *d; dir && set && measured && (d = readdir(dir));)
        if (isdigit((unsigned char)d->d_name[0]))
            add_irq(v, d->d_name, measured, set, &a);
    hwloc_bitmap_free(set);
    hwloc_bitmap_free(measured);
    if (dir)
        closedir(dir);
    return a;
}

void as_check_irq_affinity(const as_doctor_view *v, as_finding *f) {
    const affinity a = read_affinity(v);
    if (a.known == 0) {
        as_doctor_unreadable(v, f, "/proc/irq/0/smp_affinity_list");
        return;
    }
    as_found(f, a.onto ? AS_FIT_WARNING : AS_FIT_OK, "%d of %d interrupts may strike a measured CPU", a.onto, a.known);
    if (a.onto)
        away(v, f, a.onto == 1 ? a.first : "*");
}

void as_check_irqbalance(const as_doctor_view *v, as_finding *f) {
    for (int i = 0; i < v->after->n_processes; i++)
        if (strcmp(v->after->process[i].name, "irqbalance") == 0) {
            as_found(f, AS_FIT_WARNING, "running");
            as_doctor_setting(v, f, "sudo systemctl stop irqbalance");
            return;
        }
    if (!v->after->has_processes || v->container) {
        as_found(f, AS_FIT_UNKNOWN,
                 v->container ? "not among the processes of this container; those of its host are "
                                "invisible"
                              : "no process is visible: /proc is hidden");
        as_doctor_setting(v, f, "pgrep irqbalance, and where it runs: sudo systemctl stop irqbalance");
        return;
    }
    as_found(f, AS_FIT_OK, "not running");
}
