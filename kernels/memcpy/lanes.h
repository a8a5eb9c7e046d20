/* Several copies at once, timed together: the protocol of nvbandwidth's cases (docs/method.md, "Copies").
 *
 * A lane is a stream on one device with copies of `bytes` from src to dst. In an operation every stream first waits for
 * a latch in host memory, so that all is issued before anything starts. Then each lane makes its `before` copies; when
 * those of lane 0 are done, its start event opens the measured copy of every measured lane; `after` copies keep a lane
 * busy while others are still measured. Lanes that are not measured are traffic. */
#pragma once

#include "memcpy.h"

#include <cuda_runtime_api.h>

enum { AS_MEMCPY_LANES = 64, AS_MEMCPY_BUFFERS = 128, AS_MEMCPY_HOST = -1 };

typedef enum as_lanes_time {
    AS_LANES_FIRST, /* of lane 0's measured copy */
    AS_LANES_EACH,  /* `bytes` over it is the sum of the measured lanes' rates, each by its own events */
    AS_LANES_ALL /* from the start event to the last end event, over the number of measured lanes: as above, the sum */
} as_lanes_time;

typedef struct as_lane {
    int ordinal; /* device that runs it */
    cudaStream_t stream;
    cudaEvent_t begin, end;
    const void *src, *back_src; /* back: by_kernel only, the copy the other way by the same kernel */
    void *dst, *back_dst;
    size_t bytes;
    int before, after;
    bool measured;
} as_lane;

typedef struct as_lanes {
    int own; /* ordinal of the case's device, current outside these functions */
    bool by_kernel;
    as_lanes_time time;
    as_lane lane[AS_MEMCPY_LANES];
    int lanes;
    cudaEvent_t all_end;
    volatile int *latch; /* [0] opens, [1] set by a stream that waited in vain; page-locked */
    struct {
        int where; /* ordinal or AS_MEMCPY_HOST */
        void *at;
    } buffer[AS_MEMCPY_BUFFERS];
    int buffers;
} as_lanes;

as_status as_lanes_create(as_lanes **out, const as_call *call, as_lanes_time time, as_error *e) AS_MUST_CHECK;
void as_lanes_destroy(as_lanes *s); /* NULL allowed */
/* Memory on device `where`, or page-locked on the host; freed with the lanes. `fill`: NULL, or what it holds. */
as_status as_lanes_buffer(as_lanes *s, int where, size_t bytes, const void *fill, void **out,
                          as_error *e) AS_MUST_CHECK;
/* Adds a lane and makes its stream and events; the caller may change the rest of what it returns. */
as_status as_lanes_add(as_lanes *s, int ordinal, void *dst, const void *src, size_t bytes, bool measured,
                       as_error *e) AS_MUST_CHECK;
/* One operation; has finished when it returns. Every measured lane has copied the same `bytes` bytes: of lane j of k
 * the j-th part is brought to `output` (unless it was copied there), after its own destination was poisoned before. */
as_status as_lanes_run(as_lanes *s, void *output, double *own_ns, as_error *e) AS_MUST_CHECK;
