/* Nested analysis of variance: a worked example, unequal counts without bias, clipped and unknown components. */
#include "rng.h"
#include "variance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>
#include <math.h>

#define assert_near(a, b, tolerance) assert_true(fabs((a) - (b)) <= (tolerance))

static double uniform_open(as_rng *r) {
    return ((double)as_rng_below(r, (uint64_t)1 << 53) + 0.5) / 9007199254740992.0;
}
static double normal(as_rng *r) {
    const double radius = sqrt(-2.0 * log(uniform_open(r)));
    return radius * cos(6.283185307179586 * uniform_open(r));
}

/* 2 launches of 2 rounds of 2 samples. Round means 1, 3, 7, 9; launch means 2, 8; mean 5.
 * SS samples 4 x 2 = 8 over 4; SS rounds 2 (1 + 1 + 1 + 1) = 8 over 2; SS launches 4 (9 + 9) = 72 over 1.
 * s^2 = 2; r^2 = (4 - 2) / 2 = 1; l^2 = (72 - 2 - 2) / 4 = 17. */
static void a_balanced_example(void **unused) {
    (void)unused;
    const double x[] = {0, 2, 2, 4, 6, 8, 8, 10};
    const size_t count[] = {2, 2, 2, 2};
    const int launch[] = {0, 0, 3, 3}; /* indices of launches need not follow one another */
    const as_components c = as_variance_components(x, count, launch, 4);
    assert_near(c.sample.variance, 2, 1e-12);
    assert_near(c.round.variance, 1, 1e-12);
    assert_near(c.launch.variance, 17, 1e-12);
    assert_true(c.sample.degrees_of_freedom == 4 && c.round.degrees_of_freedom == 2 &&
                c.launch.degrees_of_freedom == 1);
    assert_near(c.sample.relative_sd, sqrt(exp(2) - 1), 1e-12);
    assert_false(c.sample.clipped || c.round.clipped || c.launch.clipped);
}

/* One sample a round: what lies between rounds holds it. 3 launches of 1, 2, 3 rounds: n = 6, k3 = (6 - 14/6) / 2. */
static void one_sample_a_round(void **unused) {
    (void)unused;
    const double x[] = {5, 1, 3, 6, 7, 8};
    const size_t count[] = {1, 1, 1, 1, 1, 1};
    const int launch[] = {0, 1, 1, 2, 2, 2};
    const as_components c = as_variance_components(x, count, launch, 6);
    /* Launch means 5, 2, 7; mean 5. SS rounds 2 + 2 over 3; SS launches 0 + 2 x 9 + 3 x 4 = 30 over 2. */
    assert_true(isnan(c.sample.relative_sd) && c.sample.degrees_of_freedom == 0);
    assert_near(c.round.variance, 4.0 / 3, 1e-12);
    assert_near(c.launch.variance, (15 - 4.0 / 3) / ((6 - 14.0 / 6) / 2), 1e-12);
}

static void unknown_and_clipped(void **unused) {
    (void)unused;
    const double x[] = {1, 3, 1, 3, 1, 3};
    const size_t count[] = {2, 2, 2};
    const int one[] = {0, 0, 0};
    as_components c = as_variance_components(x, count, one, 3); /* rounds that agree better than their samples allow */
    assert_true(c.round.clipped && c.round.variance == 0 && c.round.relative_sd == 0);
    assert_true(c.round.degrees_of_freedom == 2);
    assert_true(isnan(c.launch.variance) && c.launch.degrees_of_freedom == 0 && !c.launch.clipped);
    c = as_variance_components(x, count, one, 0);
    assert_true(c.sample.degrees_of_freedom == 0 && c.round.degrees_of_freedom == 0 &&
                c.launch.degrees_of_freedom == 0);
    c = as_variance_components(x, count, one, 1);
    assert_true(c.sample.degrees_of_freedom == 1 && c.round.degrees_of_freedom == 0);
}

/* The means of the estimates before clipping are the true variances, whatever the counts: 4,000 trials. Spreads are
 * chosen so that few are clipped. */
static void unequal_counts_without_bias(void **unused) {
    (void)unused;
    enum { TRIALS = 4000, LAUNCHES = 8 };
    static const int rounds_of[LAUNCHES] = {1, 3, 2, 6, 3, 1, 4, 2};
    const double l2 = 4, r2 = 1, s2 = 0.25;
    double sum[3] = {0};
    for (uint64_t t = 0; t < TRIALS; t++) {
        as_rng r = {.seed = t, .key = 21};
        double x[256];
        size_t count[64], rounds = 0, n = 0;
        int launch[64];
        for (int i = 0; i < LAUNCHES; i++) {
            const double a = sqrt(l2) * normal(&r);
            for (int j = 0; j < rounds_of[i]; j++) {
                const double b = sqrt(r2) * normal(&r);
                count[rounds] = 1 + as_rng_below(&r, 8);
                launch[rounds] = i;
                for (size_t k = 0; k < count[rounds]; k++)
                    x[n++] = 10 + a + b + sqrt(s2) * normal(&r);
                rounds++;
            }
        }
        const as_components c = as_variance_components(x, count, launch, rounds);
        sum[0] += c.launch.variance / TRIALS;
        sum[1] += c.round.variance / TRIALS;
        sum[2] += c.sample.variance / TRIALS;
    }
    print_message("mean estimates %.3f, %.3f, %.3f of 4, 1, 0.25\n", sum[0], sum[1], sum[2]);
    assert_near(sum[0], l2, 0.15); /* standard errors: 2.5 / sqrt 4000 = 0.04, 0.006, 0.001 */
    assert_near(sum[1], r2, 0.025);
    assert_near(sum[2], s2, 0.005);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_balanced_example),
        cmocka_unit_test(one_sample_a_round),
        cmocka_unit_test(unknown_and_clipped),
        cmocka_unit_test(unequal_counts_without_bias),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
