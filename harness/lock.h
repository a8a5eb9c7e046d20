/* A GPU is used by one run at a time: one file per UUID, held with flock. The kernel frees a lock when its last holder
 * ends, however it ends; the file stays and says who held it. docs/lock.md is the reference. */
#pragma once

#include "plan.h"

enum { AS_UUID_BYTES = 80 };

typedef struct as_lock {
    char uuid[AS_UUID_BYTES], device[24];
    int fd;         /* -1: not held */
    bool inherited; /* from `assay lock`, which owns what the file says */
} as_lock;

typedef struct as_locks {
    int count;
    as_lock lock[AS_MAX_DEVICES]; /* by ascending UUID, so that two runs never wait for each other */
} as_locks;

/* Adds the device of this description (context.devices[]); one without a uuid has no lock. AS_EENV where the uuid is
 * no name of a file. */
as_status as_locks_want(as_locks *l, const struct json_t *description, as_error *e) AS_MUST_CHECK;
/* Takes all that was wanted and not inherited. `argv` is written into the files, for those who are refused. Busy:
 * AS_EENV after wait_ns (0: at once) with who holds it; a line on stderr says that it waits, and *waited is set.
 * $ASSAY_LOCKS is proved, used and removed from the environment: malformed AS_EUSAGE, no lock AS_EENV. */
as_status as_locks_take(as_locks *l, int argc, char **argv, int64_t wait_ns, bool *waited, as_error *e) AS_MUST_CHECK;
/* Before an exec: the descriptors stay open in the new program and ASSAY_LOCKS names them. */
as_status as_locks_hand_down(const as_locks *l, as_error *e) AS_MUST_CHECK;
void as_locks_free(as_locks *l);

/* `assay lock [--device NAME,...] [--wait TIME] -- COMMAND...`: returns only where it failed, an exit code. */
int as_lock_command(const as_registry *registry, int argc, char **argv);
