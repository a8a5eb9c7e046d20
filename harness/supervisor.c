/* The order of a run: launches, devices, ceilings and groups; rounds in seeded random order; the stop rule. */
#include "supervisor.h"

#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

volatile int as_interrupted;

/* A set of cases that are prepared together and whose rounds interleave. */
typedef struct set {
    int *member; /* case numbers still in the running */
    int *order;  /* room for as many: the order of a round */
    int count;
    int launch; /* launch index in which they were prepared */
    int min_rounds;
    bool extra;       /* the stop rule may ask for more rounds */
    int64_t until_ns; /* extra rounds end here */
} set;

static bool pending(const as_supervisor *s, int c) { return s->state->outcome[c].status == AS_PENDING; }

static void drop_member(set *x, int at) {
    memmove(x->member + at, x->member + at + 1, sizeof *x->member * (size_t)(x->count - at - 1));
    x->count--;
}

static int rounds_in_launch(const as_outcome *o, int launch) {
    int n = 0;
    for (int i = o->n_rounds - 1; i >= 0 && o->launch[i] == launch; i--)
        n++;
    return n;
}

/* Runs one stage over the set; a case that falls out is dropped from it. False: the run must end (*fatal) or the
 * worker was replaced and the set must be prepared again. */
typedef bool (*stage_fn)(as_supervisor *s, int c, as_status *fatal, as_error *e);

static bool each(as_supervisor *s, set *x, stage_fn fn, as_status *fatal, as_error *e) {
    for (int i = 0; i < x->count;) {
        const int c = x->member[i];
        if (as_now_ns() > s->deadline_ns && s->state->outcome[c].n_rounds == 0 && !s->verify_only) {
            *fatal = as_case_finish(s, c, AS_NOT_REACHED, "the budget was spent before its rounds; raise --budget", e);
            as_stage_release(s, c);
            drop_member(x, i);
        } else if (!fn(s, c, fatal, e)) {
            drop_member(x, i);
        } else {
            i++;
            continue;
        }
        if (*fatal != AS_OK || x->launch != s->launch)
            return false;
    }
    return true;
}

static bool ready(as_supervisor *s, set *x, as_status *fatal, as_error *e) {
    x->launch = s->launch;
    return each(s, x, as_stage_prepare, fatal, e) && each(s, x, as_stage_verify, fatal, e) &&
           (s->verify_only || each(s, x, as_stage_warmup, fatal, e));
}

/* After warm-up the real cost is known: what cannot have its rounds before the deadline goes, lowest priority first. */
static as_status trim(as_supervisor *s, set *x, as_error *e) {
    for (;;) {
        double need = 0;
        int last = -1;
        for (int i = 0; i < x->count; i++) {
            const as_outcome *o = &s->state->outcome[x->member[i]];
            const double sample = o->op_ns * (double)o->batch, round = fmax(sample, s->plan->limits.round_ns);
            need += x->min_rounds * (round + 1e6);
            if (o->n_rounds == 0 && !s->plan->cases[x->member[i]].ceiling &&
                (last < 0 || s->plan->cases[x->member[i]].priority >= s->plan->cases[x->member[last]].priority))
                last = i;
        }
        if (last < 0 || need <= (double)(s->deadline_ns - as_now_ns()))
            return AS_OK;
        as_stage_release(s, x->member[last]);
        AS_TRY(as_case_finish(s, x->member[last], AS_NOT_REACHED,
                              "slower than planned: the budget does not hold its rounds; "
                              "raise --budget",
                              e));
        drop_member(x, last);
    }
}

/* One round of every member in seeded random order. */
static bool round_of_all(as_supervisor *s, set *x, as_rng *rng, as_status *fatal, as_error *e) {
    int *const order = x->order;
    const int n = x->count;
    memcpy(order, x->member, sizeof *order * (size_t)n);
    as_rng_shuffle(rng, order, (size_t)n);
    for (int k = 0; k < n; k++) {
        if (as_stage_round(s, order[k], k, fatal, e))
            continue;
        for (int i = 0; i < x->count; i++)
            if (x->member[i] == order[k]) {
                drop_member(x, i);
                break;
            }
        if (*fatal != AS_OK || x->launch != s->launch)
            return false;
    }
    return true;
}

