/* Counters of the machine at one moment: /proc/stat, /proc/interrupts, /proc/PID/stat, throttle counts, /proc/vmstat
 * and the cgroup (proc(5), admin-guide/cgroup-v2.rst). */
#include "doctor_internal.h"
#include "process.h"
#include "sysfile.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "cpuN user nice system idle iowait irq softirq steal guest guest_nice"; guest time is contained in user. */
static void read_cpu_line(const char *line, as_doctor_sample *s) {
    char *p;
    const long cpu = strtol(line + 3, &p, 10);
    if (cpu < 0 || cpu >= AS_MAX_CPUS)
        return;
    as_cpu_time t = {.known = true};
    for (int field = 0; field < 8; field++) {
        const uint64_t ticks = strtoull(p, &p, 10);
        *(field == 3 || field == 4 ? &t.idle : field == 7 ? &t.steal : &t.busy) += ticks;
    }
    s->cpu[cpu] = t;
    s->has_stat = true;
}

static void read_stat(const char *sysroot, as_doctor_sample *s) {
    FILE *f = as_sysfile_open(sysroot, "/proc/stat");
    char *line = NULL;
    size_t room = 0;
    s->running = -1;
    while (f && getline(&line, &room, f) > 0) {
        if (strncmp(line, "cpu", 3) == 0 && isdigit((unsigned char)line[3]))
            read_cpu_line(line, s);
        else if (strncmp(line, "procs_running ", 14) == 0)
            s->running = atoi(line + 14);
    }
    free(line);
    if (f)
        fclose(f);
}

/* ---- interrupts ---- */

static bool measured(const as_placement *p, int cpu) {
    for (int i = 0; i < p->cores; i++)
        if (p->cpu[i] == cpu)
            return true;
    return false;
}

/* The head line names the CPU of each column. Returns the number of columns; -1 marks a CPU that is not measured. */
static int read_columns(const char *line, const as_placement *p, int *column, int most) {
    int n = 0;
    for (const char *at = line; n < most && (at = strstr(at, "CPU")); at += 3) {
        const int cpu = atoi(at + 3);
        column[n++] = cpu < AS_MAX_CPUS && measured(p, cpu) ? cpu : -1;
    }
    return n;
}

/* "  36:  0  1044297  PCI-MSIX-0000:00:02.0  1-edge  virtio1-req.0". Rows whose label is no number are the CPU's own:
 * timer, rescheduling. */
static void read_interrupt(char *line, const int *column, int columns, as_doctor_sample *s) {
    as_interrupt_count row = {0};
    char *p;
    line += strspn(line, " ");
    const size_t label = strcspn(line, ":");
    if (line[label] != ':' || !isdigit((unsigned char)line[0]) || label >= sizeof row.label)
        return;
    memcpy(row.label, line, label);
    p = line + label + 1;
    for (int i = 0; i < columns; i++) {
        const uint64_t count = strtoull(p, &p, 10);
        if (column[i] < 0)
            continue;
        row.count += count;
        s->interrupts[column[i]] += count;
    }
    p[strcspn(p, "\n")] = '\0';
    const char *space = strrchr(p, ' ');
    snprintf(row.name, sizeof row.name, "%.31s", space ? space + 1 : p);
    as_interrupt_count *more = realloc(s->interrupt, sizeof *more * (size_t)(s->n_interrupts + 1));
    if (!more)
        return;
    s->interrupt = more;
    s->interrupt[s->n_interrupts++] = row;
}

static void read_interrupts(const char *sysroot, const as_placement *p, as_doctor_sample *s) {
    FILE *f = as_sysfile_open(sysroot, "/proc/interrupts");
    char *line = NULL;
    size_t room = 0;
    int column[AS_MAX_CPUS], columns = 0;
    if (f && getline(&line, &room, f) > 0)
        columns = read_columns(line, p, column, AS_MAX_CPUS);
    s->has_interrupts = columns > 0;
    while (columns > 0 && getline(&line, &room, f) > 0)
        read_interrupt(line, column, columns, s);
    free(line);
    if (f)
        fclose(f);
}

