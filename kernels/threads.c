#include "threads.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

enum { MASK_CPUS = 8192 }; /* larger than any kernel's CPU count, so that reading a mask does not fail */
typedef union cpu_mask {
    cpu_set_t set;
    unsigned char bytes[MASK_CPUS / 8];
} cpu_mask;

static void note_cpu(int member, int size, void *context) {
    (void)size;
    ((int *)context)[member] = sched_getcpu();
}

void as_threads_cpus(as_team *team, int *cpu) { as_team_run(team, note_cpu, cpu); }

void as_threads_pin(int cpu) {
    cpu_mask mask;
    if (cpu < 0 || cpu >= MASK_CPUS)
        return;
    CPU_ZERO_S(sizeof mask, &mask.set);
    CPU_SET_S(cpu, sizeof mask, &mask.set);
    (void)sched_setaffinity(0, sizeof mask, &mask.set);
}

static void add_mask(int member, int size, void *context) {
    (void)member, (void)size;
    cpu_mask *all = context, own;
    if (sched_getaffinity(0, sizeof own, &own.set) != 0)
        return;
    for (size_t i = 0; i < sizeof own.bytes; i++)
        if (own.bytes[i])
            __atomic_fetch_or(&all->bytes[i], own.bytes[i], __ATOMIC_RELAXED);
}

as_status as_threads_spawn(as_team *team, void (*fn)(void *context), void *context, as_error *e) {
    cpu_mask before, all;
    if (sched_getaffinity(0, sizeof before, &before.set) != 0)
        return as_fail_code(e, AS_EENV, errno, "cannot read the affinity of a thread: %s", strerror(errno));
    memset(&all, 0, sizeof all);
    as_team_run(team, add_mask, &all);
    if (sched_setaffinity(0, sizeof all, &all.set) != 0)
        return as_fail_code(e, AS_EENV, errno, "cannot widen the affinity of a thread: %s", strerror(errno));
    fn(context);
    if (sched_setaffinity(0, sizeof before, &before.set) != 0)
        return as_fail_code(e, AS_EENV, errno, "cannot restore the affinity of a thread: %s", strerror(errno));
    return AS_OK;
}