static double excess(const as_supervisor *s, int c) {
    const as_outcome *o = &s->state->outcome[c];
    double units[4096];
    const char *scope;
    if (o->n_rounds == 0 || o->n_rounds > 4096)
        return 0;
    const size_t n = as_outcome_units(o, &s->plan->rule, units, &scope);
    return strcmp(scope, "launches") == 0 ? 0 : as_stop_excess(&s->plan->rule, units, n); /* rounds narrow no launch */
}

/* Extra rounds to the interval that is widest against its target, until all have converged or the time is spent. */
static bool extra_rounds(as_supervisor *s, set *x, as_status *fatal, as_error *e) {
    enum { MOST_ROUNDS = 200 };
    while (as_now_ns() < x->until_ns) {
        int widest = -1;
        double worst = 1;
        for (int i = 0; i < x->count; i++) {
            const double w = excess(s, x->member[i]);
            if (w > worst && s->state->outcome[x->member[i]].n_rounds < MOST_ROUNDS) {
                worst = w;
                widest = i;
            }
        }
        if (widest < 0)
            return true;
        if (!as_stage_round(s, x->member[widest], 0, fatal, e)) {
            drop_member(x, widest);
            if (*fatal != AS_OK || x->launch != s->launch)
                return false;
        }
    }
    return true;
}

static bool all_rounds(as_supervisor *s, set *x, as_status *fatal, as_error *e) {
    for (;;) {
        int fewest = x->min_rounds;
        for (int i = 0; i < x->count; i++) {
            const int n = rounds_in_launch(&s->state->outcome[x->member[i]], s->launch);
            fewest = n < fewest ? n : fewest;
        }
        if (fewest >= x->min_rounds || x->count == 0)
            break;
        as_rng rng = {.seed = s->plan->options->seed,
                      .key = 0x6f726472u,
                      .counter = (uint64_t)s->launch << 40 | (uint64_t)fewest << 24};
        if (!round_of_all(s, x, &rng, fatal, e))
            return false;
    }
    return !x->extra || extra_rounds(s, x, fatal, e);
}

/* prepare, verify, warm up, rounds, check, release. A replaced worker starts it over for those still in the running;
 * their rounds so far stay, under their own launch index. */
static as_status run_set(as_supervisor *s, set *x, bool last_visit, as_error *e) {
    as_status fatal = AS_OK;
    bool complete = false;
    for (int attempt = 0; x->count > 0 && !complete && attempt <= s->plan->count; attempt++) {
        if (ready(s, x, &fatal, e)) {
            if (s->verify_only) {
                complete = true;
                break;
            }
            AS_TRY(trim(s, x, e));
            if (x->launch != s->launch) /* a release failed: a fresh worker, nothing is prepared in it */
                continue;
            complete = all_rounds(s, x, &fatal, e) && (!last_visit || each(s, x, as_stage_energy, &fatal, e)) &&
                       each(s, x, as_stage_check, &fatal, e);
        }
        AS_TRY(fatal);
    }
    for (int i = 0; i < x->count; i++) {
        as_stage_release(s, x->member[i]);
        if (last_visit)
            AS_TRY(as_case_finish(s, x->member[i], complete ? AS_DONE : AS_LOST,
                                  complete ? NULL : "its worker was replaced too often", e));
    }
    return AS_OK;
}

/* ---- which cases ---- */

/* Launches in which a case has all its rounds: a resumed run does not repeat them. */
static int launches_complete(const as_supervisor *s, int c) {
    const as_outcome *o = &s->state->outcome[c];
    int complete = 0;
    for (int i = 0, n = 0; i < o->n_rounds; i++) {
        n = i > 0 && o->launch[i] == o->launch[i - 1] ? n + 1 : 1;
        complete += n == s->plan->min_rounds;
    }
    return complete;
}

static int collect(as_supervisor *s, const as_device *device, int launch, int group, int *member) {
    const bool last = launch == s->plan->options->launches - 1; /* the last one finishes what is pending */
    int n = 0;
    for (int i = 0; i < s->plan->count; i++) {
        const as_case *c = &s->plan->cases[i];
        if (c->device == device && !c->ceiling && c->group == group && pending(s, i) &&
            (last || launches_complete(s, i) <= launch))
            member[n++] = i;
    }
    return n;
}

static int collect_ceilings(as_supervisor *s, const as_device *device, int *member) {
    int n = 0;
    for (int i = 0; i < s->plan->count; i++)
        if (s->plan->cases[i].device == device && s->plan->cases[i].ceiling && pending(s, i))
            member[n++] = i;
    return n;
}

