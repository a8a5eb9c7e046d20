#include "address_space.h"

#include <inttypes.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>

#define MIB ((uint64_t)1 << 20)
#define THREAD_BYTES (192 * MIB) /* a thread's buffer in OpenBLAS, 128 MiB, its arena of malloc, 64 MiB */
#define OTHER_BYTES (128 * MIB)  /* stacks, libraries that are loaded late, what the smallest plans touch */

bool as_address_space_is_limited(void) {
    struct rlimit limit;
    return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

/* What a worker takes at most beside the buffers of its cases. */
static uint64_t reserve_bytes(void) {
    cpu_set_t set; /* a set too small for the machine is refused: as one CPU then, as OpenBLAS takes it to be */
    const int cpus = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return OTHER_BYTES + (uint64_t)cpus * THREAD_BYTES;
}

/* The program and its libraries, which a child of this process maps again. What threads of OpenBLAS have taken in this
 * process meanwhile is not counted: the reserve is for it. */
static uint64_t mapped_file_bytes(void) {
    uint64_t begin, end, inode, sum = 0;
    char line[4352];
    FILE *f = fopen("/proc/self/maps", "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %*s %*s %" SCNu64, &begin, &end, &inode) == 3 && inode)
            sum += end - begin;
    if (f)
        fclose(f);
    return sum;
}

size_t as_address_space_room_bytes(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return SIZE_MAX;
    const uint64_t taken = mapped_file_bytes() + reserve_bytes();
    return limit.rlim_cur > taken ? (size_t)(limit.rlim_cur - taken) : 0;
}

as_status as_address_space_check(as_error *e) {
    if (as_address_space_room_bytes() > 0)
        return AS_OK;
    return as_fail(e, AS_EENV,
                   "the limit of the address space is too low: this command needs %" PRIu64
                   " MiB on these CPUs, and libraries wait for more forever; raise it: ulimit -v unlimited",
                   (mapped_file_bytes() + reserve_bytes()) / MIB + 1);
}
