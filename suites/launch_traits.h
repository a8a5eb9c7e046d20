/* What each variant of suite launch takes and how it is counted: launch_traits.c is its table. */
#pragma once

#include "../kernels/launch/launch.h"

/* Input streams of config_memory and config_compute: their outputs differ, so their references must. */
enum { AS_LAUNCH_KEY_MEMORY = 1, AS_LAUNCH_KEY_COMPUTE = 2 };

#define AS_LAUNCH_MISUSE_LIST                                                                                          \
    "capture_global,capture_thread_local,capture_relaxed,update_dependencies,other_thread,missing_sync,freed_memory,"  \
    "second_context,shared_exec,older_cubin,static_jit"

/* The work of one operation; AS_EUSAGE where an axis that the variant does not take is not at its default, or a value
 * makes no sense. */
as_status as_launch_describe(const as_params *p, const as_variant *v, const as_axis *axes, as_work *w,
                             as_error *e) AS_MUST_CHECK;
