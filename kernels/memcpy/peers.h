/* Which other GPUs this one can reach. A CUDA device of this process is named by its ordinal. */
#pragma once

#include "memcpy.h"

/* The ordinals of all devices but the call's own, reachable or not, up to `most`; returns their number. */
int as_memcpy_others(const as_device *d, int *ordinal, int most);
/* True if each of the two can read and write the other's memory. */
bool as_memcpy_reach(int a, int b);
/* Opens both directions; having been open is no error. Leaves `a` as the current device. */
as_status as_memcpy_open_peer(int a, int b, as_error *e) AS_MUST_CHECK;
/* AS_EABSENT unless there is a second GPU with peer access. */
as_status as_memcpy_need_peer(const as_device *d, as_error *e) AS_MUST_CHECK;
/* The device that axis `peer` names ("next": the first reachable one after this), opened. AS_EABSENT if it is not
 * there or cannot be reached. */
as_status as_memcpy_peer_of(const as_call *call, int *ordinal, as_error *e) AS_MUST_CHECK;
