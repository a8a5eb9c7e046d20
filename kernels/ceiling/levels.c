#include "levels.h"

#include "../../harness/place.h"

#include <string.h>

static const char *const names[] = {"l1", "l2", "l3", "dram"};

as_level as_level_parse(const char *text) {
    for (int i = 0; i < AS_LEVEL_UNKNOWN; i++)
        if (strcmp(text, names[i]) == 0)
            return (as_level)i;
    return AS_LEVEL_UNKNOWN;
}

const char *as_level_name(as_level level) { return names[level]; }

static int at_least_one(int n) { return n > 1 ? n : 1; }

/* Cores that share a cache which `threads` hardware threads share. */
static int cores_of(const as_topology_info *t, int threads) {
    int per_core = at_least_one(t->hardware_threads / at_least_one(t->cores));
    return at_least_one(threads / per_core);
}

static void from_topology(const as_topology_info *t, as_levels *l) {
    l->cores = at_least_one(t->cores);
    l->l1_bytes = t->l1d_bytes ? (int64_t)t->l1d_bytes / cores_of(t, t->l1d_shared_by) : 32 << 10;
    l->l2_bytes = t->l2_bytes ? (int64_t)t->l2_bytes / cores_of(t, t->l2_shared_by) : 512 << 10;
    l->l3_bytes = (int64_t)t->l3_bytes;
    l->l3_cores = cores_of(t, t->l3_shared_by);
    l->l3_instances = at_least_one((l->cores + l->l3_cores - 1) / l->l3_cores);
    size_t memory = t->memory_limit_bytes ? t->memory_limit_bytes : t->memory_bytes;
    l->memory_bytes = memory ? (int64_t)memory : (int64_t)4 << 30;
}

as_status as_levels_read(as_levels *out, as_error *e) {
    static as_levels kept;
    static bool known; /* describe runs for every case; discovery costs milliseconds */
    if (!known) {
        as_topology_info t;
        AS_TRY(as_topology_read(&t, e));
        from_topology(&t, &kept);
        known = true;
    }
    *out = kept;
    return AS_OK;
}

as_level as_level_serving(const as_levels *l, int64_t working_set_bytes, int64_t threads, bool cold) {
    if (cold)
        return AS_LEVEL_DRAM;
    if (threads < 1)
        threads = l->cores;
    double share = (double)working_set_bytes / (double)threads;
    if (share <= 1.5 * (double)l->l1_bytes)
        return AS_LEVEL_L1;
    if (share <= (l->l3_bytes ? 1.5 : 4) * (double)l->l2_bytes)
        return AS_LEVEL_L2;
    int64_t instances = threads <= l->l3_cores ? 1 : l->l3_instances;
    if (l->l3_bytes && (double)working_set_bytes <= 4.0 * (double)(l->l3_bytes * instances))
        return AS_LEVEL_L3;
    return AS_LEVEL_DRAM;
}
