/* Telemetry: what the machine did while a run measured. A sampler process reads the host and the devices and writes
 * into memory that it shares with the supervisor: no message wakes anybody while something is measured. It only draws
 * curves; what is valid is judged by the counters around each round. docs/telemetry.md, docs/method.md. */
#pragma once

#include "place.h"
#include "suite.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct json_t;

/* ---- what a device offers: as_device_driver.telemetry ---- */

typedef enum as_telemetry_kind {
    AS_GAUGE, /* the value itself */
    AS_RATE,  /* a counter that only grows: its difference a second is shown */
    AS_MASK,  /* bits: neighbours are joined by OR, there is no mean */
} as_telemetry_kind;

typedef struct as_telemetry_column {
    const char *name; /* with its unit: "power_watts" */
    as_telemetry_kind kind;
    double scale; /* of a rate: from the counter's unit to that of the column; 0 reads as 1 */
    /* For a person at a terminal: heading, unit, factor from the column's unit, digits after the point. */
    const char *head, *shown_unit;
    double shown;
    int digits;
} as_telemetry_column;

/* A monitor reads a device without a context on it. `description` is the device's row of context.devices[]. All
 * functions may be called in any process; a process that must survive a broken driver calls none of them. */
typedef struct as_device_telemetry {
    const as_telemetry_column *columns;                              /* ends at name NULL */
    void *(*open)(const struct json_t *description);                 /* NULL: the device cannot be monitored */
    void (*close)(void *monitor);                                    /* NULL allowed */
    void (*read)(void *monitor, double *values);                     /* one a column; NaN where unknown */
    bool (*energy)(void *monitor, double *joules, char reason[160]); /* since a fixed moment; false: the reason */
} as_device_telemetry;

/* The host: load, clocks, memory, pressure, RAPL. */
extern const as_device_telemetry as_host_telemetry;

/* ---- the supervisor's side ---- */

enum { AS_TELEMETRY_SOURCES = 17, AS_TELEMETRY_COLUMNS = 192 };

typedef struct as_telemetry_source {
    char name[24]; /* the device's: "cpu", "cuda0" */
    const as_device_telemetry *driver;
    int first; /* its first column among all */
} as_telemetry_source;

typedef struct as_telemetry {
    pid_t pid; /* of the sampler; 0: none, or it has ended */
    int fd;    /* its line: closed to end it */
    int sources, columns;
    as_telemetry_source source[AS_TELEMETRY_SOURCES];
    const as_telemetry_column *column[AS_TELEMETRY_COLUMNS];
    struct as_telemetry_area *area; /* NULL: nothing was sampled */
    size_t area_bytes;
    int64_t begin_ns;
    int first_launch; /* rounds of earlier launches were measured before it began (--resume) */
    char state[16];   /* "" never started, "sampling", "complete", "died", "stuck", "unavailable" */
    char fault[240];  /* a line for the result's warnings; "" none */
} as_telemetry;

/* What to sample. Devices with no `telemetry` are left out. */
typedef struct as_telemetry_request {
    struct {
        const char *name, *kind;
        const as_device_telemetry *driver;
        const struct json_t *description;
    } device[AS_TELEMETRY_SOURCES];
    int devices;
    const as_placement *measured; /* CPUs to keep away from; NULL: none */
    int64_t period_ns;            /* the shortest */
    bool stretch;                 /* the period grows until the sampler's CPU time is below the limit */
} as_telemetry_request;

/* Starts the sampler and waits up to 3 s for its first sample, so that its start disturbs no round. It never fails a
 * run: what went wrong stands in t->state and t->fault. */
void as_telemetry_start(as_telemetry *t, const as_telemetry_request *request);
/* The process whose memory is shown from now on. `t` may be NULL or hold no sampler. */
void as_telemetry_follow(as_telemetry *t, pid_t worker);
/* Ends the sampler within 2 s, also one that hangs in a driver, and says how it was. The samples stay. */
void as_telemetry_stop(as_telemetry *t);
void as_telemetry_free(as_telemetry *t);

/* Samples so far, in the order of time. A row: ns of the raw monotonic clock, then the columns; NaN where unknown. */
int as_telemetry_rows(const as_telemetry *t);
const double *as_telemetry_row(const as_telemetry *t, int row);
bool as_telemetry_alive(as_telemetry *t); /* reaps a sampler that has ended by itself */

/* ---- telemetry_record.c ---- */

/* The result's `telemetry`; null where the run had none (switched off). New value. */
struct json_t *as_telemetry_json(const as_telemetry *t);
/* Minimum, mean and maximum of the samples within these rounds, of the host's columns and the device's. {} where no
 * sample falls into them. New object. */
struct json_t *as_telemetry_case_json(const as_telemetry *t, const struct json_t *rounds, const char *device);

/* ---- the sampler's process, and `assay dmon` ---- */

int as_sampler_main(const as_registry *registry);
/* Prints live samples; returns the exit code. */
int as_dmon_main(const as_registry *registry, int argc, char **argv);

#ifdef __cplusplus
}
#endif
