/* Limits that a container, the shell or the disk puts on a run. getrlimit(2), admin-guide/cgroup-v2.rst. */
#include "doctor_internal.h"
#include "sysfile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double MIB = 1048576;
/* A worker needs its code, its libraries and one case: below the first nothing can be measured, below the second the
 * larger cases of the quick plan are left out. */
static const double UNFIT_BYTES = 256 * 1048576.0, SMALL_BYTES = 2048 * 1048576.0;
/* A published result is at most 12 MiB, its journal about as much. */
static const double DISK_UNFIT_BYTES = 32 * 1048576.0, DISK_SMALL_BYTES = 1024 * 1048576.0;
static const double FILE_SMALL_BYTES = 64 * 1048576.0, LOCKED_SMALL_BYTES = 64 * 1048576.0;

/* ---- cgroup ---- */

void as_check_cpu_quota(const as_doctor_view *v, as_finding *f) {
    const as_cgroup *g = &v->after->group;
    const int cores = as_doctor_measured(v);
    if (!g->cpu_known) {
        as_doctor_unreadable(v, f, "/proc/self/cgroup");
        return;
    }
    if (g->cpu_quota <= 0) {
        as_found(f, AS_FIT_OK, "none");
        return;
    }
    as_found(f, g->cpu_quota < cores ? AS_FIT_WARNING : AS_FIT_NOTE, "%.2f CPUs for %d measured cores", g->cpu_quota,
             cores);
    if (v->container)
        as_remedy(f, "give the container whole CPUs and no quota: docker run --cpuset-cpus LIST without --cpus; "
                     "Kubernetes: static CPU manager, limits = requests in whole CPUs");
    else
        as_remedy(f, "sudo systemctl set-property UNIT CPUQuota= (the unit that systemctl status $$ names)");
    if (g->cpu_quota >= 1 && g->cpu_quota < cores)
        as_remedy(f, "; or assay run --cpus with %d CPUs", (int)g->cpu_quota);
}

void as_check_cpu_throttling(const as_doctor_view *v, as_finding *f) {
    const as_cgroup *now = &v->after->group, *then = &v->before->group;
    if (!now->throttle_known && now->cpu_known && now->cpu_quota <= 0) {
        as_found(f, AS_FIT_OK, "no quota, no throttling");
        return;
    }
    if (!now->throttle_known) {
        as_doctor_unreadable(v, f, "/proc/self/cgroup");
        return;
    }
    const uint64_t before = then->throttle_known ? then->throttled_periods : now->throttled_periods;
    const uint64_t fresh = now->throttled_periods - before;
    as_found(f,
             fresh > 0                    ? AS_FIT_WARNING
             : now->throttled_periods > 0 ? AS_FIT_NOTE
                                          : AS_FIT_OK,
             "paused in %llu periods of the sample, %llu since the cgroup was made (%.1f s)", (unsigned long long)fresh,
             (unsigned long long)now->throttled_periods, now->throttled_s);
    if (f->status != AS_FIT_OK)
        as_remedy(f, "raise or lift the quota (see cpu_quota), or run less beside the measurement in this cgroup");
}

void as_check_cpuset(const as_doctor_view *v, as_finding *f) {
    const int online = as_doctor_online(v);
    if (online == 0 || v->allowed_cpus == 0) {
        as_doctor_unreadable(v, f, "/sys/devices/system/cpu/online");
        return;
    }
    as_found(f, v->allowed_cpus < online ? AS_FIT_NOTE : AS_FIT_OK, "%d of the machine's %d CPUs may be used",
             v->allowed_cpus, online);
    if (f->status == AS_FIT_OK)
        return;
    if (v->container)
        as_remedy(f, "to have the machine alone: docker run --cpuset-cpus 0-%d, and nothing else on the host",
                  online - 1);
    else
        as_remedy(f, "to have the machine alone: start without taskset, cpuset or a job's share (taskset -cp $$ shows "
                     "it)");
}

