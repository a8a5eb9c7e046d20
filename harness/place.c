#include "place.h"
#include "place_internal.h"

#include <ctype.h>
#include <errno.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LARGEST_CPU = 999999, MAX_NODES = 1024 };

static void warn(as_placement *p, const char *fmt, ...) AS_PRINTF(2, 3);

static void warn(as_placement *p, const char *fmt, ...) {
    if (p->warnings == AS_MAX_WARNINGS)
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(p->warning[p->warnings], sizeof p->warning[0], fmt, ap);
    va_end(ap);
    p->warnings++;
}

/* ---- lists ---- */

static bool parse_cpu(const char **p, long *out) {
    char *end;
    if (!isdigit((unsigned char)**p))
        return false;
    errno = 0;
    *out = strtol(*p, &end, 10);
    *p = end;
    return errno == 0 && *out <= LARGEST_CPU;
}

as_status as_place_parse(const char *list, hwloc_bitmap_t out, as_error *e) {
    const char *p = list;
    hwloc_bitmap_zero(out);
    for (;;) {
        long low, high;
        if (!parse_cpu(&p, &low))
            break;
        high = low;
        if (*p == '-') {
            p++;
            if (!parse_cpu(&p, &high) || high < low)
                break;
        }
        for (long cpu = low; cpu <= high; cpu++) {
            if (hwloc_bitmap_isset(out, (unsigned)cpu))
                return as_fail(e, AS_EUSAGE, "CPU list '%s' names CPU %ld twice", list, cpu);
            hwloc_bitmap_set(out, (unsigned)cpu);
        }
        if (*p == '\0')
            return AS_OK;
        if (*p++ != ',')
            break;
    }
    return as_fail(e, AS_EUSAGE, "'%s' is no CPU list: write numbers and ranges such as 0-3,8", list);
}

/* ---- choosing ---- */

/* CPUs near the PCI device, within `from`; a reason to ignore the wish becomes a warning and `from` stays. */
static void narrow_to_pci(hwloc_topology_t t, const char *pci, hwloc_bitmap_t from, as_placement *out) {
    if (!t || hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_NUMANODE) < 2)
        return; /* every CPU is equally near */
    hwloc_obj_t device = hwloc_get_pcidev_by_busidstring(t, pci);
    if (!device) {
        warn(out,
             "PCI device %s is not visible (sysfs hidden?): CPUs were not chosen near it, transfers may cross NUMA "
             "nodes",
             pci);
        return;
    }
    hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(t, device);
    if (!near->cpuset || hwloc_bitmap_isequal(near->cpuset, hwloc_topology_get_topology_cpuset(t))) {
        warn(out,
             "the NUMA node of PCI device %s is unknown (-1): CPUs were not chosen near it, transfers may cross "
             "NUMA nodes",
             pci);
        return;
    }
    if (!hwloc_bitmap_intersects(near->cpuset, from)) {
        warn(out, "no allowed CPU is near PCI device %s: transfers cross NUMA nodes", pci);
        return;
    }
    hwloc_bitmap_and(from, from, near->cpuset);
}

/* Rank of a PU among the chosen PUs of its core: 0 first. A PU without a known core is alone in its own. */
static int rank_in_core(hwloc_topology_t t, hwloc_obj_t pu, hwloc_const_bitmap_t chosen) {
    int rank = 0;
    hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(t, HWLOC_OBJ_CORE, pu);
    if (!core)
        return 0;
    for (hwloc_obj_t other = pu; (other = other->prev_cousin) && hwloc_bitmap_isset(core->cpuset, other->os_index);)
        rank += hwloc_bitmap_isset(chosen, other->os_index);
    return rank;
}

static bool append(as_placement *out, int cpu) {
    if (out->cpus == AS_MAX_CPUS)
        return false;
    out->cpu[out->cpus++] = cpu;
    return true;
}

/* Fills out->cpu: first threads of each core in topology order (near ones stand together), then second threads. */
static void order(hwloc_topology_t t, hwloc_const_bitmap_t chosen, as_placement *out) {
    int wanted = hwloc_bitmap_weight(chosen);
    if (t)
        for (int rank = 0, found = 1; found; rank++) {
            found = 0;
            for (hwloc_obj_t pu = NULL; (pu = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_PU, pu));)
                if (hwloc_bitmap_isset(chosen, pu->os_index) && rank_in_core(t, pu, chosen) == rank) {
                    found = 1;
                    append(out, (int)pu->os_index);
                }
            if (rank == 0)
                out->cores = out->cpus;
        }
    if (out->cpus == 0) { /* nothing known: each CPU counts as a core */
        unsigned cpu;
        hwloc_bitmap_foreach_begin(cpu, chosen) append(out, (int)cpu);
        hwloc_bitmap_foreach_end();
        out->cores = out->cpus;
    }
    if (out->cpus < wanted)
        warn(out, "%d of %d CPUs are used: %s", out->cpus, wanted,
             out->cpus == AS_MAX_CPUS ? "more are not supported" : "the topology does not list the others");
}

