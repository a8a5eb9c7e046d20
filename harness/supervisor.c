/* The order of a run: launches, devices, ceilings and groups; rounds in seeded random order; the stop rule. */
#include "supervisor.h"
#include "spend.h"

#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
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
    bool extra;            /* free time may give more rounds */
    bool last_launch;      /* of the cases' device */
    int64_t until_ns;      /* extra rounds end here */
    bool no_check, paused; /* ceilings: their first visit of a launch; their second one, verified in the first */
} set;

static bool pending(const as_supervisor *s, int c) { return s->state->outcome[c].status == AS_PENDING; }

static void drop_member(set *x, int at) {
    memmove(x->member + at, x->member + at + 1, sizeof *x->member * (size_t)(x->count - at - 1));
    x->count--;
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

/* The second visit of a ceiling in the same process: its output was checked before the first. */
static bool verify_unless_paused(as_supervisor *s, int c, as_status *fatal, as_error *e) {
    return s->state->outcome[c].verified_launch == s->launch || as_stage_verify(s, c, fatal, e);
}

static bool ready(as_supervisor *s, set *x, as_status *fatal, as_error *e) {
    x->launch = s->launch;
    return each(s, x, as_stage_prepare, fatal, e) &&
           each(s, x, x->paused ? verify_unless_paused : as_stage_verify, fatal, e) &&
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

static void drop_case(set *x, int c) {
    for (int i = 0; i < x->count; i++)
        if (x->member[i] == c) {
            drop_member(x, i);
            return;
        }
}

/* One round of the first n cases of x->order, in seeded random order, as long as there is time. */
static bool pass(as_supervisor *s, set *x, int n, uint64_t number, int64_t until_ns, as_status *fatal, as_error *e) {
    as_rng rng = {
        .seed = s->plan->options->seed, .key = 0x6f726472u, .counter = (uint64_t)s->launch << 40 | number << 24};
    as_rng_shuffle(&rng, x->order, (size_t)n);
    for (int k = 0; k < n && as_now_ns() < until_ns; k++) {
        const int c = x->order[k];
        if (as_stage_round(s, c, k, fatal, e))
            continue;
        drop_case(x, c);
        if (*fatal != AS_OK || x->launch != s->launch)
            return false;
    }
    return true;
}

/* Extra rounds, pass by pass, to the cases that can converge in the time left: first those that need least of it. */
static bool extra_rounds(as_supervisor *s, set *x, uint64_t number, as_status *fatal, as_error *e) {
    as_need *need = malloc(sizeof *need * (size_t)(x->count + 1));
    bool alive = need != NULL;
    if (!need)
        *fatal = as_fail(e, AS_ENOMEM, "out of memory");
    for (int n = 1; alive && n > 0; number++) {
        for (int i = 0; i < x->count; i++)
            need[i] = (as_need){x->member[i], as_spend_case_ns(s, x->member[i], x->last_launch)};
        n = as_spend_pass(need, x->count, (double)(x->until_ns - as_now_ns()));
        for (int i = 0; i < n; i++)
            x->order[i] = need[i].which;
        alive = pass(s, x, n, number, x->until_ns, fatal, e);
    }
    free(need);
    return alive;
}

static bool all_rounds(as_supervisor *s, set *x, as_status *fatal, as_error *e) {
    for (;;) {
        int fewest = x->min_rounds;
        for (int i = 0; i < x->count; i++) {
            const int n = as_outcome_rounds_in(&s->state->outcome[x->member[i]], s->launch);
            fewest = n < fewest ? n : fewest;
        }
        if (fewest >= x->min_rounds || x->count == 0)
            return !x->extra || extra_rounds(s, x, (uint64_t)x->min_rounds, fatal, e);
        memcpy(x->order, x->member, sizeof *x->order * (size_t)x->count);
        if (!pass(s, x, x->count, (uint64_t)fewest, INT64_MAX, fatal, e))
            return false;
    }
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
            complete = all_rounds(s, x, &fatal, e) &&
                       (!last_visit || x->no_check || each(s, x, as_stage_parts, &fatal, e)) &&
                       (!last_visit || x->no_check || each(s, x, as_stage_energy, &fatal, e)) &&
                       (x->no_check || each(s, x, as_stage_check, &fatal, e));
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

static int collect(as_supervisor *s, const as_device *device, int launch, int group, int *member) {
    int n = 0;
    for (int i = 0; i < s->plan->count; i++) {
        const as_case *c = &s->plan->cases[i]; /* a resumed run does not repeat a launch that is complete */
        if (c->device == device && !c->ceiling && c->group == group && pending(s, i) &&
            s->state->outcome[i].complete <= launch)
            member[n++] = i;
    }
    return n;
}

/* group -1: of all. */
static int collect_ceilings(as_supervisor *s, const as_device *device, int launch, int group, int *member) {
    int n = 0;
    for (int i = 0; i < s->plan->count; i++) {
        const as_case *c = &s->plan->cases[i];
        if (c->device == device && c->ceiling && (group < 0 || c->group == group) && pending(s, i) &&
            s->state->outcome[i].complete <= launch)
            member[n++] = i;
    }
    return n;
}

/* Visit 1 at the beginning of a launch, visit 2 at its end: half of the rounds each. */
static as_status run_ceilings(as_supervisor *s, const as_device *device, int launch, int visit, int *member,
                              as_error *e) {
    const bool finish = visit == 2 && launch == s->plan->options->launches - 1;
    for (int g = 0; g < s->plan->groups; g++) {
        set x = {.member = member,
                 .order = member + s->plan->count,
                 .count = collect_ceilings(s, device, launch, g, member),
                 .min_rounds = visit * s->plan->ceiling_rounds,
                 .no_check = visit == 1,
                 .paused = visit == 2};
        if (!s->verify_only || visit == 2)
            AS_TRY(run_set(s, &x, finish, e));
    }
    return AS_OK;
}

static as_status run_device(as_supervisor *s, const as_device *device, int launch, int *member, as_error *e) {
    int any = 0;
    const bool last = launch == s->plan->options->launches - 1;
    for (int g = 0; g < s->plan->groups; g++)
        any += collect(s, device, launch, g, member);
    if (any == 0 && !(last && collect_ceilings(s, device, launch, -1, member) > 0))
        return AS_OK;
    AS_TRY(as_worker_start(s, device, e));
    as_spend_plan(s, device, launch);
    AS_TRY(run_ceilings(s, device, launch, 1, member, e));
    for (int g = 0; g < s->plan->groups; g++) {
        set x = {.member = member,
                 .order = member + s->plan->count,
                 .count = collect(s, device, launch, g, member),
                 .min_rounds = s->plan->min_rounds,
                 .extra = s->plan->options->rounds == 0,
                 .last_launch = last};
        x.until_ns = as_spend_until(s, x.member, x.count);
        AS_TRY(run_set(s, &x, last, e));
    }
    AS_TRY(run_ceilings(s, device, launch, 2, member, e));
    as_worker_end(s);
    return AS_OK;
}

/* Accelerators before the host: what they do not need flows on to where intervals are wider (on the host of an H200 54
 * of 67 cases were open at the end, on the GPU none of 91), and no device is visited twice. */
static as_status run_launch(as_supervisor *s, int launch, int *member, as_error *e) {
    for (int host = 0; host <= 1; host++)
        for (int d = 0; d < s->plan->machine.devices; d++)
            if ((s->plan->machine.device[d].driver == &as_cpu_driver) == (host == 1))
                AS_TRY(run_device(s, &s->plan->machine.device[d], launch, member, e));
    return AS_OK;
}

/* Cases and ceilings with this many complete launches need no more: all, where a run was killed before it could say
 * so; 1, where the budget ended the others. */
static as_status finish_complete(as_supervisor *s, int launches, as_error *e) {
    for (int i = 0; i < s->plan->count; i++)
        if (pending(s, i) && s->state->outcome[i].complete >= launches)
            AS_TRY(as_case_finish(s, i, AS_DONE, NULL, e));
    return AS_OK;
}

/* Before a later launch, when costs are known: fewer cases with all their launches rather than all of them with too few
 * to be units. The lowest priority goes first. */
static as_status fit_launches(as_supervisor *s, as_error *e) {
    const double slack = 0.1 * (double)s->plan->budget_ns;
    for (;;) {
        int last = -1, cases = 0;
        for (int i = 0; i < s->plan->count; i++)
            if (!s->plan->cases[i].ceiling && pending(s, i)) {
                cases++;
                if (last < 0 || s->plan->cases[i].priority >= s->plan->cases[last].priority)
                    last = i;
            }
        if (cases <= 1 || as_spend_reserved_ns(s) <= (double)(s->deadline_ns - as_now_ns()) + slack)
            return AS_OK;
        AS_TRY(as_case_finish(s, last, AS_NOT_REACHED,
                              "slower than planned: the budget does not hold all its launches; raise --budget", e));
    }
}

static as_status run_launches(as_supervisor *s, int *member, as_error *e) {
    const int launches = s->plan->options->launches;
    if (s->state->resumed)
        AS_TRY(finish_complete(s, launches, e));
    for (int launch = 0; launch < launches; launch++) {
        if (launch > 0 && !s->verify_only)
            AS_TRY(fit_launches(s, e));
        AS_TRY(run_launch(s, launch, member, e));
    }
    return AS_OK;
}

/* ---- signals and the whole ---- */

static void on_signal(int number) { as_interrupted = number; }

/* A terminal or a connection that closes sends SIGHUP; under nohup it stays ignored. */
static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
enum { SIGNALS = sizeof signals / sizeof *signals };

static void take_signals(struct sigaction old[]) {
    const struct sigaction act = {.sa_handler = on_signal};
    for (int i = 0; i < SIGNALS; i++) {
        sigaction(signals[i], &act, &old[i]);
        if (signals[i] == SIGHUP && old[i].sa_handler == SIG_IGN)
            sigaction(SIGHUP, &old[i], NULL);
    }
}

as_status as_supervise(as_supervisor *s, as_error *e) {
    struct sigaction old[SIGNALS];
    take_signals(old);
    int *member = malloc(sizeof *member * 2 * (size_t)(s->plan->count + 1));
    s->share = calloc((size_t)s->plan->count + 1, sizeof *s->share);
    s->deadline_ns = as_now_ns() + s->plan->budget_ns - s->journal->spent_ns; /* a resumed run has what was left */
    const as_status status = member && s->share ? run_launches(s, member, e) : as_fail(e, AS_ENOMEM, "out of memory");
    char how[128];
    as_worker_stop(s, how);
    free(member);
    free(s->share);
    s->share = NULL;
    for (int i = 0; i < SIGNALS; i++)
        sigaction(signals[i], &old[i], NULL);
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
