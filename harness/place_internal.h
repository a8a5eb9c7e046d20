/* Internal to the machine side of the harness: the same functions on a topology or a file tree that a test brings. */
#pragma once

#include "place.h"
#include "status.h"

#include <hwloc.h>
#include <stdint.h>

/* Loads this machine's topology without any plugin that would wake an accelerator's driver.
 * `io`: PCI devices too (slower). `whole`: also CPUs that a cgroup cpuset forbids. Destroyed by the caller. */
as_status as_topology_load(hwloc_topology_t *out, bool io, bool whole, as_error *e) AS_MUST_CHECK;

/* Counts and caches from `t` (NULL: none), what it lacks from sysfs below `sysroot`, and on the real root from
 * sysconf. Memory and limits from /proc and the cgroup. */
void as_topology_fill(hwloc_topology_t t, const char *sysroot, as_topology_info *out);

/* CPUs that the calling thread may run on. */
as_status as_place_allowed(hwloc_bitmap_t out, as_error *e) AS_MUST_CHECK;
/* "0-3,8" to a set. AS_EUSAGE for anything else: empty, blanks, signs, a falling range, a CPU named twice. */
as_status as_place_parse(const char *list, hwloc_bitmap_t out, as_error *e) AS_MUST_CHECK;
/* as_place_resolve on a given topology (NULL: unknown) and a given allowed set. `out` is zeroed first. */
as_status as_place_resolve_in(hwloc_topology_t t, hwloc_const_bitmap_t allowed, const as_place_request *req,
                              as_placement *out, as_error *e) AS_MUST_CHECK;

/* Limits of this process's cgroup, v2 or v1: the tightest on the way up to the root of what is mounted. */
typedef struct as_cgroup {
    uint64_t memory_limit_bytes;  /* 0: none */
    uint64_t memory_free_bytes;   /* left below the tightest limit, page cache counted as free; UINT64_MAX: no limit */
    double cpu_quota;             /* in CPUs; 0: none */
    char cpuset[256];             /* CPUs of the cgroup, else those online; "" if unknown */
    bool cpu_known, memory_known; /* that controller is there */
    bool throttle_known;          /* cpu.stat could be read; then since the group was made, of the group and those */
    uint64_t throttled_periods;   /* above it, the most: periods in which it was paused, */
    double throttled_s;           /* and for how long */
    double memory_pressure;       /* percent of the last 10 s in which some task waited for memory; NaN unknown */
} as_cgroup;

void as_cgroup_read(const char *sysroot, as_cgroup *out);
