/* Limits that a container puts on this process. Both hierarchies are read, since hybrid systems use both: a
 * controller lives in its v1 mount if there is one, else in the unified (v2) mount. Kernel documentation:
 * admin-guide/cgroup-v2.rst, admin-guide/cgroup-v1/memory.rst, proc(5) for mountinfo. */
#include "place_internal.h"
#include "sysfile.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where one controller of this process is seen: the mount, and the process's own directory below it. */
typedef struct group_dir {
    bool v2;
    char mount[256];
    char path[1024]; /* begins with mount */
} group_dir;

/* Whole word in a comma-separated list. */
static bool has_word(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *p = list; p; p = strchr(p, ','), p += p != NULL)
        if (strncmp(p, word, n) == 0 && (p[n] == ',' || p[n] == '\0'))
            return true;
    return false;
}

/* The line "id:controllers:path" of this controller; v2's is "0::path". */
static bool group_of(const char *sysroot, const char *controller, bool v2, char *out, size_t size) {
    FILE *f = as_sysfile_open(sysroot, "/proc/self/cgroup");
    char *line = NULL;
    size_t room = 0;
    bool found = false;
    while (f && !found && getline(&line, &room, f) > 0) {
        line[strcspn(line, "\n")] = '\0';
        char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        list++;
        found = v2 ? *list == '\0' : has_word(list, controller);
        if (found)
            snprintf(out, size, "%s", path);
    }
    free(line);
    if (f)
        fclose(f);
    return found;
}

/* mountinfo: id parent dev root mount options ... - type source super-options */
static bool mount_of(const char *sysroot, const char *controller, bool v2, char *root, char *mount, size_t size) {
    FILE *f = as_sysfile_open(sysroot, "/proc/self/mountinfo");
    char *line = NULL;
    size_t room = 0;
    bool found = false;
    while (f && !found && getline(&line, &room, f) > 0) {
        char *tail = strstr(line, " - ");
        char type[32], options[512], r[256], m[256];
        if (!tail || sscanf(tail, " - %31s %*s %511s", type, options) != 2 ||
            sscanf(line, "%*s %*s %*s %255s %255s", r, m) != 2)
            continue;
        found = v2 ? strcmp(type, "cgroup2") == 0 : strcmp(type, "cgroup") == 0 && has_word(options, controller);
        if (found) {
            snprintf(root, size, "%s", r);
            snprintf(mount, size, "%s", m);
        }
    }
    free(line);
    if (f)
        fclose(f);
    return found;
}

static bool locate(const char *sysroot, const char *controller, bool v2, group_dir *out) {
    char root[256], path[768];
    const char *below = "";
    if (!mount_of(sysroot, controller, v2, root, out->mount, sizeof out->mount) ||
        !group_of(sysroot, controller, v2, path, sizeof path))
        return false;
    size_t n = strcmp(root, "/") == 0 ? 0 : strlen(root);
    /* A mount may show a part of the tree only (root), as in a container without a cgroup namespace. A group that
     * lies outside what is mounted ("/..", another root) is seen at the mount's top at best. */
    if (strncmp(path, root, n) == 0 && path[n] == '/' && path[n + 1] != '\0' && !strstr(path, ".."))
        below = path + n;
    out->v2 = v2;
    snprintf(out->path, sizeof out->path, "%s%s", out->mount, below);
    return true;
}

static bool find_controller(const char *sysroot, const char *controller, group_dir *out) {
    return locate(sysroot, controller, false, out) || locate(sysroot, controller, true, out);
}

/* One step up; false at the mount itself. */
static bool parent(group_dir *g) {
    if (strcmp(g->path, g->mount) == 0)
        return false;
    *strrchr(g->path, '/') = '\0';
    return strlen(g->path) >= strlen(g->mount);
}

static bool group_file(const char *sysroot, const group_dir *g, const char *name, char *text, size_t size) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", g->path, name);
    return as_sysfile_read(sysroot, path, text, size);
}

static bool group_uint(const char *sysroot, const group_dir *g, const char *name, uint64_t *out) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", g->path, name);
    return as_sysfile_uint(sysroot, path, out); /* "max" is no number: no limit */
}

/* Page cache that the kernel would give back before it kills anybody. */
static uint64_t reclaimable(const char *sysroot, const group_dir *g) {
    char text[8192];
    const char *key = g->v2 ? "inactive_file " : "total_inactive_file ";
    if (!group_file(sysroot, g, "memory.stat", text, sizeof text))
        return 0;
    for (const char *line = text; line && *line; line = strchr(line, '\n'), line += line != NULL)
        if (strncmp(line, key, strlen(key)) == 0)
            return strtoull(line + strlen(key), NULL, 10);
    return 0;
}

/* "some avg10=0.64 avg60=..." of this group alone: those above it include other people's work. */
static double memory_pressure(const char *sysroot, const group_dir *g) {
    char text[256];
    double percent;
    if (!group_file(sysroot, g, "memory.pressure", text, sizeof text))
        return NAN;
    const char *p = strstr(text, "some avg10=");
    return p && as_sysfile_decimal(p + strlen("some avg10="), NULL, &percent) ? percent : NAN;
}

