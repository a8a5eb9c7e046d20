/* The host as a device: work runs to completion in the caller, so streams are NULL and there are no graphs. */
#include "device.h"
#include "environment.h"
#include "environment_internal.h"
#include "place_internal.h"
#include "sysfile.h"
#include "telemetry.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Kept free: page tables, stacks and libraries of this process, so that touching a block never gets it killed. */
#define RESERVE_BYTES ((size_t)32 << 20)
#define HUGE_BYTES ((size_t)2 << 20)

typedef struct block {
    void *start;
    size_t bytes;
} block;

typedef struct cpu_device {
    as_topology_info topology;
    size_t page_bytes;
    block *blocks; /* what alloc gave out: munmap wants the size */
    size_t used, room;
} cpu_device;

typedef struct cpu_event {
    int64_t ns; /* -1: never recorded */
} cpu_event;

static as_status cpu_count(int *n, char reason[256], as_error *e) {
    (void)e;
    *n = 1;
    reason[0] = '\0';
    return AS_OK;
}

static as_status cpu_open(int index, as_device *out, as_error *e) {
    memset(out, 0, sizeof *out);
    if (index != 0)
        return as_fail(e, AS_EABSENT, "there is one cpu device, not number %d", index);
    cpu_device *c = calloc(1, sizeof *c);
    if (!c)
        return as_fail(e, AS_ENOMEM, "no memory for the cpu device");
    as_status s = as_topology_read(&c->topology, e);
    if (s != AS_OK) {
        free(c);
        return s;
    }
    c->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    out->driver = &as_cpu_driver;
    snprintf(out->name, sizeof out->name, "cpu");
    const as_topology_info *t = &c->topology;
    out->last_level_cache_bytes = t->l3_bytes ? t->l3_bytes : t->l2_bytes ? t->l2_bytes : t->l1d_bytes;
    out->impl = c;
    return AS_OK;
}

static void cpu_close(as_device *d) {
    cpu_device *c = d->impl;
    if (!c)
        return;
    for (size_t i = 0; i < c->used; i++)
        munmap(c->blocks[i].start, c->blocks[i].bytes);
    free(c->blocks);
    free(c);
    memset(d, 0, sizeof *d);
}

static json_t *cpu_describe(as_device *d) {
    const as_topology_info *t = &((cpu_device *)d->impl)->topology;
    char model[160];
    as_environment_cpu_model("", model, sizeof model);
    return json_pack("{s:s, s:s, s:s, s:i, s:i, s:I, s:I, s:I, s:I}", "name", d->name, "kind", d->driver->kind, "model",
                     model, "cores", t->cores, "hardware_threads", t->hardware_threads, "memory_bytes",
                     (json_int_t)t->memory_limit_bytes, "l1d_bytes", (json_int_t)t->l1d_bytes, "l2_bytes",
                     (json_int_t)t->l2_bytes, "l3_bytes", (json_int_t)t->l3_bytes);
}

/* Free: what the kernel can hand out without swapping, and what the cgroup still allows. */
static as_status cpu_memory(as_device *d, size_t *free_bytes, size_t *total_bytes, as_error *e) {
    as_cgroup group;
    *total_bytes = ((cpu_device *)d->impl)->topology.memory_limit_bytes;
    uint64_t available = as_sysfile_meminfo_bytes("", "MemAvailable");
    if (available == 0)
        available = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * ((cpu_device *)d->impl)->page_bytes;
    if (available == 0)
        return as_fail(e, AS_EENV, "neither /proc/meminfo nor sysconf tells how much memory is free");
    as_cgroup_read("", &group);
    *free_bytes = (size_t)(available < group.memory_free_bytes ? available : group.memory_free_bytes);
    return AS_OK;
}

static as_status reserve_block(cpu_device *c, as_error *e) {
    if (c->used < c->room)
        return AS_OK;
    size_t room = c->room ? 2 * c->room : 64;
    block *blocks = realloc(c->blocks, room * sizeof *blocks);
    if (!blocks)
        return as_fail(e, AS_ENOMEM, "no memory for the list of blocks");
    c->blocks = blocks;
    c->room = room;
    return AS_OK;
}

