/* Energy by operation: a pass of its own after a case's rounds. The operation runs back to back while the device's
 * energy counter is watched; what counts lies between two steps of the counter. docs/method.md states the formulas. */
#pragma once

#include "bench.h"
#include "telemetry.h"

enum { AS_MOST_WINDOWS = 16 };

typedef struct as_energy_settings {
    int64_t idle_ns;   /* at rest before the windows: the power that the machine takes anyhow */
    int64_t settle_ns; /* under load before the first window */
    int64_t window_ns; /* each window lasts at least as long, from a step of the counter to another */
    int windows;       /* at most AS_MOST_WINDOWS */
} as_energy_settings;

extern const as_energy_settings as_energy_usual; /* 1 s at rest, 0.3 s, 5 windows of 0.6 s */

/* Wall time that the pass takes for an operation of op_ns: what the plan reserves. */
double as_energy_cost_ns(double op_ns);

/* Runs the pass on a prepared, warmed-up case. *out: new object with `state` "measured", or "absent" with its
 * `reason`; a counter that cannot be read is no failure. An operation that fails is. `monitor` may be NULL. */
as_status as_energy_measure(as_bench *b, as_workshop *w, int64_t batch, const as_device_telemetry *telemetry,
                            void *monitor, const as_energy_settings *settings, struct json_t **out,
                            as_error *e) AS_MUST_CHECK;

typedef struct as_energy_figures {
    double joules; /* of one operation */
    double relative_half_width, resolution_joules;
    double above_idle_joules; /* NaN without idle power */
    double watts, idle_watts;
} as_energy_figures;

/* False where the pass measured nothing (NULL allowed). */
bool as_energy_figures_of(const struct json_t *pass, double confidence, as_energy_figures *out);
