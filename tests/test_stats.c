/* Statistics against tables, known distributions and simulation with the stop rule in it. */
#include "rng.h"
#include "stats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>
#include <math.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define assert_near(a, b, tolerance) assert_true(fabs((a) - (b)) <= (tolerance))

/* Seeded noise for the simulations; exact normals (Box-Muller) from unbiased integers. */
static double uniform_open(as_rng *r) {
    return ((double)as_rng_below(r, (uint64_t)1 << 53) + 0.5) / 9007199254740992.0; /* never 0 or 1 */
}
static double normal(as_rng *r) {
    const double radius = sqrt(-2.0 * log(uniform_open(r)));
    return radius * cos(6.283185307179586 * uniform_open(r));
}

static void medians(void **unused) {
    (void)unused;
    const double odd[] = {5, 1, 3}, even[] = {4, 1, 3, 2}, two[] = {10, 1}, one[] = {7};
    assert_true(as_stats_median(odd, 3) == 3 && as_stats_median(even, 4) == 2.5);
    assert_true(as_stats_median(two, 2) == 5.5 && as_stats_median(one, 1) == 7);
    assert_true(isnan(as_stats_median(NULL, 0)) && isnan(as_stats_mad(NULL, 0)));
    assert_true(even[0] == 4 && even[3] == 2); /* the input is not sorted in place */
    const double huge[] = {1.7e308, 1.7e308};
    assert_true(as_stats_median(huge, 2) == 1.7e308); /* the mean of the middle two does not overflow */
    const double nan[] = {1, NAN, 3};
    assert_true(isnan(as_stats_median(nan, 3)));
    double many[1001];
    for (int i = 0; i < 1001; i++)
        many[i] = (i * 376) % 1001;
    assert_true(as_stats_median(many, 1001) == 500 && as_stats_mad(many, 1001) == 250);
    assert_true(as_stats_median(many, 1000) > 498 && as_stats_median(many, 1000) < 502);
}

static void mad(void **unused) {
    (void)unused;
    const double x[] = {1, 1, 2, 2, 4, 6, 9}; /* median 2, distances 1 1 0 0 2 4 7 */
    assert_true(as_stats_mad(x, 7) == 1);
    const double y[] = {1, 2, 4, 8}; /* median 3, distances 2 1 1 5 */
    assert_true(as_stats_mad(y, 4) == 1.5);
    const double constant[] = {3, 3, 3};
    assert_true(as_stats_mad(constant, 3) == 0);
}

/* R: quantile(c(1, 2, 4, 8, 16), p), whose default is type 7. */
static void quantiles(void **unused) {
    (void)unused;
    double x[] = {16, 1, 8, 4, 2};
    as_stats_sort(x, 5);
    assert_true(x[0] == 1 && x[4] == 16);
    assert_near(as_stats_quantile_sorted(x, 5, 0.0), 1, 0);
    assert_near(as_stats_quantile_sorted(x, 5, 0.1), 1.4, 1e-12);
    assert_near(as_stats_quantile_sorted(x, 5, 0.5), 4, 0);
    assert_near(as_stats_quantile_sorted(x, 5, 0.9), 12.8, 1e-12);
    assert_near(as_stats_quantile_sorted(x, 5, 1.0), 16, 0);
    assert_true(as_stats_quantile_sorted(x, 1, 0.99) == 1);
    assert_true(isnan(as_stats_quantile_sorted(x, 0, 0.5)) && isnan(as_stats_quantile_sorted(x, 5, 1.1)));
    assert_true(isnan(as_stats_quantile_sorted(x, 5, NAN)));
}