/* Time for extra rounds of a set: what is left after the reserve of all that is still to come, in proportion. */
static int64_t extra_until(const as_supervisor *s, const set *x, int launch) {
    double later = 0, mine = 0, energy = 0; /* the set's energy passes come after its extra rounds */
    for (int i = 0; i < s->plan->count; i++)
        if (pending(s, i) && s->state->outcome[i].n_rounds == 0)
            later += s->plan->cases[i].cost_ns;
        else if (pending(s, i) && s->plan->cases[i].ceiling) /* their second visit, at the end */
            later += s->plan->cases[i].cost_ns / 2;
    for (int i = 0; i < x->count; i++)
        mine += s->plan->cases[x->member[i]].cost_ns, energy += s->plan->cases[x->member[i]].energy_ns;
    const double now = (double)as_now_ns(), free_ns = (double)s->deadline_ns - now - fmax(later, mine);
    const double share = fmax(later, mine) > 0 ? mine / fmax(later, mine) : 1;
    const int launches_left = s->plan->options->launches - launch;
    /* Lower bound: mine is spent on the set's own stages, before the extra rounds begin. */
    return (int64_t)(now + mine - energy + fmax(0, free_ns) * share / (launches_left > 0 ? launches_left : 1));
}

/* Visit 1 at the beginning of a launch, visit 2 at its end: half of the rounds each. */
static as_status run_ceilings(as_supervisor *s, const as_device *device, int *member, int visit, bool finish,
                              as_error *e) {
    set x = {.member = member,
             .order = member + s->plan->count,
             .count = collect_ceilings(s, device, member),
             .min_rounds = visit * s->plan->ceiling_rounds};
    return s->verify_only && visit == 1 ? AS_OK : run_set(s, &x, finish, e);
}

static as_status run_device(as_supervisor *s, const as_device *device, int launch, int *member, as_error *e) {
    int any = 0;
    const bool last = launch == s->plan->options->launches - 1;
    for (int g = 0; g < s->plan->groups; g++)
        any += collect(s, device, launch, g, member);
    if (any == 0 && !(last && collect_ceilings(s, device, member) > 0))
        return AS_OK;
    AS_TRY(as_worker_start(s, device, e));
    AS_TRY(run_ceilings(s, device, member, 1, false, e));
    for (int g = 0; g < s->plan->groups; g++) {
        set x = {.member = member,
                 .order = member + s->plan->count,
                 .count = collect(s, device, launch, g, member),
                 .min_rounds = s->plan->min_rounds};
        x.extra = s->plan->options->rounds == 0 && s->plan->options->launches < (int)s->plan->rule.min_units;
        x.until_ns = extra_until(s, &x, launch);
        AS_TRY(run_set(s, &x, last, e));
    }
    AS_TRY(run_ceilings(s, device, member, 2, last, e));
    as_worker_end(s);
    return AS_OK;
}

/* ---- signals and the whole ---- */

static void on_signal(int number) { as_interrupted = number; }

as_status as_supervise(as_supervisor *s, as_error *e) {
    struct sigaction act = {.sa_handler = on_signal}, old_int, old_term;
    sigaction(SIGINT, &act, &old_int);
    sigaction(SIGTERM, &act, &old_term);
    int *member = malloc(sizeof *member * 2 * (size_t)(s->plan->count + 1));
    as_status status = member ? AS_OK : as_fail(e, AS_ENOMEM, "out of memory");
    s->deadline_ns = as_now_ns() + s->plan->budget_ns;
    for (int launch = 0; launch < s->plan->options->launches && status == AS_OK; launch++)
        for (int d = 0; d < s->plan->machine.devices && status == AS_OK; d++)
            status = run_device(s, &s->plan->machine.device[d], launch, member, e);
    char how[128];
    as_worker_stop(s, how);
    free(member);
    sigaction(SIGINT, &old_int, NULL);
    sigaction(SIGTERM, &old_term, NULL);
    for (int i = 0; i < s->plan->count; i++)
        if (status == AS_EINTR && pending(s, i)) { /* in the partial result only: the journal has no such record */
            as_outcome *o = &s->state->outcome[i];
            o->status = AS_NOT_REACHED;
            snprintf(o->reason, sizeof o->reason,
                     o->n_rounds ? "interrupted: --resume goes on after %d rounds" : "interrupted", o->n_rounds);
        }
    s->state->interrupted = status == AS_EINTR;
    return status;
}