/* The one NUMA node that all chosen CPUs belong to, else -1. */
static int common_node(hwloc_topology_t t, hwloc_const_bitmap_t chosen, int *nodes) {
    int node = -1;
    *nodes = 0;
    if (!t)
        return -1;
    for (hwloc_obj_t n = NULL; (n = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_NUMANODE, n));)
        if (n->cpuset && hwloc_bitmap_intersects(n->cpuset, chosen)) {
            node = (int)n->os_index;
            ++*nodes;
        }
    return *nodes == 1 ? node : -1;
}

static void explain(hwloc_topology_t t, hwloc_const_bitmap_t chosen, as_placement *out) {
    int nodes;
    out->numa_node = common_node(t, chosen, &nodes);
    if (nodes > 1)
        warn(out, "the CPUs span %d NUMA nodes: memory lies on the node of the thread that touches it first", nodes);
    if (!t || hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_CORE) <= 0)
        warn(out, "the core topology is hidden: hardware threads count as cores, so threads=all may share cores");
    if (t && !hwloc_topology_is_thissystem(t))
        warn(out, "the topology is a recorded one, not this machine's: cores and nodes may be wrong");
}

static as_status choose(hwloc_topology_t t, hwloc_const_bitmap_t allowed, const as_place_request *req,
                        hwloc_bitmap_t chosen, as_placement *out, as_error *e) {
    if (!req || !req->cpus) {
        hwloc_bitmap_copy(chosen, allowed);
        if (req && req->near_pci)
            narrow_to_pci(t, req->near_pci, chosen, out);
        return AS_OK;
    }
    out->chosen_by_user = true;
    AS_TRY(as_place_parse(req->cpus, chosen, e));
    if (hwloc_bitmap_isincluded(chosen, allowed))
        return AS_OK;
    char names[256];
    hwloc_bitmap_list_snprintf(names, sizeof names, allowed);
    return as_fail(e, AS_EENV, "CPU list '%s' is outside what this process may use: %s (taskset or a cgroup cpuset)",
                   req->cpus, names);
}

as_status as_place_resolve_in(hwloc_topology_t t, hwloc_const_bitmap_t allowed, const as_place_request *req,
                              as_placement *out, as_error *e) {
    memset(out, 0, sizeof *out);
    out->numa_node = -1;
    hwloc_bitmap_t usable = hwloc_bitmap_dup(allowed), chosen = hwloc_bitmap_alloc();
    as_status s = AS_OK;
    if (!usable || !chosen) {
        s = as_fail(e, AS_ENOMEM, "no memory for a CPU set");
        goto out;
    }
    if (t && hwloc_bitmap_intersects(usable, hwloc_topology_get_allowed_cpuset(t)))
        hwloc_bitmap_and(usable, usable, hwloc_topology_get_allowed_cpuset(t));
    if (hwloc_bitmap_iszero(usable)) {
        s = as_fail(e, AS_EENV, "this process may use no CPU");
        goto out;
    }
    s = choose(t, usable, req, chosen, out, e);
    if (s == AS_OK) {
        order(t, chosen, out);
        explain(t, chosen, out);
    }
out:
    hwloc_bitmap_free(chosen);
    hwloc_bitmap_free(usable);
    return s;
}

static void warn_of_limits(hwloc_topology_t t, as_placement *out) {
    as_cgroup group;
    as_cgroup_read("", &group);
    if (group.cpu_quota > 0 && group.cpu_quota < out->cores) {
        long hundredths = (long)(group.cpu_quota * 100 + 0.5); /* integers: %f would follow the locale */
        warn(out, "the cgroup grants %ld.%02ld CPUs for %d cores: busy threads will be paused by the kernel",
             hundredths / 100, hundredths % 100, out->cores);
    }
    int mode;
    if (t && hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_NUMANODE) > 1 &&
        syscall(SYS_get_mempolicy, &mode, NULL, 0UL, NULL, 0UL) != 0)
        warn(out, "the memory policy may not be set here (seccomp?): memory lies where it is touched first");
}

as_status as_place_resolve(const as_place_request *req, as_placement *out, as_error *e) {
    hwloc_topology_t t = NULL;
    as_error ignored;
    hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
    if (!allowed)
        return as_fail(e, AS_ENOMEM, "no memory for a CPU set");
    if (as_topology_load(&t, req && req->near_pci, false, &ignored) != AS_OK)
        t = NULL; /* recorded by the warning about the hidden core topology */
    as_status s = as_place_allowed(allowed, e);
    if (s == AS_OK)
        s = as_place_resolve_in(t, allowed, req, out, e);
    if (s == AS_OK)
        warn_of_limits(t, out);
    if (t)
        hwloc_topology_destroy(t);
    hwloc_bitmap_free(allowed);
    return s;
}
