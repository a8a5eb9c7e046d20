/* The single-node test cases of nvbandwidth 0.8 and the cases here that measure the same under its own meaning. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

typedef struct as_nvbandwidth_case {
    const char *name;     /* as nvbandwidth lists it */
    const char *variant;  /* of suite memcpy */
    const char *axes;     /* "bytes=536870912;dir=h2d" */
    const char *reported; /* what nvbandwidth prints, in our figures */
    bool two_gpus;        /* needs a second GPU with peer access */
} as_nvbandwidth_case;

extern const as_nvbandwidth_case as_nvbandwidth_cases[]; /* ends at name NULL */

/* The table of docs/nvbandwidth.md, as it stands there. */
void as_nvbandwidth_print(FILE *to);
