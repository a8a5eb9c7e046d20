/* Command line: one table holds every option with its argument, help and legal values. */
#pragma once

#include "status.h"
#include "suite.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { AS_MAX_NAMES = 16 };

/* A list option such as --suite a --suite b,c. */
typedef struct as_names {
    int count;
    const char *name[AS_MAX_NAMES];
} as_names;

typedef struct as_options {
    const char *command; /* "list", "run", "verify" */
    as_names suites, devices;
    const char *filter; /* extended regular expression over ids; NULL: all */
    const char *cases;  /* file with one id a line; NULL: all */
    as_profile profile;
    int64_t budget_ns;  /* wall time of the whole run; 0: the profile's */
    int64_t timeout_ns; /* a stage of one case may take this long at most before its worker is replaced */
    int64_t wait_ns;    /* for a GPU that another run uses; 0: refused at once */
    int launches;
    uint64_t seed;
    const char *cpus;
    int64_t gpu;    /* index of the accelerator to use; -1: all visible */
    int64_t rounds; /* fixed number of rounds a launch; 0: the stop rule decides */
    const char *out, *resume;
    const char *exec, *exec_name;
    bool strict, dry_run, if_present, json, quiet, list_only;
    bool ceilings;
    int telemetry; /* 1 on, 0 off; after parsing never -1 */
    int energy;    /* the same: a pass a case for energy by operation */
    int chosen;    /* options given besides --resume, --quiet and --wait: 0 lets --resume take up the journal's */
} as_options;

/* Fills `o` from argv[1..]. AS_EUSAGE names the option and the remedy. *help is set if help was asked for.
 * `o` points into argv and into `storage`, which the caller frees with as_options_free. */
as_status as_options_parse(as_options *o, int argc, char **argv, bool *help, as_error *e) AS_MUST_CHECK;
void as_options_free(as_options *o);
void as_options_help(FILE *to); /* the options and the exit codes; command.c prints the commands */

/* "20s", "500ms", "4m", "1h", "90" (seconds); > 0 and below 30 days. */
as_status as_parse_duration(const char *text, int64_t *ns, as_error *e) AS_MUST_CHECK;
const char *as_profile_name(as_profile p);
as_status as_profile_parse(const char *text, as_profile *out, as_error *e) AS_MUST_CHECK;