/* Values of scipy.stats.t.ppf 1.17.1 (double precision); closed forms for 1 and 2 degrees of freedom below. */
static void t_quantiles_match_tables(void **unused) {
    (void)unused;
    static const struct {
        double df, p975, p995;
    } t[] = {
        {1, 12.706204736175, 63.656741162872},   {2, 4.3026527297495, 9.9248432009183},
        {5, 2.5705818356363, 4.0321429835552},   {10, 2.2281388519863, 3.169272672617},
        {30, 2.0422724563012, 2.7499956535672},  {39, 2.0226909200368, 2.7079131835177},
        {1000, 1.9623390808264, 2.580754698066}, {1001, 1.9623367052809, 2.5807497687505},
        {1e6, 1.9599663568141, 2.5758342201053},
    };
    for (size_t i = 0; i < COUNT(t); i++) {
        assert_near(as_stats_t_quantile(0.975, t[i].df), t[i].p975, 1e-9);
        assert_near(as_stats_t_quantile(0.995, t[i].df), t[i].p995, 1e-9);
        assert_near(as_stats_t_quantile(0.025, t[i].df), -t[i].p975, 1e-9);
    }
    for (double p = 0.51; p < 0.9995; p += 0.01) {
        assert_near(as_stats_t_quantile(p, 1), tan(3.141592653589793 * (p - 0.5)), 1e-9);
        assert_near(as_stats_t_quantile(p, 2), (2 * p - 1) / sqrt(2 * p * (1 - p)), 1e-9);
        /* Both sides of the change of method agree to the step that one degree of freedom makes, (z^3 + z) / 4 df^2 */
        assert_near(as_stats_t_quantile(p, 1000), as_stats_t_quantile(p, 1000.001), 1e-8);
    }
    assert_true(as_stats_t_quantile(0.5, 3) == 0);
    assert_near(as_stats_t_quantile(0.975, INFINITY), 1.959963984540054, 1e-9);
    assert_true(isnan(as_stats_t_quantile(0, 3)) && isnan(as_stats_t_quantile(1, 3)));
    assert_true(isnan(as_stats_t_quantile(0.5, 0.5)) && isnan(as_stats_t_quantile(NAN, 3)));
}

static void intervals(void **unused) {
    (void)unused;
    /* logs 0, 1, 2: mean 1, s 1, t(0.975, 2) = 4.302652729911275, half-width t / sqrt 3 */
    const double x[] = {1, exp(1), exp(2)}, half = 4.302652729911275 / sqrt(3);
    const as_interval i = as_stats_interval(x, 3, 0.95);
    assert_near(i.value, exp(1), 1e-12);
    assert_near(i.low, exp(1 - half), 1e-9);
    assert_near(i.high, exp(1 + half), 1e-8);
    assert_near(i.relative_half_width, exp(half) - 1, 1e-8);
    assert_int_equal(i.units, 3);
    /* From the 7th unit on, the price of the stop rule's looks: 1 + 3/12 (1 - 6/12) = 1.125 for 12 units. */
    const double twelve[] = {1, exp(1), 1, exp(1), 1, exp(1), 1, exp(1), 1, exp(1), 1, exp(1)};
    const double wide = 1.125 * 2.200985160082949 * sqrt(3.0 / 11) / sqrt(12); /* s^2 = 12 (1/2)^2 / 11 */
    assert_near(as_stats_interval(twelve, 12, 0.95).relative_half_width, exp(wide) - 1, 1e-9);
    assert_near(as_stats_interval(twelve, 6, 0.95).relative_half_width,
                exp(2.570581835636314 * sqrt(0.3) / sqrt(6)) - 1, 1e-9); /* s^2 = 6 (1/2)^2 / 5 */
    const double constant[] = {5, 5, 5, 5};
    const as_interval c = as_stats_interval(constant, 4, 0.95);
    assert_true(c.relative_half_width == 0 && fabs(c.value - 5) < 1e-12 && c.low == c.high);
    const as_interval one = as_stats_interval(x + 1, 1, 0.95);
    assert_near(one.value, exp(1), 1e-12);
    assert_true(isnan(one.low) && isnan(one.high) && isinf(one.relative_half_width));
    const as_interval none = as_stats_interval(NULL, 0, 0.95);
    assert_true(isnan(none.value) && isinf(none.relative_half_width));
    const double bad[][3] = {{1, 0, 2}, {1, -1, 2}, {1, NAN, 2}, {1, INFINITY, 2}};
    for (size_t k = 0; k < COUNT(bad); k++) {
        const as_interval b = as_stats_interval(bad[k], 3, 0.95);
        assert_true(isnan(b.value) && isnan(b.low) && isnan(b.high) && isnan(b.relative_half_width));
    }
}

