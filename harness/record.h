/* From the run's state to one JSON document, schema assay.result/1 (results/schema). */
#pragma once

#include "outcome.h"

/* Derived figures of one case; NaN where there is none. */
typedef struct as_figures {
    as_interval time; /* ns of one operation */
    const char *scope;
    double fastest_ns;                        /* median of the fastest round: what a ceiling counts */
    double flop_rate, bandwidth, per_item_ns; /* values at time.value */
    double floor_ns, fraction;                /* of the limiting ceiling */
    const char *limit;                        /* resource that limits */
    int ceiling;                              /* case number of the limiting ceiling; -1 none */
    bool above_limit, ceiling_suspect;
    const char *no_ceiling; /* reason where fraction is NaN */
    bool converged;
} as_figures;

/* Where more launches would help a case: the part between launches is unknown, or the largest one in the variance of
 * its estimate. */
typedef enum as_advice { AS_ADVICE_NONE, AS_ADVICE_ONE_LAUNCH, AS_ADVICE_LAUNCHES_DIFFER } as_advice;
as_advice as_variance_advice(const as_outcome *o);

/* Rate of the ceiling that serves bound `b` of case c, amount a ns; NaN where none was measured. *which: its case number,
 * -1 none. */
double as_case_ceiling_rate(const as_run_state *s, int c, int b, int *which);
as_figures as_case_figures(const as_run_state *s, int c);
/* valid, suspect or invalid; reasons are appended to the JSON array `reasons` (may be NULL). */
const char *as_case_validity(const as_run_state *s, int c, const as_figures *f, struct json_t *reasons);

/* parts[] of a case, and the closure of its breakdown; without an instrumented pass an empty array and null. New
 * objects. `series_ns`: median of the series that the parts are to add up to. */
struct json_t *as_record_parts(const as_run_state *s, int c);
struct json_t *as_record_breakdown(const as_run_state *s, int c, double series_ns);
/* Median of all samples, of one operation; NaN without samples. */
double as_sample_median(const as_outcome *o);

/* The case's row of cases[] or ceilings[]. New object. */
struct json_t *as_record_case(const as_run_state *s, int c);
/* The whole document. `argv` as given. New object. */
struct json_t *as_record_run(const as_run_state *s, int argc, char **argv);
/* context{} as it stands at the run's beginning, for the journal's header. New object. */
struct json_t *as_record_context(const as_plan *plan, int argc, char **argv);
