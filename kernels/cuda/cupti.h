/* When each kernel ran, by CUPTI's activity records, loaded at run time: for instrumented passes alone, since tracing
 * slows launches down. One tracing at a time, from the thread that issues the work. */
#pragma once

#include "../../harness/status.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct as_kernel_time {
    uint64_t begin_ns, end_ns; /* CUPTI's clock */
    char name[256];            /* mangled, cut */
} as_kernel_time;

/* Starts tracing. AS_EABSENT with the reason where CUPTI is not there or refuses. */
as_status as_cupti_start(as_error *e) AS_MUST_CHECK;
/* Ends tracing, after the work has completed: the kernels since the start in the order in which they began. The caller
 * frees *out. AS_EFAIL where records were dropped. */
as_status as_cupti_stop(as_kernel_time **out, int64_t *n, as_error *e) AS_MUST_CHECK;

#ifdef __cplusplus
}
#endif
