/* A plan of three cases built by hand, and the records that a run of it makes. */
#pragma once

#include "journal.h"

enum { FAKE_VECTOR, FAKE_COPY, FAKE_CEILING, FAKE_CASES };

/* vector/good (bounds: memory 49,152 bytes, served by the ceiling, and flops.f32, served by none), copy/good, and the
 * ceiling stream (32,768 bytes an operation). Quick's rule: 6 units, 5%. Valid until the next call. */
const as_plan *fake_plan(void);
as_options *fake_plan_options(void);

/* Records; new objects. fake_round: `n` samples of `ns` nanoseconds each, plus i for sample i. */
struct json_t *fake_warm(int c, int64_t batch);
struct json_t *fake_verified(int c, bool passed);
struct json_t *fake_round(int c, int launch, int round, int64_t ns, int n);
struct json_t *fake_checked(int c, bool passed);
struct json_t *fake_status(int c, const char *status, const char *reason);
/* Applies a record, which it takes over; the test fails if it is refused. */
void fake_apply(as_run_state *s, struct json_t *record);
/* warm, verified, rounds of one launch with these medians (ns of one operation, batch 1), checked, done. */
void fake_measured(as_run_state *s, int c, const int64_t *median_ns, int rounds);
