/* Binding threads and memory to a placement, and reading back what took effect. Affinity goes through the kernel's
 * own calls, not through hwloc: a topology takes milliseconds to load and each member of a team binds itself. */
#include "place.h"
#include "place_internal.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MASK_CPUS = 8192, MASK_NODES = 1024, WORD_BITS = 8 * sizeof(unsigned long) }; /* the kernel's own maxima */

typedef struct mask {
    unsigned long word[MASK_CPUS / WORD_BITS];
} mask;

static void mask_set(mask *m, int cpu) { m->word[cpu / WORD_BITS] |= 1UL << (cpu % WORD_BITS); }
static bool mask_has(const mask *m, int cpu) { return m->word[cpu / WORD_BITS] >> (cpu % WORD_BITS) & 1; }

static int mask_read(pid_t tid, mask *m) {
    memset(m, 0, sizeof *m);
    return sched_getaffinity(tid, sizeof *m, (cpu_set_t *)(void *)m->word);
}

static int mask_write(pid_t tid, const mask *m) {
    return sched_setaffinity(tid, sizeof *m, (const cpu_set_t *)(const void *)m->word);
}

as_status as_place_allowed(hwloc_bitmap_t out, as_error *e) {
    mask m;
    if (mask_read(0, &m) != 0)
        return as_fail_code(e, AS_EENV, errno, "cannot read the CPU affinity: %s", strerror(errno));
    hwloc_bitmap_zero(out);
    for (int cpu = 0; cpu < MASK_CPUS; cpu++)
        if (mask_has(&m, cpu))
            hwloc_bitmap_set(out, (unsigned)cpu);
    return AS_OK;
}

/* True if this process may take memory from more than one node; false also where the kernel will not say. */
static bool several_nodes(void) {
    unsigned long nodes[MASK_NODES / WORD_BITS] = {0};
    int n = 0;
    if (syscall(SYS_get_mempolicy, NULL, nodes, (unsigned long)MASK_NODES, NULL, (unsigned long)MPOL_F_MEMS_ALLOWED))
        return false;
    for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++)
        n += __builtin_popcountl(nodes[i]);
    return n > 1;
}

/* Preferred, not bound: a full node then spills instead of getting this process killed. A refusal (seccomp) is
 * tolerated, since a bound thread touches its memory on its own node anyway; as_place_json reads the policy back. */
static void prefer_node(int node) {
    unsigned long nodes[MASK_NODES / WORD_BITS] = {0};
    if (node < 0 || node >= MASK_NODES || !several_nodes())
        return;
    nodes[node / WORD_BITS] |= 1UL << (node % WORD_BITS);
    syscall(SYS_set_mempolicy, MPOL_PREFERRED, nodes, (unsigned long)MASK_NODES);
}

as_status as_place_bind(const as_placement *p, int k, as_error *e) {
    if (k < 0 || k >= p->cpus)
        return as_fail(e, AS_EENV, "the placement has %d CPUs, thread %d has none", p->cpus, k);
    mask m = {{0}};
    if (p->cpu[k] < 0 || p->cpu[k] >= MASK_CPUS)
        return as_fail(e, AS_EENV, "no CPU has the number %d", p->cpu[k]);
    mask_set(&m, p->cpu[k]);
    if (mask_write(0, &m) != 0)
        return as_fail_code(e, AS_EENV, errno, "cannot bind a thread to CPU %d: %s (offline, or outside the cpuset?)",
                            p->cpu[k], strerror(errno));
    prefer_node(p->numa_node);
    return AS_OK;
}

/* Calls `visit` with each thread id of this process; stops at the first failure. */
static int each_thread(int (*visit)(pid_t tid, void *context), void *context) {
    DIR *dir = opendir("/proc/self/task");
    if (!dir)
        return visit(0, context);
    int rc = 0;
    for (struct dirent *d; rc == 0 && (d = readdir(dir));)
        if (d->d_name[0] != '.')
            rc = visit((pid_t)strtol(d->d_name, NULL, 10), context);
    closedir(dir);
    return rc;
}

static int bind_one(pid_t tid, void *context) {
    if (mask_write(tid, context) == 0 || errno == ESRCH) /* the thread may have ended meanwhile */
        return 0;
    return errno;
}

as_status as_place_bind_process(const as_placement *p, as_error *e) {
    mask m = {{0}};
    for (int k = 0; k < p->cpus; k++)
        if (p->cpu[k] >= 0 && p->cpu[k] < MASK_CPUS)
            mask_set(&m, p->cpu[k]);
    int code = each_thread(bind_one, &m);
    if (code != 0)
        return as_fail_code(e, AS_EENV, code, "cannot bind the process to its %d CPUs: %s", p->cpus, strerror(code));
    prefer_node(p->numa_node);
    return AS_OK;
}

bool as_place_holds(const as_placement *p, int k) {
    mask m;
    if (k < 0 || k >= p->cpus || mask_read(0, &m) != 0)
        return false;
    for (int cpu = 0; cpu < MASK_CPUS; cpu++)
        if (mask_has(&m, cpu) != (cpu == p->cpu[k]))
            return false;
    return sched_getcpu() == p->cpu[k];
}

static int collect_one(pid_t tid, void *context) {
    mask m, *all = context;
    if (mask_read(tid, &m) == 0)
        for (size_t i = 0; i < sizeof m.word / sizeof m.word[0]; i++)
            all->word[i] |= m.word[i];
    return 0;
}

/* "default", "preferred" ... of the calling thread; "unknown" where the call is refused. */
static const char *memory_policy(void) {
    int mode;
    if (syscall(SYS_get_mempolicy, &mode, NULL, 0UL, NULL, 0UL) != 0)
        return "unknown";
    switch (mode & ~MPOL_MODE_FLAGS) {
    case MPOL_DEFAULT: return "default";
    case MPOL_PREFERRED: return "preferred";
    case MPOL_BIND: return "bind";
    case MPOL_INTERLEAVE: return "interleave";
    case MPOL_LOCAL: return "local";
    }
    return "other";
}

json_t *as_place_json(const as_placement *p) {
    mask all = {{0}};
    json_t *cpus = json_array(), *back = json_array(), *warnings = json_array();
    for (int k = 0; k < p->cpus; k++)
        json_array_append_new(cpus, json_integer(p->cpu[k]));
    each_thread(collect_one, &all);
    for (int cpu = 0; cpu < MASK_CPUS; cpu++)
        if (mask_has(&all, cpu))
            json_array_append_new(back, json_integer(cpu));
    for (int i = 0; i < p->warnings; i++)
        json_array_append_new(warnings, json_string(p->warning[i]));
    return json_pack("{s:o, s:i, s:i, s:s, s:o, s:s, s:o}", "cpus", cpus, "cores", p->cores, "numa_node", p->numa_node,
                     "chosen_by", p->chosen_by_user ? "user" : "default", "read_back", back, "memory_policy",
                     memory_policy(), "warnings", warnings);
}
