/* A device of kind "fake" in host memory, with streams, events and graphs, whose clock obeys the test. In a child
 * process (probe, worker) the environment speaks: FAKE_COUNT=0|2|broken|crash, FAKE_FREE_BYTES=1048576, FAKE_UUID=GPU-1,
 * FAKE_RANGES=file, FAKE_HEALTH=warning; effect/good obeys FAKE_SLOW_MS=100. */
#pragma once

#include "suite.h"

typedef struct fake_control {
    double op_ns;       /* device time of one operation */
    double clock_rate;  /* events tell the device time multiplied by this: 2 is a clock that runs twice too fast */
    bool spin;          /* the host waits as long as the device works */
    size_t cache_bytes; /* last-level cache that the device tells */
    bool sticky;        /* an illegal access has spoilt the context: nothing works until the process ends */
    double idle_watts, op_joules;
    bool sampler;           /* this process is the sampler */
    int64_t energy_step_ns; /* of the energy counter; 0: it cannot be read */

    /* What happened since fake_reset. */
    int operations; /* run, by a launch or inside a graph */
    int captures, graph_launches;
    int captured;       /* operations in the graph captured last */
    int graphs, blocks; /* alive */
} fake_control;

extern fake_control fake;
extern const as_device_driver fake_driver;
extern const struct as_device_telemetry fake_telemetry; /* fake_telemetry.c */

void fake_reset(void); /* 2 us an operation, honest clock, spinning, 1 MiB of cache */

/* What a kernel of this device is launched by: runs `kernel`, or adds it to the graph under capture. */
typedef void (*fake_kernel)(const as_call *call);
as_status fake_launch(const as_call *call, fake_kernel kernel, as_error *e);
