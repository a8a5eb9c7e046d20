/* Statistics of measurements: robust location and spread, Student t intervals on logarithms, percentiles
 * with the confidence that their sample supports, and the stop rule. Formulas: docs/method.md. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Median; mean of the two middle values for even n; NaN for n = 0. `x` is not changed (a copy is sorted). */
double as_stats_median(const double *x, size_t n);
/* Median absolute deviation from the median, unscaled; NaN for n = 0. */
double as_stats_mad(const double *x, size_t n);
/* Quantile by linear interpolation between order statistics (Hyndman & Fan type 7); x sorted ascending. */
double as_stats_quantile_sorted(const double *x, size_t n, double p);
void as_stats_sort(double *x, size_t n);

/* Quantile of Student's t: P(T <= t) = p with df degrees of freedom (df >= 1). Absolute error < 1e-9. */
double as_stats_t_quantile(double p, double df);

/* Estimate with a two-sided interval. low and high are NaN where n < 2. */
typedef struct as_interval {
    double value; /* exp(mean of logs) of the unit medians */
    double low, high;
    double relative_half_width; /* exp(w t s / sqrt n) - 1; INFINITY where n < 2 */
    size_t units;
} as_interval;
/* Student t on the logarithms of n positive unit medians: exp(mean +- w t s / sqrt n), t with n - 1 degrees of
 * freedom, w = 1 for n <= 6, else 1 + (3 / n) (1 - 6 / n), which pays for the stop rule's looks. A value <= 0 or not
 * finite: everything NaN. */
as_interval as_stats_interval(const double *unit_medians, size_t n, double confidence);

/* Half-width of the interval of logarithms over their standard deviation: w(n) t / sqrt n; INFINITY for n < 2. */
double as_stats_width_factor(size_t n, double confidence);

/* Confidence with which n samples fix percentile p (0 < p < 1) within a margin of (1 - p) / 20 in probability:
 * erf(z / sqrt 2), z = margin sqrt(n / (p (1 - p))). 24,576 samples give P90 at 99%; P99 takes 270,336. */
double as_stats_percentile_confidence(double p, size_t n);

/* The stop rule: no stop before min_units; then when the relative half-width reaches the target. */
typedef struct as_stop_rule {
    size_t min_units;  /* 6 */
    double target;     /* relative half-width: 0.05 quick, 0.02 standard, 0.01 publish */
    double confidence; /* 0.95 */
} as_stop_rule;
/* Half-width that the rule looks at, over the target: <= 1 means converged; INFINITY before min_units. */
double as_stop_excess(const as_stop_rule *rule, const double *unit_medians, size_t n);

/* Warm-up test: true when the last windows of block medians neither trend nor jump (docs/method.md states it). */
bool as_stats_warm(const double *block_ns, size_t n, double tolerance);

#ifdef __cplusplus
}
#endif