/* ---- processes: name and time, nothing else ---- */

/* "pid (name) state ppid ...": utime and stime are the 12th and 13th word after the name, which may hold anything. */
static bool read_process(const char *sysroot, long pid, as_process_time *out) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    if (!as_sysfile_read(sysroot, path, text, sizeof text))
        return false;
    const char *open = strchr(text, '('), *close = strrchr(text, ')');
    if (!open || !close || close < open)
        return false;
    *out = (as_process_time){.pid = pid};
    snprintf(out->name, sizeof out->name, "%.*s", (int)(close - open - 1), open + 1);
    const char *p = close + 1;
    for (int word = 1; word <= 13; word++) {
        p += strspn(p, " ");
        if (word >= 12)
            out->ticks += strtoull(p, NULL, 10);
        p += strcspn(p, " ");
    }
    return true;
}

int as_doctor_by_pid(const void *a, const void *b) {
    const as_process_time *x = a, *y = b;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

static void read_processes(const char *sysroot, as_doctor_sample *s) {
    char path[PATH_MAX];
    int room = 0;
    const int n = snprintf(path, sizeof path, "%s/proc", sysroot);
    DIR *dir = n > 0 && (size_t)n < sizeof path ? opendir(path) : NULL;
    for (struct dirent *d; dir && (d = readdir(dir));) {
        char *end;
        const long pid = strtol(d->d_name, &end, 10);
        as_process_time one;
        if (*end || pid <= 0 || (sysroot[0] == '\0' && pid == (long)getpid()) || !read_process(sysroot, pid, &one))
            continue;
        if (s->n_processes == room) {
            room = room ? 2 * room : 256;
            as_process_time *more = realloc(s->process, sizeof *more * (size_t)room);
            if (!more)
                break;
            s->process = more;
        }
        s->process[s->n_processes++] = one;
    }
    if (dir)
        closedir(dir);
    s->has_processes = s->n_processes > 0;
    if (s->has_processes)
        qsort(s->process, (size_t)s->n_processes, sizeof *s->process, as_doctor_by_pid);
}

/* ---- the rest ---- */

static void read_throttles(const char *sysroot, const as_placement *p, as_doctor_sample *s) {
    static const char *const files[] = {"core_throttle_count", "package_throttle_count"};
    for (int i = 0; i < p->cores; i++)
        for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
            char path[128];
            uint64_t count;
            snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/thermal_throttle/%s", p->cpu[i], files[k]);
            if (!as_sysfile_uint(sysroot, path, &count))
                continue;
            s->throttles += count;
            s->has_throttles = true;
        }
}

static void read_swapping(const char *sysroot, as_doctor_sample *s) {
    FILE *f = as_sysfile_open(sysroot, "/proc/vmstat");
    char *line = NULL;
    size_t room = 0;
    while (f && getline(&line, &room, f) > 0)
        if (strncmp(line, "pswpin ", 7) == 0 || strncmp(line, "pswpout ", 8) == 0) {
            s->swapped_pages += strtoull(strchr(line, ' '), NULL, 10);
            s->has_vmstat = true;
        }
    free(line);
    if (f)
        fclose(f);
}

void as_doctor_sample_read(const char *sysroot, const as_placement *p, as_doctor_sample *s) {
    memset(s, 0, sizeof *s);
    s->at_ns = as_now_ns();
    read_stat(sysroot, s);
    read_interrupts(sysroot, p, s);
    read_processes(sysroot, s);
    read_throttles(sysroot, p, s);
    read_swapping(sysroot, s);
    as_cgroup_read(sysroot, &s->group);
}

void as_doctor_sample_free(as_doctor_sample *s) {
    free(s->interrupt);
    free(s->process);
    memset(s, 0, sizeof *s);
}
