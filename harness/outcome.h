/* What is known of a run so far. Records change it, one function for both: live, after the journal has them on disk,
 * and on --resume, read back from it. */
#pragma once

#include "plan.h"
#include "variance.h"

struct json_t;

typedef struct as_outcome {
    as_case_status status;
    char reason[700];
    struct json_t *verification; /* NULL before */
    struct json_t *rounds;       /* metadata of each round */
    struct json_t *time, *host;  /* arrays of integer arrays, aligned with rounds; host NULL: primary is the host's */
    struct json_t *extra;        /* {name: arrays} */
    struct json_t *rows;         /* Google Benchmark's */
    struct json_t *energy;       /* the energy pass; NULL: none */
    struct json_t *parts;        /* the instrumented pass (parts.h); NULL: none */
    int64_t batch;               /* operations a sample; 0 before the first warm-up */
    double op_ns;
    double prepare_ns, verify_ns, warmup_ns;
    bool warm;                /* every warm-up settled */
    const char *after_timing; /* "not_run", "passed", "failed" */
    int verified_launch;      /* index of the launch that verified it last; -1 none */
    int visits;               /* preparations so far: launches and, for a ceiling, both of each */
    int complete;             /* launches in which it had its least rounds and passed the check after them */
    int complete_launch;      /* the last of them; -1 none */
    int n_rounds, capacity;
    double *median_ns; /* of each round, one operation */
    int *launch;       /* of each round */
} as_outcome;

typedef struct as_run_state {
    const as_plan *plan;
    as_outcome *outcome;      /* one a case of the plan, ceilings included */
    int launches;             /* launch indices given out so far */
    struct json_t *placement; /* {device: what its last worker read back} */
    char *date;               /* begin of the run, ISO 8601 */
    struct json_t *context;   /* of the journal's header */
    int resumed;
    double clock_cost_ns; /* of one reading of the host clock, as a worker measured it; 0 unknown */
    bool interrupted;
    const struct as_telemetry *telemetry; /* the run's curves; NULL: none */
} as_run_state;

as_status as_run_state_init(as_run_state *s, const as_plan *plan, as_error *e) AS_MUST_CHECK;
void as_run_state_free(as_run_state *s);

/* Applies one record: {"kind": "launch" | "prepared" | "verified" | "warm" | "round" | "checked" | "energy" | "parts" |
 * "status", ...}.
 * AS_EUSAGE for a record that makes no sense for this plan. */
as_status as_run_state_apply(as_run_state *s, const struct json_t *record, as_error *e) AS_MUST_CHECK;

const char *as_case_status_name(as_case_status s);

/* Rounds of the launch, if it is the last one that has any. */
int as_outcome_rounds_in(const as_outcome *o, int launch);

/* Unit medians of a case: launches where it has at least rule.min_units of them, else rounds. `out` holds n_rounds.
 * Returns their number; *scope is "launches" or "within-launch". */
size_t as_outcome_units(const as_outcome *o, const as_stop_rule *rule, double *out, const char **scope);

/* Variance between launches, rounds and samples, of the logarithms of all samples. No degrees of freedom anywhere
 * before the first round. */
as_components as_outcome_components(const as_outcome *o);
/* The same of round medians: no level of samples; their noise is part of the rounds'. What decides where repetitions go,
 * since a median does not see the tails that the samples' own variance consists of. */
as_components as_outcome_round_components(const as_outcome *o);