void as_check_memory_limit(const as_doctor_view *v, as_finding *f) {
    const as_cgroup *g = &v->after->group;
    if (!g->memory_known) {
        as_doctor_unreadable(v, f, "/proc/self/cgroup");
        return;
    }
    if (g->memory_limit_bytes == 0) {
        as_found(f, AS_FIT_OK, "none");
        return;
    }
    const double left = (double)g->memory_free_bytes;
    as_found(f,
             left < UNFIT_BYTES   ? AS_FIT_UNFIT
             : left < SMALL_BYTES ? AS_FIT_WARNING
                                  : AS_FIT_NOTE,
             "%.0f MiB, %.0f MiB of it free", (double)g->memory_limit_bytes / MIB, left / MIB);
    as_remedy(f, v->container ? "docker run --memory SIZE; Kubernetes: resources.limits.memory"
                              : "sudo systemctl set-property UNIT MemoryMax=SIZE (the unit that systemctl status $$ "
                                "names)");
}

/* ---- the shell's limits ---- */

/* Soft limit of "Max file size             unlimited            unlimited            bytes". */
static bool limit_of(const char *text, const char *name, double *soft) {
    const char *line = strstr(text, name);
    if (!line)
        return false;
    line += strlen(name);
    line += strspn(line, " ");
    *soft = strncmp(line, "unlimited", 9) == 0 ? -1 : strtod(line, NULL);
    return true;
}

void as_check_process_limits(const as_doctor_view *v, as_finding *f) {
    char text[4096];
    double core = 0, locked = -1, file = -1, cpu = -1;
    if (!as_sysfile_read(v->sysroot, "/proc/self/limits", text, sizeof text) ||
        !limit_of(text, "Max core file size", &core) || !limit_of(text, "Max locked memory", &locked) ||
        !limit_of(text, "Max file size", &file) || !limit_of(text, "Max cpu time", &cpu)) {
        as_doctor_unreadable(v, f, "/proc/self/limits");
        return;
    }
    if (cpu >= 0) {
        as_found(f, AS_FIT_WARNING, "CPU time is limited to %.0f s a process", cpu);
        as_remedy(f, "ulimit -t unlimited");
    } else if (file >= 0 && file < FILE_SMALL_BYTES) {
        as_found(f, AS_FIT_WARNING, "files are limited to %.1f MiB", file / MIB);
        as_remedy(f, "ulimit -f unlimited");
    } else if (core != 0) {
        as_found(f, AS_FIT_NOTE, "core files are written; a crashing case takes seconds and its memory's size of disk");
        as_remedy(f, "ulimit -c 0");
    } else if (locked >= 0 && locked < LOCKED_SMALL_BYTES) {
        as_found(f, AS_FIT_NOTE, "locked memory is limited to %.0f MiB; programs under --exec that lock may fail",
                 locked / MIB);
        as_remedy(f, "ulimit -l unlimited; in a container: docker run --ulimit memlock=-1");
    } else {
        as_found(f, AS_FIT_OK, "CPU time, file size and locked memory are enough; no core files");
    }
}

void as_check_disk(const as_doctor_view *v, as_finding *f) {
    if (!v->folder_writable) {
        as_found(f, AS_FIT_UNFIT, "%.120s cannot be written: %s", v->folder, v->folder_reason);
        as_remedy(f, "assay run --out FILE in a folder that you may write");
        return;
    }
    if (v->folder_bytes < 0) {
        as_found(f, AS_FIT_UNKNOWN, "the file system of %.120s does not tell its free space", v->folder);
        as_remedy(f, "df %.120s, or --out on another file system", v->folder);
        return;
    }
    const double left = (double)v->folder_bytes;
    as_found(f,
             left < DISK_UNFIT_BYTES   ? AS_FIT_UNFIT
             : left < DISK_SMALL_BYTES ? AS_FIT_WARNING
                                       : AS_FIT_OK,
             "%.0f MiB free in %.120s", left / MIB, v->folder);
    if (f->status != AS_FIT_OK)
        as_remedy(f, "free some space, or --out FILE on another file system");
}
