/* Where repetitions are spent: which cases get the next extra round, and how many rounds a launch deserves. Pure
 * functions, tried by simulation in tests/test_spend.c; formulas in docs/method.md. */
#pragma once

#include "stats.h"
#include "variance.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Further units that a case of n units and this relative half-width is predicted to need for the target, its spread
 * staying as it is: at least 1; 0 where it has converged. Above `most` units in all: SIZE_MAX. */
size_t as_spend_needed(const as_stop_rule *rule, double relative_half_width, size_t n, size_t most);

/* What is left to do for a case: predicted time until it converges. INFINITY: never; 0: nothing. */
typedef struct as_need {
    int which;      /* the caller's number of the case */
    double cost_ns; /* all further rounds together */
} as_need;

/* Sorts `need` by predicted time and returns how many, from the front, get a round in the next pass: the largest number
 * of cases that can all converge within left_ns; where not even the first can, that one alone, since a prediction may
 * be wrong and the time is there. 0 where nothing is left to do. */
int as_spend_pass(as_need *need, int n, double left_ns);

/* Rounds that a launch deserves: sqrt((cost of a launch / cost of a round) (variance between rounds / between
 * launches)), to the nearest, between least and most; `least` where either variance is unknown (no degrees of
 * freedom). Kalibera and Jones, "Rigorous Benchmarking in Reasonable Time", ISMM 2013, section 6. */
int as_spend_rounds(double launch_cost_ns, double round_cost_ns, const as_component *between_launches,
                    const as_component *between_rounds, int least, int most);

#ifdef __cplusplus
}
#endif
