/* One finding of `assay doctor`: what a check saw on this machine, and the remedy. Host checks (doctor*.c) and the
 * drivers' health functions make the same thing. */
#pragma once

#include "status.h"
#include "suite.h"

#ifdef __cplusplus
extern "C" {
#endif

struct json_t;

/* In rising order of harm. `unknown` stands below a warning: it says nothing of the machine. */
typedef enum as_fitness {
    AS_FIT_OK,
    AS_FIT_NOTE,    /* a property to know when numbers are compared; nothing is wrong */
    AS_FIT_UNKNOWN, /* could not be read; `found` says why */
    AS_FIT_WARNING, /* spoils results from the profile of its rule on */
    AS_FIT_UNFIT,   /* what was asked cannot be measured here */
} as_fitness;

/* What is constant of a check. Text is one line of ASCII. */
typedef struct as_check_rule {
    const char *name;      /* "governor" */
    const char *looks_at;  /* files, counters or calls */
    const char *why;       /* what it does to a result */
    as_profile warns_from; /* a warning in a run of a smaller profile is a note */
} as_check_rule;

typedef struct as_finding {
    const as_check_rule *rule;
    as_fitness status;
    char found[256];  /* with units; the reason where the status is unknown */
    char remedy[384]; /* the exact command or setting; "" only where the status is ok */
} as_finding;

/* Sets status and `found`; the remedy is emptied. */
void as_found(as_finding *f, as_fitness status, const char *fmt, ...) AS_PRINTF(3, 4);
/* Appends to the remedy. */
void as_remedy(as_finding *f, const char *fmt, ...) AS_PRINTF(2, 3);

const char *as_fitness_name(as_fitness s); /* "ok", "note", "unknown", "warning", "unfit" */
/* New object: subject, check, status, found, why, remedy (null where ok), looks_at, warns_from. Bytes that are no
 * printable ASCII become '?'. */
struct json_t *as_finding_json(const as_finding *f, const char *subject);

#ifdef __cplusplus
}
#endif