static void read_memory(const char *sysroot, as_cgroup *out) {
    group_dir g;
    if (!find_controller(sysroot, "memory", &g))
        return;
    out->memory_known = true; /* a v2 root has no memory.max: no limit */
    out->memory_pressure = memory_pressure(sysroot, &g);
    do {
        uint64_t limit, used = 0;
        if (!group_uint(sysroot, &g, g.v2 ? "memory.max" : "memory.limit_in_bytes", &limit))
            continue;
        if (limit >= (uint64_t)INT64_MAX / 2) /* v1 writes "none" as the largest page-aligned number */
            continue;
        group_uint(sysroot, &g, g.v2 ? "memory.current" : "memory.usage_in_bytes", &used);
        uint64_t cache = reclaimable(sysroot, &g);
        used = used > cache ? used - cache : 0;
        uint64_t left = limit > used ? limit - used : 0;
        if (out->memory_limit_bytes == 0 || limit < out->memory_limit_bytes)
            out->memory_limit_bytes = limit;
        if (left < out->memory_free_bytes)
            out->memory_free_bytes = left;
    } while (parent(&g));
}

/* A number of cpu.stat, "name value" a line; false if it is not there. */
static bool stat_number(const char *text, const char *name, uint64_t *out) {
    const size_t n = strlen(name);
    for (const char *line = text; line && *line; line = strchr(line, '\n'), line += line != NULL)
        if (strncmp(line, name, n) == 0 && line[n] == ' ') {
            *out = strtoull(line + n, NULL, 10);
            return true;
        }
    return false;
}

static void read_throttling(const char *sysroot, const group_dir *g, as_cgroup *out) {
    char text[1024];
    uint64_t periods = 0, time = 0;
    if (!group_file(sysroot, g, "cpu.stat", text, sizeof text) || !stat_number(text, "nr_throttled", &periods))
        return;
    const bool v2 = stat_number(text, "throttled_usec", &time);
    if (!v2)
        (void)stat_number(text, "throttled_time", &time); /* ns */
    out->throttle_known = true;
    if (periods >= out->throttled_periods) {
        out->throttled_periods = periods;
        out->throttled_s = (double)time * (v2 ? 1e-6 : 1e-9);
    }
}

static void read_quota(const char *sysroot, as_cgroup *out) {
    group_dir g;
    if (!find_controller(sysroot, "cpu", &g))
        return;
    out->cpu_known = true; /* a v2 root has no cpu.max: no limit */
    do {
        uint64_t quota = 0, period = 0;
        char text[64];
        read_throttling(sysroot, &g, out);
        if (g.v2) {
            char *end;
            if (!group_file(sysroot, &g, "cpu.max", text, sizeof text)) /* "max 100000" or "150000 100000" */
                continue;
            quota = strtoull(text, &end, 10);
            period = strtoull(end, NULL, 10);
        } else if (!group_uint(sysroot, &g, "cpu.cfs_quota_us", &quota) || /* "-1": none */
                   !group_uint(sysroot, &g, "cpu.cfs_period_us", &period)) {
            continue;
        }
        if (quota == 0 || period == 0)
            continue;
        double cpus = (double)quota / (double)period;
        if (out->cpu_quota <= 0 || cpus < out->cpu_quota)
            out->cpu_quota = cpus;
    } while (parent(&g));
}

static void read_cpuset(const char *sysroot, as_cgroup *out) {
    group_dir g;
    if (find_controller(sysroot, "cpuset", &g))
        do {
            if (group_file(sysroot, &g, g.v2 ? "cpuset.cpus.effective" : "cpuset.effective_cpus", out->cpuset,
                           sizeof out->cpuset) ||
                group_file(sysroot, &g, "cpuset.cpus", out->cpuset, sizeof out->cpuset))
                return;
        } while (parent(&g));
    as_sysfile_read(sysroot, "/sys/devices/system/cpu/online", out->cpuset, sizeof out->cpuset);
}

void as_cgroup_read(const char *sysroot, as_cgroup *out) {
    memset(out, 0, sizeof *out);
    out->memory_free_bytes = UINT64_MAX;
    out->memory_pressure = NAN;
    read_memory(sysroot, out);
    read_quota(sysroot, out);
    read_cpuset(sysroot, out);
}

int64_t as_cgroup_oom_kills(const char *sysroot) {
    group_dir g;
    char text[1024];
    if (!find_controller(sysroot, "memory", &g) ||
        !group_file(sysroot, &g, g.v2 ? "memory.events" : "memory.oom_control", text, sizeof text))
        return -1;
    const char *at = strstr(text, "oom_kill "); /* "oom_kill_disable 0" stands before it in v1 */
    return at && (at == text || at[-1] == '\n') ? strtoll(at + strlen("oom_kill "), NULL, 10) : -1;
}
