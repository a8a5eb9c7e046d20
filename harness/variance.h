/* Levels of variance: samples within rounds within launches, as a nested analysis of variance on logarithms with
 * unequal counts. Formulas: docs/method.md. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct as_component {
    double variance;           /* of logarithms: what this level alone adds; 0 where the estimate was negative */
    double relative_sd;        /* sqrt(exp(variance) - 1); NaN without degrees of freedom */
    double degrees_of_freedom; /* of the level's mean square; 0: unknown, one group only */
    bool clipped;              /* the estimate was negative */
} as_component;

typedef struct as_components {
    as_component launch, round, sample;
} as_components;

/* `log_x`: logarithms of all samples, round after round; round r has count[r] of them (at least 1) and stands in launch
 * launch[r]; rounds of a launch follow one another. Sums are accumulated around means: no cancellation. */
as_components as_variance_components(const double *log_x, const size_t *count, const int *launch, size_t rounds);

#ifdef __cplusplus
}
#endif
