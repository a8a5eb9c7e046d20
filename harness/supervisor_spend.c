/* What free time is spent on: which level of repetition, and which case. The arithmetic is in spend.c. */
#include "spend.h"
#include "supervisor.h"

#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_ROUNDS = 200,   /* of a case in all */
    MOST_IN_LAUNCH = 20, /* where several launches are measured */
    PILOT_ROUNDS = 3,    /* of the first launches, so that the spread between rounds is known */
    LEAST_SAMPLES = 30,  /* a median of fewer is no longer that of a distribution */
    MOST_SHORTENING = 8, /* a round keeps at least this part of its time */
    LEAST_FREEDOM = 2,   /* degrees of freedom below which a variance decides nothing */
};
static const double ROUND_OVERHEAD_NS = 2e6; /* command, counters, Google Benchmark, journal and its fsync */

/* ---- costs ---- */

static double round_ns(const as_supervisor *s, int c) {
    const as_outcome *o = &s->state->outcome[c];
    return as_round_samples(s, c) * o->op_ns * (double)o->batch + ROUND_OVERHEAD_NS;
}

/* One visit without its rounds, as measured; the check after them costs what verification did. */
static double visit_overhead_ns(const as_outcome *o) {
    return (o->prepare_ns + o->verify_ns * 2 + o->warmup_ns) / (o->visits > 0 ? o->visits : 1);
}

/* What is reserved for a case: the visits that it has not had yet. */
static double reserve_ns(const as_supervisor *s, int c) {
    const as_case *k = &s->plan->cases[c];
    const as_outcome *o = &s->state->outcome[c];
    if (o->status != AS_PENDING || o->visits >= k->visits)
        return 0;
    const int rounds = k->ceiling ? s->plan->ceiling_rounds : s->plan->min_rounds;
    const double one = o->visits > 0 && o->n_rounds > 0 ? visit_overhead_ns(o) + rounds * round_ns(s, c) : k->visit_ns;
    return one * (k->visits - o->visits);
}

/* Energy passes come after the extra rounds of their set. */
static double energy_ns(const as_supervisor *s, int c) {
    const as_outcome *o = &s->state->outcome[c];
    return o->status == AS_PENDING && !o->energy ? s->plan->cases[c].energy_ns : 0;
}

double as_spend_reserved_ns(const as_supervisor *s) {
    double sum = 0;
    for (int i = 0; i < s->plan->count; i++)
        sum += reserve_ns(s, i) + energy_ns(s, i);
    return sum;
}

int64_t as_spend_until(const as_supervisor *s, const int *member, int n) {
    double cases = 0, mine = 0;
    for (int i = 0; i < s->plan->count; i++)
        cases += s->plan->cases[i].ceiling ? 0 : reserve_ns(s, i); /* ceilings have no extra rounds */
    for (int i = 0; i < n; i++) {
        const int left = s->plan->cases[member[i]].visits - s->state->outcome[member[i]].visits;
        mine += reserve_ns(s, member[i]) / (left > 0 ? left : 1);
    }
    const double now = (double)as_now_ns(), free_ns = (double)s->deadline_ns - now - as_spend_reserved_ns(s);
    return (int64_t)(now + mine + fmax(0, free_ns) * (cases > 0 ? mine / cases : 1));
}

/* ---- levels ---- */

/* Samples that a round deserves: the same optimum one level further in, between a round's fixed cost and a sample's. */
static int deserved_samples(const as_supervisor *s, int c) {
    const as_outcome *o = &s->state->outcome[c];
    const as_components all = as_outcome_components(o);
    const double sample_ns = o->op_ns * (double)o->batch;
    const int full = as_round_samples(s, c);
    int least = full / MOST_SHORTENING > LEAST_SAMPLES ? full / MOST_SHORTENING : LEAST_SAMPLES;
    least = least < full ? least : full;
    if (all.round.degrees_of_freedom < LEAST_FREEDOM || !(all.sample.degrees_of_freedom > 0))
        return full;
    return as_spend_rounds(ROUND_OVERHEAD_NS, sample_ns, &all.round, &all.sample, least, full);
}

void as_spend_plan(as_supervisor *s, const as_device *device, int launch) {
    const int least = s->plan->min_rounds;
    for (int c = 0; c < s->plan->count; c++) {
        const as_outcome *o = &s->state->outcome[c];
        as_share *share = &s->share[c];
        if (s->plan->cases[c].device != device || s->plan->cases[c].ceiling)
            continue;
        *share = (as_share){.rounds = least > PILOT_ROUNDS ? least : PILOT_ROUNDS};
        if (launch == 0 || o->n_rounds == 0 || s->plan->options->rounds != 0)
            continue;
        const as_components x = as_outcome_round_components(o);
        share->samples = deserved_samples(s, c);
        if (x.launch.degrees_of_freedom >= LEAST_FREEDOM && x.round.degrees_of_freedom >= LEAST_FREEDOM)
            share->rounds = as_spend_rounds(visit_overhead_ns(o), round_ns(s, c), &x.launch, &x.round, least,
                                            least > MOST_IN_LAUNCH ? least : MOST_IN_LAUNCH);
    }
}

/* ---- cases ---- */

double as_spend_case_ns(const as_supervisor *s, int c, bool last_launch) {
    const as_outcome *o = &s->state->outcome[c];
    const as_stop_rule *rule = &s->plan->rule;
    const int launches = s->plan->options->launches;
    if (o->n_rounds == 0 || o->n_rounds >= MOST_ROUNDS)
        return 0;
    if (launches > 1 && (!last_launch || launches >= (int)rule->min_units)) { /* the launches are, or will be, units */
        const int missing = s->share[c].rounds - as_outcome_rounds_in(o, s->launch);
        return missing > 0 ? missing * round_ns(s, c) : 0;
    }
    double units[MOST_ROUNDS];
    const char *scope;
    const size_t n = as_outcome_units(o, rule, units, &scope);
    if (strcmp(scope, "launches") == 0) /* a resumed run: rounds narrow no launch */
        return 0;
    const double width = as_stats_interval(units, n, rule->confidence).relative_half_width;
    const size_t needed = as_spend_needed(rule, width, n, MOST_ROUNDS);
    return needed == SIZE_MAX ? INFINITY : (double)needed * round_ns(s, c);
}
