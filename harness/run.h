/* A run as one sentence: plan, place, prepare, verify, measure, record. */
#pragma once

#include "options.h"

/* `assay run` and `assay verify`. *exit_code is set where AS_OK is returned; see the table in docs/architecture.md. */
as_status as_run(const as_registry *registry, const as_options *o, int argc, char **argv, int *exit_code,
                 as_error *e) AS_MUST_CHECK;

/* ---- table.c ---- */
typedef struct as_run_state as_run_state;
typedef struct as_summary {
    int done, failed, skipped, lost, not_reached, suspect, unconverged;
    int ceilings_out, beside_suspect; /* ceilings that were not measured; percentages of a suspect one */
    int one_launch, launches_differ;  /* as_advice of the cases; of those that have not converged */
} as_summary;
as_summary as_summarise(const as_run_state *s);
/* The closing table and the counted warnings, to standard output. */
void as_print_table(const as_run_state *s, bool verify_only);

/* ---- python.c ---- */
/* Hands argv to the Python package (python -m reports ...): does not return on success. AS_EENV names what is missing.
 */
as_status as_python_exec(int argc, char **argv, as_error *e) AS_MUST_CHECK;