static void stop_rule(void **unused) {
    (void)unused;
    const as_stop_rule rule = {.min_units = 6, .target = 0.05, .confidence = 0.95};
    const double same[6] = {3, 3, 3, 3, 3, 3};
    for (size_t n = 0; n < 6; n++)
        assert_true(isinf(as_stop_excess(&rule, same, n))); /* even perfect agreement does not stop before 6 */
    assert_true(as_stop_excess(&rule, same, 6) == 0);
    const double wide[6] = {1, 2, 1, 2, 1, 2}, zero[6] = {3, 3, 0, 3, 3, 3};
    assert_near(as_stop_excess(&rule, wide, 6), as_stats_interval(wide, 6, 0.95).relative_half_width / 0.05, 1e-12);
    assert_true(as_stop_excess(&rule, wide, 6) > 1);
    assert_true(isinf(as_stop_excess(&rule, zero, 6))); /* unusable medians never count as converged */
}

/* Share of trials whose interval, taken where the rule stops, holds the true median. */
static double coverage(double sigma, double target, int trials, double *mean_units) {
    enum { MOST = 40 };
    const as_stop_rule rule = {.min_units = 6, .target = target, .confidence = 0.95};
    as_rng r = {.seed = 20240611, .key = 1, .counter = 0};
    int held = 0;
    double units = 0;
    for (int k = 0; k < trials; k++) {
        double x[MOST];
        size_t n = 0;
        do
            x[n++] = 1000.0 * exp(sigma * normal(&r));
        while (n < MOST && as_stop_excess(&rule, x, n) > 1.0);
        const as_interval i = as_stats_interval(x, n, 0.95);
        held += i.low <= 1000.0 && 1000.0 <= i.high;
        units += (double)n / trials;
    }
    *mean_units = units;
    return (double)held / trials;
}

static void coverage_with_the_stop_rule(void **unused) {
    (void)unused;
    /* Unit spreads that stop at once, on the way, and not before the budget of 40 units. */
    static const struct {
        double sigma, target, least_units, most_units;
    } c[] = {{0.02, 0.05, 6, 6.5}, {0.05, 0.05, 6, 9},   {0.08, 0.05, 9, 17},
             {0.10, 0.05, 12, 25}, {0.12, 0.05, 20, 35}, {0.50, 0.05, 39.99, 40.01}};
    for (size_t i = 0; i < COUNT(c); i++) {
        double units;
        const double share = coverage(c[i].sigma, c[i].target, 4000, &units);
        print_message("sigma %.2f: coverage %.1f%%, %.1f units\n", c[i].sigma, 100 * share, units);
        assert_true(share >= 0.93 && share <= 0.97);
        assert_true(units >= c[i].least_units && units <= c[i].most_units);
    }
}

static void percentile_confidence(void **unused) {
    (void)unused;
    assert_near(as_stats_percentile_confidence(0.90, 24576), 0.99, 0.002);
    assert_near(as_stats_percentile_confidence(0.99, 270336), 0.99, 0.002);
    assert_true(as_stats_percentile_confidence(0.99, 1000) < 0.2); /* P99 needs many samples */
    assert_true(as_stats_percentile_confidence(0.5, 0) == 0);
    assert_true(isnan(as_stats_percentile_confidence(1.0, 100)) && isnan(as_stats_percentile_confidence(0.0, 100)));
    /* The statement itself by simulation: P90 of 2,000 uniforms lies within 0.9 +- 0.005 with that confidence. */
    as_rng r = {.seed = 3, .key = 4, .counter = 0};
    int within = 0;
    enum { TRIALS = 1000, N = 2000 };
    for (int k = 0; k < TRIALS; k++) {
        double x[N];
        for (int i = 0; i < N; i++)
            x[i] = uniform_open(&r);
        as_stats_sort(x, N);
        within += fabs(as_stats_quantile_sorted(x, N, 0.9) - 0.9) <= 0.005;
    }
    assert_near((double)within / TRIALS, as_stats_percentile_confidence(0.9, N), 0.05);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(medians),
        cmocka_unit_test(mad),
        cmocka_unit_test(quantiles),
        cmocka_unit_test(t_quantiles_match_tables),
        cmocka_unit_test(intervals),
        cmocka_unit_test(stop_rule),
        cmocka_unit_test(coverage_with_the_stop_rule),
        cmocka_unit_test(percentile_confidence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
