#include "spend.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

size_t as_spend_needed(const as_stop_rule *rule, double relative_half_width, size_t n, size_t most) {
    if (n >= rule->min_units && relative_half_width <= rule->target)
        return 0;
    if (n < rule->min_units || !isfinite(relative_half_width))
        return n < rule->min_units ? rule->min_units - n : SIZE_MAX;
    /* The half-width of logarithms is s times a factor that falls with n: the least n whose factor is small enough. */
    const double factor = as_stats_width_factor(n, rule->confidence) * log1p(rule->target) / log1p(relative_half_width);
    if (most <= n || as_stats_width_factor(most, rule->confidence) > factor)
        return SIZE_MAX;
    size_t low = n, high = most;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        *(as_stats_width_factor(middle, rule->confidence) > factor ? &low : &high) = middle;
    }
    return high - n;
}

static int by_cost(const void *a, const void *b) {
    const as_need *x = a, *y = b;
    if (x->cost_ns != y->cost_ns)
        return x->cost_ns < y->cost_ns ? -1 : 1;
    return x->which - y->which;
}

int as_spend_pass(as_need *need, int n, double left_ns) {
    qsort(need, (size_t)n, sizeof *need, by_cost);
    int first = 0;
    while (first < n && need[first].cost_ns <= 0)
        first++;
    for (int i = first; i < n; i++) /* the converged go behind the others */
        need[i - first] = need[i];
    const int open = n - first;
    int fit = 0;
    for (double used = 0; fit < open && used + need[fit].cost_ns <= left_ns; fit++)
        used += need[fit].cost_ns;
    return fit > 0 ? fit : open > 0 && left_ns > 0;
}

int as_spend_rounds(double launch_cost_ns, double round_cost_ns, const as_component *between_launches,
                    const as_component *between_rounds, int least, int most) {
    if (!(between_launches->degrees_of_freedom > 0) || !(between_rounds->degrees_of_freedom > 0) ||
        !(round_cost_ns > 0))
        return least;
    if (between_rounds->variance <= 0)
        return least;
    if (between_launches->variance <= 0)
        return most;
    const double n =
        round(sqrt(launch_cost_ns / round_cost_ns * between_rounds->variance / between_launches->variance));
    return n < least ? least : n > most ? most : (int)n;
}
