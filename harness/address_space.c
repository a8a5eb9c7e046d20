#include "address_space.h"

#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define LEAST_BYTES ((size_t)128 << 20) /* also a sensible least: the smallest plans touch as much */

bool as_address_space_is_limited(void) {
    struct rlimit limit;
    return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

as_status as_address_space_check(as_error *e) {
    if (!as_address_space_is_limited())
        return AS_OK;
    void *p = mmap(NULL, LEAST_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return as_fail(e, AS_EENV,
                       "the limit of the address space leaves less than 128 MiB, and libraries wait for more forever; "
                       "raise it: ulimit -v unlimited");
    munmap(p, LEAST_BYTES);
    return AS_OK;
}
