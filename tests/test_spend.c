/* Where repetitions go: predicted rounds, the pass that the most cases can converge in, rounds that a launch deserves;
 * both policies of extra rounds by simulation, under the same budget and the same noise. */
#include "rng.h"
#include "spend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

static const as_stop_rule rule = {.min_units = 6, .target = 0.05, .confidence = 0.95};
enum { MOST = 200 };

static double uniform_open(as_rng *r) {
    return ((double)as_rng_below(r, (uint64_t)1 << 53) + 0.5) / 9007199254740992.0;
}
static double normal(as_rng *r) {
    const double radius = sqrt(-2.0 * log(uniform_open(r)));
    return radius * cos(6.283185307179586 * uniform_open(r));
}

/* ---- predictions ---- */

static void predicted_rounds(void **unused) {
    (void)unused;
    assert_int_equal(as_spend_needed(&rule, 0.05, 6, MOST), 0);
    assert_int_equal(as_spend_needed(&rule, INFINITY, 2, MOST), 4); /* the least number of units first */
    assert_int_equal(as_spend_needed(&rule, 0.01, 5, MOST), 1);     /* narrow, and too early to say so */
    assert_true(as_spend_needed(&rule, NAN, 8, MOST) == SIZE_MAX);  /* unusable medians never converge */
    assert_true(as_spend_needed(&rule, 0.9, 6, MOST) == SIZE_MAX);  /* not within 200 */
    assert_true(as_spend_needed(&rule, 0.1, MOST, MOST) == SIZE_MAX);
    /* The predicted n is the least whose interval, with the spread of now, is narrow enough. */
    static const double widths[] = {0.0501, 0.06, 0.1, 0.2};
    static const size_t units[] = {6, 9, 30};
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < 3; k++) {
            const size_t n = units[k], needed = as_spend_needed(&rule, widths[i], n, 2000);
            const double s = log1p(widths[i]) / as_stats_width_factor(n, 0.95);
            assert_true(needed >= 1 && needed < 2000);
            assert_true(expm1(s * as_stats_width_factor(n + needed, 0.95)) <= 0.05);
            assert_true(needed == 1 || expm1(s * as_stats_width_factor(n + needed - 1, 0.95)) > 0.05);
        }
}

static void a_pass_takes_the_cheapest_that_fit_together(void **unused) {
    (void)unused;
    as_need need[] = {{0, 50}, {1, INFINITY}, {2, 0}, {3, 10}, {4, 30}};
    assert_int_equal(as_spend_pass(need, 5, 60), 2); /* 10 + 30; 50 more would not fit */
    assert_true(need[0].which == 3 && need[1].which == 4 && need[2].which == 0);
    as_need dear[] = {{0, 50}, {1, 70}, {2, 0}};
    assert_int_equal(as_spend_pass(dear, 3, 20), 1); /* none fits: the nearest gets the rest */
    assert_int_equal(dear[0].which, 0);
    as_need hopeless[] = {{0, INFINITY}};
    assert_int_equal(as_spend_pass(hopeless, 1, 20), 1);
    as_need done[] = {{0, 0}, {1, 0}};
    assert_int_equal(as_spend_pass(done, 2, 20), 0);
    as_need late[] = {{0, 5}};
    assert_int_equal(as_spend_pass(late, 1, 0), 0);
}

static void rounds_that_a_launch_deserves(void **unused) {
    (void)unused;
    const as_component small = {.variance = 1e-4, .degrees_of_freedom = 5},
                       large = {.variance = 16e-4, .degrees_of_freedom = 5},
                       none = {.degrees_of_freedom = 5, .clipped = true}, unknown = {.variance = NAN};
    assert_int_equal(as_spend_rounds(4, 1, &small, &small, 1, 20), 2);    /* sqrt(4) */
    assert_int_equal(as_spend_rounds(4, 1, &small, &large, 1, 20), 8);    /* sqrt(4 x 16) */
    assert_int_equal(as_spend_rounds(4, 1, &large, &small, 1, 20), 1);    /* sqrt(4 / 16), at least 1 */
    assert_int_equal(as_spend_rounds(900, 1, &small, &large, 1, 20), 20); /* bounded */
    assert_int_equal(as_spend_rounds(4, 1, &none, &small, 1, 20), 20);    /* launches agree */
    assert_int_equal(as_spend_rounds(4, 1, &small, &none, 1, 20), 1);     /* rounds agree */
    assert_int_equal(as_spend_rounds(4, 1, &unknown, &small, 3, 20), 3);
    assert_int_equal(as_spend_rounds(4, 1, &small, &unknown, 3, 20), 3);
}

/* The optimum is one: with the cost of L launches of n rounds fixed, no other n gives a smaller variance. */
static void the_optimum_is_the_least_variance(void **unused) {
    (void)unused;
    const as_component l = {.variance = 1e-4, .degrees_of_freedom = 5}, r = {.variance = 9e-4, .degrees_of_freedom = 5};
    const double launch = 300, round = 30, budget = 60000;
    const int best = as_spend_rounds(launch, round, &l, &r, 1, 100); /* sqrt(10 x 9) = 9.5 */
    double least = INFINITY;
    int at = 0;
    for (int n = 1; n <= 100; n++) {
        const double launches = budget / (launch + n * round), variance = (l.variance + r.variance / n) / launches;
        if (variance < least) {
            least = variance;
            at = n;
        }
    }
    assert_true(abs(at - best) <= 1);
}

