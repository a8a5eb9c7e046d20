/* The table of host checks, and what they share. */
#include "doctor_internal.h"
#include "sysfile.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define ROW(name, from, looks_at, why) {{#name, looks_at, why, from}, as_check_##name},
const as_doctor_check as_doctor_checks[] = {AS_DOCTOR_CHECKS(ROW){{NULL, NULL, NULL, AS_QUICK}, NULL}};

json_t *as_doctor_host(const as_doctor_view *v) {
    json_t *list = json_array();
    for (const as_doctor_check *c = as_doctor_checks; c->rule.name; c++) {
        as_finding f = {.rule = &c->rule};
        c->look(v, &f);
        json_array_append_new(list, as_finding_json(&f, "host"));
    }
    return list;
}

/* ---- files ---- */

bool as_doctor_file(const as_doctor_view *v, const char *path, char *text, size_t size) {
    char full[PATH_MAX];
    if (as_sysfile_read(v->sysroot, path, text, size))
        return true;
    const int n = snprintf(full, sizeof full, "%s%s", v->sysroot, path);
    return n > 0 && (size_t)n < sizeof full && access(full, R_OK) == 0;
}

void as_doctor_unreadable(const as_doctor_view *v, as_finding *f, const char *path) {
    char full[PATH_MAX];
    snprintf(full, sizeof full, "%s%s", v->sysroot, path);
    const int fd = open(full, O_RDONLY | O_CLOEXEC);
    const bool forbidden = fd < 0 && (errno == EACCES || errno == EPERM);
    if (fd >= 0)
        close(fd);
    const bool hidden = fd < 0 && !forbidden, both = v->container && v->virtual_machine;
    const char *why = fd >= 0              ? " says nothing that this check understands"
                      : forbidden          ? " may not be read by this user"
                      : both               ? " is not there: the container or the hypervisor hides it"
                      : v->virtual_machine ? " is not there: the hypervisor does not show it to a guest"
                      : v->container       ? " is not there: the container hides it"
                                           : " is not there: this kernel or processor does not tell";
    as_found(f, AS_FIT_UNKNOWN, "%s%s", path, why);
    as_remedy(f, "%scat %s",
              forbidden                      ? "sudo "
              : hidden && v->container       ? "on the host of this container: "
              : hidden && v->virtual_machine ? "on the hypervisor's host: "
              : hidden                       ? "with /proc and /sys mounted, and a kernel that has it: "
                                             : "see what it says: ",
              path);
}

void as_doctor_setting(const as_doctor_view *v, as_finding *f, const char *fmt, ...) {
    char command[sizeof f->remedy];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(command, sizeof command, fmt, ap);
    va_end(ap);
    as_remedy(f, "%s%s", v->container ? "on the host of this container: " : "", command);
}

/* ---- CPUs ---- */

int as_doctor_measured(const as_doctor_view *v) { return v->place->cores; }

bool as_doctor_is_measured(const as_doctor_view *v, int cpu) {
    for (int i = 0; i < v->place->cores; i++)
        if (v->place->cpu[i] == cpu)
            return true;
    return false;
}

hwloc_bitmap_t as_doctor_measured_set(const as_doctor_view *v) {
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    for (int i = 0; set && i < v->place->cores; i++)
        hwloc_bitmap_set(set, (unsigned)v->place->cpu[i]);
    return set;
}

int as_doctor_online(const as_doctor_view *v) {
    char list[4096];
    return as_sysfile_read(v->sysroot, "/sys/devices/system/cpu/online", list, sizeof list)
               ? as_sysfile_list_count(list, NULL)
               : 0;
}

void as_doctor_other_cpus(const as_doctor_view *v, char *out, size_t size) {
    char list[4096];
    as_error ignored;
    hwloc_bitmap_t others = hwloc_bitmap_alloc(), measured = as_doctor_measured_set(v);
    out[0] = '\0';
    if (others && measured && as_sysfile_read(v->sysroot, "/sys/devices/system/cpu/online", list, sizeof list) &&
        as_place_parse(list, others, &ignored) == AS_OK) {
        hwloc_bitmap_andnot(others, others, measured);
        hwloc_bitmap_list_snprintf(out, size, others);
    }
    hwloc_bitmap_free(others);
    hwloc_bitmap_free(measured);
}

/* ---- the sample ---- */

double as_doctor_seconds(const as_doctor_view *v) { return (double)(v->after->at_ns - v->before->at_ns) * 1e-9; }

