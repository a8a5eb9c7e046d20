/* Placement through hwloc: which CPUs, which NUMA node; binding and reading back what took effect. */
#pragma once

#include "status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_t;

enum { AS_MAX_CPUS = 1024, AS_MAX_WARNINGS = 8 };

/* What the user asked for. */
typedef struct as_place_request {
    const char *cpus;     /* list such as "0-3,8"; NULL: choose */
    const char *near_pci; /* "0000:65:00.0": prefer the NUMA node of this device; NULL: no preference */
} as_place_request;

/* What the plan decided. CPUs are OS indices, one hardware thread per core first, then siblings. */
typedef struct as_placement {
    int cpus;
    int cpu[AS_MAX_CPUS];
    int cores;     /* how many of them are distinct cores: threads=all uses these */
    int numa_node; /* OS index; -1 if unknown or irrelevant */
    bool chosen_by_user;
    int warnings;
    char warning[AS_MAX_WARNINGS][200];
} as_placement;

/* Data caches and memory as this process may use them. Sizes in bytes, 0 if unknown. */
typedef struct as_topology_info {
    size_t l1d_bytes, l2_bytes, l3_bytes;
    int l1d_shared_by, l2_shared_by, l3_shared_by; /* hardware threads that share one instance */
    int packages, cores, hardware_threads, numa_nodes;
    size_t memory_bytes;       /* of the machine */
    size_t memory_limit_bytes; /* the smaller of the machine's and the cgroup's limit */
    double cpu_quota;          /* cgroup CPU bandwidth in CPUs; 0 = no limit */
} as_topology_info;

/* AS_EUSAGE for a malformed list; AS_EENV for CPUs outside the allowed set, naming the allowed ones.
 * Hidden sysfs or a container's cpuset degrade to a recorded warning. */
as_status as_place_resolve(const as_place_request *req, as_placement *out, as_error *e) AS_MUST_CHECK;
as_status as_topology_read(as_topology_info *out, as_error *e) AS_MUST_CHECK;
/* Binds the calling thread to the k-th CPU of the placement; memory policy to its node where there is one. */
as_status as_place_bind(const as_placement *p, int k, as_error *e) AS_MUST_CHECK;
/* Binds the whole process (all current threads) to the placement's CPUs. */
as_status as_place_bind_process(const as_placement *p, as_error *e) AS_MUST_CHECK;
/* True if the calling thread may run on the k-th CPU only, and does. */
bool as_place_holds(const as_placement *p, int k);
/* New object: asked, cpus, numa_node, what was read back. */
struct json_t *as_place_json(const as_placement *p);

/* Processes of this process's cgroup that the kernel has killed for want of memory; -1 where it does not tell. */
int64_t as_cgroup_oom_kills(const char *sysroot);