static void *map(size_t bytes, int flags) {
    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

/* Reserved huge pages; where there are too few, a range at a huge page's boundary with the advice to use them. What
 * took effect is for the reader of /proc/self/smaps. *mapped: bytes from the returned start. */
static void *map_huge(size_t bytes, size_t *mapped) {
    *mapped = (bytes + HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES;
    void *p = map(*mapped, MAP_HUGETLB);
    if (p != MAP_FAILED)
        return p;
    char *wide = map(*mapped + HUGE_BYTES, 0);
    if (wide == MAP_FAILED)
        return MAP_FAILED;
    const size_t head = (HUGE_BYTES - (uintptr_t)wide % HUGE_BYTES) % HUGE_BYTES;
    if (head)
        munmap(wide, head);
    if (head < HUGE_BYTES)
        munmap(wide + head + *mapped, HUGE_BYTES - head);
    (void)madvise(wide + head, *mapped, MADV_HUGEPAGE);
    return wide + head;
}

static as_status cpu_alloc(as_device *d, as_memory kind, size_t bytes, void **out, as_error *e) {
    cpu_device *c = d->impl;
    size_t free_bytes, total_bytes, page = c->page_bytes;
    *out = NULL;
    AS_TRY(cpu_memory(d, &free_bytes, &total_bytes, e));
    /* Asked before touching: under overcommit mmap succeeds and the touch below would get the process killed. */
    if (free_bytes < RESERVE_BYTES || bytes > free_bytes - RESERVE_BYTES)
        return as_fail(e, AS_ENOMEM, "%zu bytes of host memory do not fit: %zu are free of %zu (machine or cgroup)",
                       bytes, free_bytes, total_bytes);
    AS_TRY(reserve_block(c, e));
    size_t mapped = bytes ? (bytes + page - 1) / page * page : page;
    void *p = kind == AS_MEM_HUGE ? map_huge(mapped, &mapped) : map(mapped, 0);
    if (p == MAP_FAILED)
        return as_fail_code(e, AS_ENOMEM, errno, "%zu bytes of host memory: %s", bytes, strerror(errno));
    for (size_t i = 0; i < mapped; i += page)
        ((volatile unsigned char *)p)[i] = 0; /* first touch by the bound caller decides the NUMA node */
    c->blocks[c->used++] = (block){p, mapped};
    *out = p;
    return AS_OK;
}

static void cpu_release(as_device *d, as_memory kind, void *p) {
    (void)kind;
    cpu_device *c = d->impl;
    for (size_t i = c->used; p && i-- > 0;)
        if (c->blocks[i].start == p) {
            munmap(p, c->blocks[i].bytes);
            c->blocks[i] = c->blocks[--c->used];
            return;
        }
}

static as_status cpu_copy(as_device *d, void *dst, const void *src, size_t bytes, as_error *e) {
    (void)d, (void)e;
    if (bytes)
        memcpy(dst, src, bytes);
    return AS_OK;
}

static as_status cpu_set(as_device *d, void *dst, int byte, size_t bytes, as_error *e) {
    (void)d, (void)e;
    if (bytes)
        memset(dst, byte, bytes);
    return AS_OK;
}

static as_status cpu_fill(as_device *d, as_memory kind, void *dst, as_dtype type, as_dist dist, uint64_t count,
                          uint64_t seed, uint32_t key, as_error *e) {
    (void)d, (void)kind, (void)e;
    as_rng_fill(dst, type, dist, 0, count, seed, key);
    return AS_OK;
}

static as_status cpu_stream_create(as_device *d, as_stream *out, as_error *e) {
    (void)d, (void)e;
    *out = NULL;
    return AS_OK;
}

static void cpu_stream_destroy(as_device *d, as_stream s) { (void)d, (void)s; }

static as_status cpu_stream_sync(as_device *d, as_stream s, as_error *e) {
    (void)d, (void)s, (void)e;
    return AS_OK;
}

static as_status cpu_event_create(as_device *d, as_event *out, as_error *e) {
    (void)d;
    cpu_event *event = malloc(sizeof *event);
    *out = event;
    if (!event)
        return as_fail(e, AS_ENOMEM, "no memory for an event");
    event->ns = -1;
    return AS_OK;
}

static void cpu_event_destroy(as_device *d, as_event ev) {
    (void)d;
    free(ev);
}

static as_status cpu_event_record(as_device *d, as_event ev, as_stream s, as_error *e) {
    (void)d, (void)s;
    struct timespec t;
    if (clock_gettime(CLOCK_MONOTONIC_RAW, &t) != 0)
        return as_fail_code(e, AS_EENV, errno, "CLOCK_MONOTONIC_RAW: %s", strerror(errno));
    ((cpu_event *)ev)->ns = t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
    return AS_OK;
}

static as_status cpu_event_elapsed(as_device *d, as_event from, as_event to, double *ns, as_error *e) {
    (void)d;
    const cpu_event *a = from, *b = to;
    if (a->ns < 0 || b->ns < 0)
        return as_fail(e, AS_EFAIL, "time asked between events that were not recorded");
    *ns = (double)(b->ns - a->ns);
    return AS_OK;
}

static json_t *cpu_counters(as_device *d) { return as_environment_counters("", d->place); }

const as_device_driver as_cpu_driver = {
    .kind = "cpu",
    .count = cpu_count,
    .open = cpu_open,
    .close = cpu_close,
    .describe = cpu_describe,
    .memory = cpu_memory,
    .alloc = cpu_alloc,
    .release = cpu_release,
    .copy = cpu_copy,
    .set = cpu_set,
    .fill = cpu_fill,
    .stream_create = cpu_stream_create,
    .stream_destroy = cpu_stream_destroy,
    .stream_sync = cpu_stream_sync,
    .event_create = cpu_event_create,
    .event_destroy = cpu_event_destroy,
    .event_record = cpu_event_record,
    .event_elapsed = cpu_event_elapsed,
    .counters = cpu_counters,
    .judge = as_environment_judge,
    .telemetry = &as_host_telemetry,
};
