/* C shim over Google Benchmark: one call is one round of one case. Exceptions never cross it. */
#pragma once

#include "status.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct as_gb_state as_gb_state; /* benchmark::State during a call */
typedef void (*as_gb_body)(as_gb_state *state, void *context);

enum { AS_GB_COUNTERS = 16, AS_GB_TEXT = 512 };
typedef struct as_gb_counter {
    char name[48];
    double value;
} as_gb_counter;

typedef struct as_gb_spec {
    const char *name;   /* our id; the row carries it unchanged, whatever Google Benchmark appends */
    int64_t iterations; /* explicit: samples x batch, >= 1 */
    bool manual_time;   /* the body reports times with as_gb_set_iteration_time */
    as_gb_body body;
    void *context;
} as_gb_spec;

/* What a row of `benchmarks` needs. Times are per iteration, in ns. */
typedef struct as_gb_row {
    double real_time_ns, cpu_time_ns;
    int64_t iterations;
    bool failed; /* the body called as_gb_skip_with_error, or threw */
    char message[AS_GB_TEXT];
    char label[AS_GB_TEXT];
    int counters;
    as_gb_counter counter[AS_GB_COUNTERS];
} as_gb_row;

as_status as_gb_run(const as_gb_spec *spec, as_gb_row *row, as_error *e) AS_MUST_CHECK;

/* Inside the body. KeepRunningBatch(n): true while iterations are left; n counts as n iterations. */
bool as_gb_keep_running_batch(as_gb_state *s, int64_t n);
bool as_gb_keep_running(as_gb_state *s);
void as_gb_set_iteration_time(as_gb_state *s, double seconds);
void as_gb_set_counter(as_gb_state *s, const char *name, double value);
void as_gb_set_label(as_gb_state *s, const char *label);
void as_gb_skip_with_error(as_gb_state *s, const char *message);
void as_gb_pause_timing(as_gb_state *s);
void as_gb_resume_timing(as_gb_state *s);

const char *as_gb_version(void); /* of the library linked: "1.7.1", "1.8.3"; "unknown" where it does not tell */

#ifdef __cplusplus
}
#endif