/* ---- the policies ---- */

enum { CASES = 60 };
typedef enum { WIDEST, PASSES } policy;
typedef struct machine {
    double unit[CASES][MOST]; /* the medians that the rounds will have: the same for both policies */
    double cost[CASES];
} machine;

static void make_machine(machine *m, uint64_t seed) {
    as_rng r = {.seed = seed, .key = 11};
    for (int c = 0; c < CASES; c++) {
        const double sigma = 0.02 * pow(15.0, uniform_open(&r)); /* 2% to 30%, evenly in its logarithm */
        m->cost[c] = uniform_open(&r) < 0.2 ? 5 : 1;             /* some operations are longer than a round */
        for (int i = 0; i < MOST; i++)
            m->unit[c][i] = 1000 * exp(sigma * normal(&r));
    }
}

/* What is known of the cases so far; widths and predictions change only with a round. */
typedef struct progress {
    const machine *m;
    policy how;
    size_t n[CASES];
    double width[CASES], cost[CASES];
    double left;
} progress;

static void look(progress *p, int c) {
    p->width[c] = as_stats_interval(p->m->unit[c], p->n[c], rule.confidence).relative_half_width;
    if (p->how == WIDEST)
        return;
    const size_t more = as_spend_needed(&rule, p->width[c], p->n[c], MOST);
    p->cost[c] = p->n[c] == MOST ? 0 : more == SIZE_MAX ? INFINITY : (double)more * p->m->cost[c];
}

static void one_round(progress *p, int c) {
    p->n[c]++;
    p->left -= p->m->cost[c];
    look(p, c);
}

static bool widest_first(progress *p) {
    int widest = -1;
    double worst = rule.target;
    for (int c = 0; c < CASES; c++)
        if (p->n[c] < MOST && p->width[c] > worst) {
            worst = p->width[c];
            widest = c;
        }
    if (widest >= 0)
        one_round(p, widest);
    return widest >= 0;
}

static bool one_pass(progress *p) {
    as_need need[CASES];
    for (int c = 0; c < CASES; c++)
        need[c] = (as_need){c, p->cost[c]};
    const int pass = as_spend_pass(need, CASES, p->left);
    for (int i = 0; i < pass && p->left > 0; i++)
        one_round(p, need[i].which);
    return pass > 0;
}

/* 6 rounds each, then `budget` of extra time. Returns the number of converged cases. */
static int spend(progress *p, const machine *m, policy how, double budget) {
    int count = 0;
    *p = (progress){.m = m, .how = how, .left = budget};
    for (int c = 0; c < CASES; c++) {
        p->n[c] = 6;
        look(p, c);
    }
    while (p->left > 0 && (how == WIDEST ? widest_first(p) : one_pass(p)))
        ;
    for (int c = 0; c < CASES; c++)
        count += p->width[c] <= rule.target;
    return count;
}

static void more_cases_converge(void **unused) {
    (void)unused;
    enum { RUNS = 10 };
    static machine m;
    static const double budgets[] = {100, 300, 1000, 3000};
    for (size_t b = 0; b < 4; b++) {
        double sum[2] = {0};
        progress p;
        for (uint64_t seed = 0; seed < RUNS; seed++) {
            make_machine(&m, seed);
            for (int how = WIDEST; how <= PASSES; how++)
                sum[how] += (double)spend(&p, &m, (policy)how, budgets[b]) / RUNS;
        }
        print_message("%5.0f rounds for %d cases: %.1f converge by the widest first, %.1f by passes\n", budgets[b],
                      CASES, sum[WIDEST], sum[PASSES]);
        assert_true(sum[PASSES] > sum[WIDEST] + 8);
    }
}

/* Passes stop for the cases whose spread looks small: that must not spoil what their intervals promise. */
static void intervals_still_cover(void **unused) {
    (void)unused;
    enum { RUNS = 80 };
    static machine m;
    progress p;
    int held = 0;
    for (uint64_t seed = 1000; seed < 1000 + RUNS; seed++) {
        make_machine(&m, seed);
        spend(&p, &m, PASSES, 300);
        for (int c = 0; c < CASES; c++) {
            const as_interval i = as_stats_interval(m.unit[c], p.n[c], rule.confidence);
            held += i.low <= 1000 && 1000 <= i.high;
        }
    }
    const double share = (double)held / (RUNS * CASES);
    print_message("coverage under a budget, by passes: %.1f%%\n", 100 * share);
    assert_true(share >= 0.93 && share <= 0.97);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predicted_rounds),
        cmocka_unit_test(a_pass_takes_the_cheapest_that_fit_together),
        cmocka_unit_test(rounds_that_a_launch_deserves),
        cmocka_unit_test(the_optimum_is_the_least_variance),
        cmocka_unit_test(more_cases_converge),
        cmocka_unit_test(intervals_still_cover),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
