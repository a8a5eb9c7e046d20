#include "place_internal.h"
#include "sysfile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

as_status as_topology_load(hwloc_topology_t *out, bool io, bool whole, as_error *e) {
    /* Left out: plugins that would initialise an accelerator's or a display's driver in this process. */
    static const char *const unwanted[] = {"cuda", "nvml", "opencl", "rsmi", "levelzero", "gl"};
    hwloc_topology_t t;
    if (hwloc_topology_init(&t) != 0)
        return as_fail(e, AS_ENOMEM, "hwloc cannot start");
    for (size_t i = 0; i < sizeof unwanted / sizeof unwanted[0]; i++)
        hwloc_topology_set_components(t, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, unwanted[i]);
    if (io)
        hwloc_topology_set_type_filter(t, HWLOC_OBJ_PCI_DEVICE, HWLOC_TYPE_FILTER_KEEP_ALL);
    if (whole)
        hwloc_topology_set_flags(t, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    if (hwloc_topology_load(t) != 0) {
        hwloc_topology_destroy(t);
        return as_fail(e, AS_EENV, "hwloc cannot read the topology of this machine");
    }
    *out = t;
    return AS_OK;
}

/* ---- caches: hwloc, then sysfs, then sysconf ---- */

typedef struct cache_slot {
    int level;
    size_t *bytes;
    int *shared_by;
} cache_slot;

static void hwloc_cache(hwloc_topology_t t, const cache_slot *slot) {
    int depth = hwloc_get_cache_type_depth(t, (unsigned)slot->level, HWLOC_OBJ_CACHE_DATA); /* matches unified too */
    hwloc_obj_t cache = depth >= 0 ? hwloc_get_obj_by_depth(t, depth, 0) : NULL;
    if (!cache || !cache->attr->cache.size)
        return;
    *slot->bytes = (size_t)cache->attr->cache.size;
    /* The complete set: a cpuset hides sharers from us, they still use the cache. */
    *slot->shared_by = hwloc_bitmap_weight(cache->complete_cpuset ? cache->complete_cpuset : cache->cpuset);
}

/* "32K", "32768K", "1M" to bytes; 0 if malformed. */
static size_t cache_bytes(const char *text) {
    char *end;
    unsigned long long n = strtoull(text, &end, 10);
    if (end == text)
        return 0;
    return (size_t)(*end == 'K' ? n << 10 : *end == 'M' ? n << 20 : n);
}

static void sysfs_cache(const char *sysroot, const cache_slot *slot) {
    for (int index = 0; index < 8; index++) {
        char path[128], text[128];
        uint64_t level;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/level", index);
        if (!as_sysfile_uint(sysroot, path, &level) || (int)level != slot->level)
            continue;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/type", index);
        if (as_sysfile_read(sysroot, path, text, sizeof text) && strcmp(text, "Instruction") == 0)
            continue;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
        if (as_sysfile_read(sysroot, path, text, sizeof text))
            *slot->bytes = cache_bytes(text);
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/shared_cpu_list", index);
        if (as_sysfile_read(sysroot, path, text, sizeof text))
            *slot->shared_by = as_sysfile_list_count(text, NULL);
        return;
    }
}

static void sysconf_cache(const cache_slot *slot) {
    static const int names[] = {0, _SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
    long n = sysconf(names[slot->level]);
    if (n > 0)
        *slot->bytes = (size_t)n;
}

static void fill_caches(hwloc_topology_t t, const char *sysroot, as_topology_info *out) {
    const cache_slot slots[] = {{1, &out->l1d_bytes, &out->l1d_shared_by},
                                {2, &out->l2_bytes, &out->l2_shared_by},
                                {3, &out->l3_bytes, &out->l3_shared_by}};
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++) {
        if (t)
            hwloc_cache(t, &slots[i]);
        if (*slots[i].bytes == 0)
            sysfs_cache(sysroot, &slots[i]);
        if (*slots[i].bytes == 0 && sysroot[0] == '\0')
            sysconf_cache(&slots[i]);
    }
}

/* ---- counts ---- */

enum { SYSFS_CPUS = 1024 };

static int compare_int64(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int distinct(int64_t *values, int n) {
    int found = n > 0;
    qsort(values, (size_t)n, sizeof *values, compare_int64);
    for (int i = 1; i < n; i++)
        found += values[i] != values[i - 1];
    return found;
}

static void sysfs_counts(const char *sysroot, as_topology_info *out) {
    int64_t package[SYSFS_CPUS], core[SYSFS_CPUS];
    char list[256];
    int known = 0;
    for (int cpu = 0; cpu < SYSFS_CPUS; cpu++) {
        char path[128];
        uint64_t p, c;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/physical_package_id", cpu);
        if (!as_sysfile_uint(sysroot, path, &p))
            continue;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/core_id", cpu);
        if (!as_sysfile_uint(sysroot, path, &c))
            continue;
        package[known] = (int64_t)p;
        core[known++] = (int64_t)(p << 32 | c);
    }
    if (as_sysfile_read(sysroot, "/sys/devices/system/cpu/online", list, sizeof list))
        out->hardware_threads = as_sysfile_list_count(list, NULL);
    if (as_sysfile_read(sysroot, "/sys/devices/system/node/online", list, sizeof list) && out->numa_nodes == 0)
        out->numa_nodes = as_sysfile_list_count(list, NULL);
    if (out->hardware_threads == 0)
        out->hardware_threads = known;
    out->packages = distinct(package, known);
    out->cores = distinct(core, known);
}

static void fill_counts(hwloc_topology_t t, const char *sysroot, as_topology_info *out) {
    if (t) {
        out->packages = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PACKAGE);
        out->cores = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_CORE);
        out->hardware_threads = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PU);
        out->numa_nodes = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_NUMANODE);
    } else {
        sysfs_counts(sysroot, out);
    }
    if (out->hardware_threads <= 0)
        out->hardware_threads = sysroot[0] == '\0' ? (int)sysconf(_SC_NPROCESSORS_ONLN) : 1;
    if (out->cores <= 0)
        out->cores = out->hardware_threads;
    if (out->packages <= 0)
        out->packages = 1;
    if (out->numa_nodes <= 0)
        out->numa_nodes = 1;
}

void as_topology_fill(hwloc_topology_t t, const char *sysroot, as_topology_info *out) {
    as_cgroup group;
    memset(out, 0, sizeof *out);
    fill_counts(t, sysroot, out);
    fill_caches(t, sysroot, out);
    out->memory_bytes = as_sysfile_meminfo_bytes(sysroot, "MemTotal");
    if (out->memory_bytes == 0 && sysroot[0] == '\0')
        out->memory_bytes = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    as_cgroup_read(sysroot, &group);
    out->memory_limit_bytes = out->memory_bytes;
    if (group.memory_limit_bytes && (out->memory_bytes == 0 || group.memory_limit_bytes < out->memory_bytes))
        out->memory_limit_bytes = (size_t)group.memory_limit_bytes;
    out->cpu_quota = group.cpu_quota;
}

as_status as_topology_read(as_topology_info *out, as_error *e) {
    hwloc_topology_t t = NULL;
    if (as_topology_load(&t, false, false, e) != AS_OK)
        t = NULL; /* sysfs and sysconf tell the essentials too */
    as_topology_fill(t, "", out);
    if (t)
        hwloc_topology_destroy(t);
    return AS_OK;
}
