/* Memory of another NUMA node, by the kernel's own calls: no library of policies is needed for one range. */
#include "memcpy.h"

#include "../../harness/place.h"

#include <ctype.h>
#include <errno.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_NODES = 1024, MOST_FOUND = 64, LONG_BITS = 8 * sizeof(unsigned long) };

static bool read_line(const char *path, char *line, int size) {
    FILE *f = fopen(path, "re");
    const bool read = f && fgets(line, size, f);
    if (f)
        fclose(f);
    return read;
}

/* The nodes of a list such as "0-1,3": those online, or those with memory. */
static int nodes_of(const char *path, int *node, int most) {
    char line[4096], *at = line;
    int found = 0;
    if (!read_line(path, line, sizeof line))
        return 0;
    while (isdigit((unsigned char)*at)) {
        long first = strtol(at, &at, 10), last = first;
        if (*at == '-')
            last = strtol(at + 1, &at, 10);
        for (long n = first; n <= last && n < MOST_NODES && found < most; n++)
            node[found++] = (int)n;
        at += *at == ',';
    }
    return found;
}

/* The firmware's relative distance of node `to` from node `from`; -1 if unknown. Line: one number an online node. */
static long distance(int from, int to) {
    char path[96], line[8192], *at = line;
    int node[MOST_FOUND];
    const int nodes = nodes_of("/sys/devices/system/node/online", node, MOST_FOUND);
    snprintf(path, sizeof path, "/sys/devices/system/node/node%d/distance", from);
    if (!read_line(path, line, sizeof line))
        return -1;
    for (int i = 0; i < nodes; i++) {
        const long d = strtol(at, &at, 10);
        if (node[i] == to)
            return d;
    }
    return -1;
}

static int near_node(const as_placement *place) {
    unsigned cpu = 0, node = 0;
    if (place && place->numa_node >= 0)
        return place->numa_node;
    return syscall(SYS_getcpu, &cpu, &node, NULL) == 0 ? (int)node : -1;
}

static as_status far_node(const as_placement *place, int *out, as_error *e) {
    int node[MOST_FOUND];
    const int nodes = nodes_of("/sys/devices/system/node/has_memory", node, MOST_FOUND), near = near_node(place);
    long most = -2;
    *out = -1;
    for (int i = 0; i < nodes; i++) {
        const long d = distance(near, node[i]);
        if (node[i] == near || d <= most)
            continue;
        most = d;
        *out = node[i];
    }
    if (*out < 0)
        return as_fail(e, AS_EABSENT, "node:far needs a second NUMA node with memory; this machine shows %d", nodes);
    return AS_OK;
}

/* The node of a page is asked for, not trusted: a cpuset may forbid the move. */
static as_status expect_node(void *page, int node, as_error *e) {
    int status = -1;
    if (syscall(SYS_move_pages, 0, 1UL, &page, NULL, &status, 0) != 0)
        return as_fail_code(e, AS_EABSENT, errno, "node:far cannot be checked: the node of a page is hidden (%s)",
                            strerror(errno));
    if (status != node)
        return as_fail(e, AS_EABSENT, "node:far: a page stayed on node %d: allow node %d to this process (cpuset.mems)",
                       status, node);
    return AS_OK;
}

as_status as_memcpy_move_far(void *p, size_t bytes, const as_placement *place, as_error *e) {
    unsigned long mask[MOST_NODES / LONG_BITS] = {0};
    int node;
    AS_TRY(far_node(place, &node, e));
    mask[node / LONG_BITS] = 1UL << (node % LONG_BITS);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *begin = (unsigned char *)((uintptr_t)p / page * page);
    const size_t length = ((size_t)((unsigned char *)p - begin) + bytes + page - 1) / page * page;
    if (syscall(SYS_mbind, begin, length, MPOL_BIND, mask, (unsigned long)MOST_NODES, MPOL_MF_MOVE) != 0)
        return as_fail_code(e, AS_EABSENT, errno,
                            "memory cannot be moved to node %d: %s; a container needs CAP_SYS_NICE", node,
                            strerror(errno));
    volatile unsigned char *byte = p;
    for (size_t i = 0; i < bytes; i += page) /* an output may have no pages yet */
        byte[i] = byte[i];
    byte[bytes - 1] = byte[bytes - 1];
    AS_TRY(expect_node(begin, node, e));
    return expect_node(begin + length - page, node, e);
}
