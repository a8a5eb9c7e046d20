/* The supervisor: owns plan, journal and output; drives one worker at a time. */
#pragma once

#include "journal.h"
#include "outcome.h"
#include "process.h"
#include "progress.h"
#include "telemetry.h"

/* What the launch under way spends on one case. */
typedef struct as_share {
    int rounds;  /* that the launch deserves; the least number is reserved, the others come from free time */
    int samples; /* of a round; 0: as many as the round's time holds */
} as_share;

typedef struct as_supervisor {
    const as_plan *plan;
    as_run_state *state;
    as_journal *journal;
    as_progress *progress;
    as_peer worker;          /* pid 0: none */
    const as_device *device; /* of the worker */
    int launch;              /* its launch index */
    int64_t oom_kills;       /* of the cgroup when it started; -1 unknown */
    int64_t deadline_ns;
    bool verify_only;
    as_share *share;         /* by case number */
    as_telemetry *telemetry; /* NULL: switched off */
} as_supervisor;

/* Runs every launch of every device of the plan. AS_OK also when cases failed or were lost: the state tells.
 * AS_EINTR when a signal stopped it. */
as_status as_supervise(as_supervisor *s, as_error *e) AS_MUST_CHECK;

/* SIGINT and SIGTERM set it; waits look at it. */
extern volatile int as_interrupted;

/* ---- supervisor_case.c: one stage of one case: command, answer, record ---- */

/* True if the case is still in the running after the stage. A worker that died or hung is replaced, which changes
 * s->launch; the case at fault is recorded as lost. *e is set for errors that end the run. */
bool as_stage_prepare(as_supervisor *s, int c, as_status *fatal, as_error *e);
bool as_stage_verify(as_supervisor *s, int c, as_status *fatal, as_error *e);
bool as_stage_warmup(as_supervisor *s, int c, as_status *fatal, as_error *e);
bool as_stage_round(as_supervisor *s, int c, int order, as_status *fatal, as_error *e);
bool as_stage_check(as_supervisor *s, int c, as_status *fatal, as_error *e);
bool as_stage_parts(as_supervisor *s, int c, as_status *fatal, as_error *e);
bool as_stage_energy(as_supervisor *s, int c, as_status *fatal, as_error *e);
void as_stage_release(as_supervisor *s, int c);
as_status as_case_finish(as_supervisor *s, int c, as_case_status status, const char *reason, as_error *e) AS_MUST_CHECK;

/* Samples of the next round. */
int as_round_samples(const as_supervisor *s, int c);

/* ---- supervisor_spend.c: what free time is spent on ---- */

/* Before launch number `launch` of a device: rounds and samples for each of its cases, from what the launches before
 * have shown. */
void as_spend_plan(as_supervisor *s, const as_device *device, int launch);
/* Predicted cost of what is still to do for case c beyond its least rounds: until it converges or, where launches
 * follow, until it has the rounds that this launch deserves. 0: nothing, INFINITY: it cannot converge. */
double as_spend_case_ns(const as_supervisor *s, int c, bool last_launch);
/* What all visits still to come are expected to take, as measured where a case had one. */
double as_spend_reserved_ns(const as_supervisor *s);
/* End of the extra rounds of a set of n cases: now, its reserve and its share of the time that nobody reserved. */
int64_t as_spend_until(const as_supervisor *s, const int *member, int n);

as_status as_worker_start(as_supervisor *s, const as_device *device, as_error *e) AS_MUST_CHECK;
void as_worker_stop(as_supervisor *s, char how[128]);
void as_worker_end(as_supervisor *s);
