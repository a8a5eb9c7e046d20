/* Nested analysis of variance, unequal counts: Searle, Casella, McCulloch, "Variance Components" (1992), section 3.6.
 *
 * With N samples, R rounds and L launches; n_ij samples in round j of launch i, n_i in launch i:
 *   mean squares  S = SS within rounds / (N - R),  M = SS of rounds within launches / (R - L),
 *                 T = SS of launches / (L - 1)
 *   expected      E S = s^2,  E M = s^2 + k1 r^2,  E T = s^2 + k2 r^2 + k3 l^2
 *   k1 = (N - sum n_ij^2 / n_i) / (R - L)
 *   k2 = (sum n_ij^2 / n_i - sum n_ij^2 / N) / (L - 1)
 *   k3 = (N - sum n_i^2 / N) / (L - 1) */
#include "variance.h"

#include <math.h>

/* A mean and the sum of squares around it, of weighted values (Welford; West, CACM 22, 1979). */
typedef struct moments {
    double weight, mean, squares;
} moments;

static void add(moments *m, double x, double weight) {
    const double delta = x - m->mean;
    m->weight += weight;
    m->mean += delta * weight / m->weight;
    m->squares += weight * delta * (x - m->mean);
}

static as_component component(double variance, double degrees_of_freedom) {
    if (!(degrees_of_freedom > 0))
        return (as_component){.variance = NAN, .relative_sd = NAN};
    as_component c = {.variance = variance, .degrees_of_freedom = degrees_of_freedom};
    if (variance < 0) {
        c.variance = 0;
        c.clipped = true;
    }
    c.relative_sd = sqrt(expm1(c.variance));
    return c;
}

as_components as_variance_components(const double *log_x, const size_t *count, const int *launch, size_t rounds) {
    moments all = {0}, group = {0};
    double within_rounds = 0, within_launches = 0, launches = 0;
    double squares = 0, ratio = 0, launch_squares = 0, group_squares = 0; /* of the counts */
    for (size_t r = 0, at = 0; r < rounds; at += count[r], r++) {
        moments round = {0};
        for (size_t k = 0; k < count[r]; k++)
            add(&round, log_x[at + k], 1);
        within_rounds += round.squares;
        if (r == 0 || launch[r] != launch[r - 1]) {
            group = (moments){0};
            group_squares = 0;
            launches++;
        }
        add(&group, round.mean, round.weight);
        squares += round.weight * round.weight;
        group_squares += round.weight * round.weight;
        if (r + 1 == rounds || launch[r + 1] != launch[r]) {
            within_launches += group.squares;
            ratio += group_squares / group.weight;
            launch_squares += group.weight * group.weight;
            add(&all, group.mean, group.weight);
        }
    }
    const double n = all.weight, r = (double)rounds;
    const double sample_df = n - r, round_df = r - launches, launch_df = launches - 1;
    const double s = sample_df > 0 ? within_rounds / sample_df : 0; /* one sample a round: it is part of the round's */
    const double round_ms = within_launches / round_df, k1 = (n - ratio) / round_df;
    const double round_variance = round_df > 0 ? (round_ms - s) / k1 : 0;
    const double k2 = (ratio - squares / n) / launch_df, k3 = (n - launch_squares / n) / launch_df;
    const double launch_variance = (all.squares / launch_df - s - k2 * round_variance) / k3;
    return (as_components){.launch = component(launch_variance, launch_df),
                           .round = component(round_variance, round_df),
                           .sample = component(s, sample_df)};
}
