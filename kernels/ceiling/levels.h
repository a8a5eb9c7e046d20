/* Sizes of the host's caches and memory as ceilings see them: per thread where each core has its own. */
#pragma once

#include "../../harness/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum as_level { AS_LEVEL_L1, AS_LEVEL_L2, AS_LEVEL_L3, AS_LEVEL_DRAM, AS_LEVEL_UNKNOWN } as_level;

typedef struct as_levels {
    int64_t l1_bytes, l2_bytes; /* of one core */
    int64_t l3_bytes;           /* of one instance; 0 where there is none or it is hidden */
    int l3_instances;           /* >= 1 */
    int l3_cores;               /* cores that share one instance, >= 1 */
    int cores;
    int64_t memory_bytes; /* limit of machine and cgroup */
} as_levels;

/* From the topology, read once a process. What is hidden is taken as 32 KiB, 512 KiB, none, 4 GiB. */
as_status as_levels_read(as_levels *out, as_error *e) AS_MUST_CHECK;

as_level as_level_parse(const char *text); /* "l1", "l2", "l3", "dram" */
const char *as_level_name(as_level level);

/* The level that serves a working set shared out over `threads` threads (-1: all cores): a core's own cache up to
 * 1.5 times its capacity for each thread's share, the last cache up to 4 times, else dram. The factors are on the
 * generous side: a set a little larger than a cache still gets part of its bytes from it, and a ceiling that is too
 * high only lowers the percentage, while one too low would call a correct result impossible. */
as_level as_level_serving(const as_levels *l, int64_t working_set_bytes, int64_t threads, bool cold);