static double share(const as_doctor_view *v, int cpu, bool steal) {
    if (cpu < 0 || cpu >= AS_MAX_CPUS || !v->before->cpu[cpu].known || !v->after->cpu[cpu].known)
        return NAN;
    const as_cpu_time *a = &v->before->cpu[cpu], *b = &v->after->cpu[cpu];
    const double busy = (double)b->busy - (double)a->busy, stolen = (double)b->steal - (double)a->steal;
    const double all = busy + stolen + (double)b->idle - (double)a->idle; /* iowait may fall: idle may, too */
    return all > 0 ? fmax(0, steal ? stolen : busy) / all : NAN;
}

double as_doctor_busy(const as_doctor_view *v, int cpu) { return share(v, cpu, false); }
double as_doctor_steal(const as_doctor_view *v, int cpu) { return share(v, cpu, true); }

double as_doctor_limit(const as_doctor_view *v, double share) {
    const double ticks = as_doctor_seconds(v) * (double)sysconf(_SC_CLK_TCK);
    return ticks > 0 ? fmax(share, 1.5 / ticks) : share;
}

typedef struct consumer {
    const char *name;
    uint64_t ticks;
} consumer;

static int by_ticks(const void *a, const void *b) {
    const consumer *x = a, *y = b;
    return (x->ticks < y->ticks) - (x->ticks > y->ticks);
}

/* Ticks within the sample by name: many processes of one program count together. */
static int add_up(const as_doctor_view *v, consumer *list, int most) {
    int n = 0;
    for (int i = 0; i < v->after->n_processes; i++) {
        const as_process_time *now = &v->after->process[i];
        const as_process_time *then =
            v->before->n_processes > 0
                ? bsearch(now, v->before->process, (size_t)v->before->n_processes, sizeof *now, as_doctor_by_pid)
                : NULL;
        const uint64_t before = then ? then->ticks : 0;
        if (now->ticks <= before)
            continue;
        int k = 0;
        while (k < n && strcmp(list[k].name, now->name) != 0)
            k++;
        if (k == n && n == most)
            continue;
        if (k == n)
            list[n++] = (consumer){.name = now->name};
        list[k].ticks += now->ticks - before;
    }
    return n;
}

void as_doctor_consumers(const as_doctor_view *v, char *out, size_t size) {
    enum { MOST_NAMES = 512, SHOWN = 3 };
    consumer list[MOST_NAMES];
    const double ticks = as_doctor_seconds(v) * (double)sysconf(_SC_CLK_TCK);
    const int n = add_up(v, list, MOST_NAMES);
    out[0] = '\0';
    if (ticks <= 0 || n == 0)
        return;
    qsort(list, (size_t)n, sizeof *list, by_ticks);
    for (int i = 0; i < n && i < SHOWN && (double)list[i].ticks >= 0.01 * ticks; i++) {
        const size_t used = strlen(out);
        snprintf(out + used, size - used, "%s%s %.0f %%", used ? ", " : "", list[i].name,
                 100 * (double)list[i].ticks / ticks);
    }
}

/* ---- what surrounds the process ---- */

static bool exists(const as_doctor_view *v, const char *path) {
    char full[PATH_MAX];
    const int n = snprintf(full, sizeof full, "%s%s", v->sysroot, path);
    return n > 0 && (size_t)n < sizeof full && access(full, F_OK) == 0;
}

void as_doctor_surroundings(as_doctor_view *v) {
    static const char *const marks[] = {"/.dockerenv", "/run/.containerenv", "/run/systemd/container"};
    char text[8192], flags[8192];
    v->container = v->virtual_machine = false;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        v->container |= exists(v, marks[i]);
    if (as_sysfile_read(v->sysroot, "/proc/1/cgroup", text, sizeof text))
        v->container |= strstr(text, "/docker") || strstr(text, "/kubepods") || strstr(text, "/lxc");
    if (as_sysfile_read(v->sysroot, "/proc/cpuinfo", text, sizeof text) &&
        as_sysfile_field(text, "flags", flags, sizeof flags))
        v->virtual_machine = strstr(flags, " hypervisor") != NULL;
    if (as_sysfile_read(v->sysroot, "/sys/hypervisor/type", text, sizeof text) && strcmp(text, "none") != 0)
        v->virtual_machine = true;
}

void as_doctor_folder(as_doctor_view *v, const char *out, char folder[4096]) {
    struct statvfs s;
    const char *slash = out ? strrchr(out, '/') : NULL;
    if (slash)
        snprintf(folder, 4096, "%.*s", slash == out ? 1 : (int)(slash - out), out);
    else
        snprintf(folder, 4096, ".");
    v->folder = folder;
    v->folder_bytes = -1;
    v->folder_reason[0] = '\0';
    v->folder_writable = access(folder, W_OK | X_OK) == 0;
    if (!v->folder_writable)
        snprintf(v->folder_reason, sizeof v->folder_reason, "%s", strerror(errno));
    if (statvfs(folder, &s) == 0)
        v->folder_bytes = (int64_t)((uint64_t)s.f_bavail * s.f_frsize);
}
