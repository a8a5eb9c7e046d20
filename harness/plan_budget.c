#include "plan_budget.h"
#include "energy.h"
#include "measure.h"
#include "plan_cases.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

/* ---- memory and groups ---- */

enum { MOST_COPIES = 16384 };

static size_t operand_bytes(const as_work *w) {
    size_t sum = 0;
    for (int i = 0; i < w->operands; i++)
        sum += (size_t)w->operand[i].count * as_dtype_bytes(w->operand[i].type);
    return sum;
}

static void size_case(as_case *c) {
    size_t bytes = operand_bytes(&c->work), cache = c->device->last_level_cache_bytes;
    c->copies = 1;
    if (as_case_is_cold(c) && bytes > 0)
        c->copies = (int)ceil(3.0 * (double)cache /
                              (double)(c->work.working_set_bytes > 0 ? c->work.working_set_bytes : (int64_t)bytes));
    if (c->copies < 1)
        c->copies = 1;
    if (c->copies > MOST_COPIES)
        c->drop_reason =
            "too small for a cold run: it would take over 16384 copies to leave the cache; take a larger size";
    c->bytes = (bytes + (size_t)c->work.state_bytes) * (size_t)c->copies;
}

static void say_largest(as_case *c, double room) {
    char fits[160] = "";
    if (c->suite->largest)
        c->suite->largest(&c->params, c->variant, c->device, room / c->copies, fits);
    const bool large = c->bytes >= 1000000000;
    snprintf(c->drop_text, sizeof c->drop_text, "needs %.1f %s, more than 60%% of the free memory%s%s",
             (double)c->bytes * (large ? 1e-9 : 1e-6), large ? "GB" : "MB", *fits ? ": " : "", fits);
    c->drop_reason = c->drop_text;
}

/* First fit in plan order; cases of one group are prepared together. */
static void pack(as_plan *plan, int d, bool ceilings) {
    const double room = 0.6 * (double)plan->machine.free_bytes[d];
    double used = 0;
    int group = plan->groups;
    bool any = false;
    for (int i = 0; i < plan->count; i++) {
        as_case *c = &plan->cases[i];
        if (c->device != &plan->machine.device[d] || c->ceiling != ceilings)
            continue;
        if ((double)c->bytes > room && room > 0) {
            say_largest(c, room);
            continue;
        }
        if (any && used + (double)c->bytes > room) {
            group++;
            used = 0;
        }
        c->group = group;
        used += (double)c->bytes;
        any = true;
    }
    plan->groups = any ? group + 1 : group;
}

void as_plan_pack(as_plan *plan) {
    for (int i = 0; i < plan->count; i++)
        size_case(&plan->cases[i]);
    for (int d = 0; d < plan->machine.devices; d++) {
        pack(plan, d, true);
        pack(plan, d, false);
    }
}

/* ---- estimates ---- */

/* Host memory that must be filled; an accelerator fills its own at its own bandwidth. */
static double host_bytes(const as_case *c) {
    double sum = 0;
    for (int i = 0; i < c->work.operands; i++)
        if (c->device->driver == &as_cpu_driver || c->work.operand[i].memory != AS_MEM_DEVICE)
            sum += (double)c->work.operand[i].count * as_dtype_bytes(c->work.operand[i].type);
    return sum * c->copies;
}

/* A visit is one preparation of a case in a worker with all that follows up to its release. Cases have one a launch; a
 * ceiling has two, the first without a check and the second without verification. */
static void estimate(const as_plan *plan, as_case *c) {
    const as_profile_limits *l = &plan->limits;
    const int launches = plan->options->launches;
    const double op = c->work.predicted_ns > 0 ? c->work.predicted_ns : 1000;
    const double round = op > l->round_ns ? op : l->round_ns;
    /* Measured on an H200's host: 0.5 ns a byte to allocate and fill, 0.6 ns to check; references at 1.4 GFLOP/s, which
     * several launches share. */
    const double reference = c->work.reference_ns > 0 ? c->work.reference_ns : fmin(c->work.flops, 3e8) * 0.7,
                 check = (double)operand_bytes(&c->work) * 0.6;
    const int checks = c->ceiling ? 1 : 2, rounds = c->ceiling ? plan->ceiling_rounds : plan->min_rounds;
    c->visits = c->ceiling ? 2 * launches : launches;
    c->visit_ns = host_bytes(c) * 0.5 + checks * (check + (launches > 1 ? 0 : reference)) + l->warmup_ns * 0.5 +
                  4 * op + rounds * (round + 2e6);
    c->cost_ns = (launches > 1 ? reference : 0) + c->visits * c->visit_ns +
                 (c->variant->breakdown ? as_measure_parts_cost_ns(op) : 0);
}

/* Start-up: 2 s in all, and 1 s more for each later launch of an accelerator, whose context is made anew. */
static double start_ns(const as_plan *plan) {
    double sum = 2e9;
    for (int d = 0; d < plan->machine.devices; d++) {
        bool used = false;
        for (int i = 0; i < plan->count; i++)
            used = used || plan->cases[i].device == &plan->machine.device[d];
        if (used && plan->machine.device[d].driver != &as_cpu_driver)
            sum += 1e9 * (plan->options->launches - 1);
    }
    return sum;
}

/* ---- the budget ---- */

static int by_priority(const void *a, const void *b) {
    const as_case *const *x = a, *const *y = b;
    if ((*x)->priority != (*y)->priority)
        return (*x)->priority - (*y)->priority;
    return *x < *y ? -1 : *x > *y;
}

typedef struct ledger {
    as_plan *plan;
    bool *kept;            /* by case number: a ceiling that is taken */
    double used, ceilings; /* ns reserved in all, and of it for ceilings */
    double most, most_for_ceilings;
} ledger;

typedef void (*ceiling_fn)(ledger *l, int ceiling, double *sum);

static void each_ceiling(ledger *l, const as_case *c, ceiling_fn fn, double *sum) {
    for (int b = 0; b < c->work.bounds; b++)
        for (int r = 0; r < AS_MAX_CEILING_REFS && c->ceiling_of[b][r] >= 0; r++)
            fn(l, c->ceiling_of[b][r], sum);
}

/* What is not taken yet; INFINITY where one cannot be measured at all. A ceiling that two bounds name counts twice here,
 * which errs on the safe side. */
static void add_missing(ledger *l, int ceiling, double *sum) {
    if (!l->kept[ceiling])
        *sum += l->plan->cases[ceiling].drop_reason ? INFINITY : l->plan->cases[ceiling].cost_ns;
}

static void take(ledger *l, int ceiling, double *sum) {
    l->kept[ceiling] = true;
    (void)sum;
}

/* A case and its ceilings: all of them or none, since the best of a part of them would be too low a limit. */
static void reserve(ledger *l, as_case *c) {
    double ceilings = 0;
    if (l->used + c->cost_ns > l->most) {
        c->drop_reason = "it does not fit the budget beside cases of higher priority; raise --budget";
        return;
    }
    l->used += c->cost_ns;
    each_ceiling(l, c, add_missing, &ceilings);
    if (l->ceilings + ceilings > l->most_for_ceilings || l->used + ceilings > l->most)
        return;
    l->ceilings += ceilings;
    l->used += ceilings;
    each_ceiling(l, c, take, NULL);
}

/* A ceiling that is asked for is reserved like a case. */
static void reserve_asked(ledger *l, int ceiling) {
    as_case *c = &l->plan->cases[ceiling];
    if (l->kept[ceiling] || !c->asked || c->drop_reason)
        return;
    if (l->used + c->cost_ns > l->most) {
        c->drop_reason = "it does not fit the budget beside what has higher priority; raise --budget";
        return;
    }
    l->kept[ceiling] = true;
    l->used += c->cost_ns;
}

static void mark_named(ledger *l, int ceiling, double *sum) {
    (void)sum;
    if (!l->kept[ceiling] && !l->plan->cases[ceiling].drop_reason)
        l->plan->cases[ceiling].drop_reason =
            "ceilings take at most 15% of the budget, and those of a case stand together or not at all; raise --budget";
}

/* Energy passes get what the cases and ceilings leave, by the same priorities: they push no case out. */
static void allot_energy(ledger *l, as_case *c) {
    const int d = (int)(c->device - l->plan->machine.device);
    const double cost = as_energy_cost_ns(c->work.predicted_ns);
    c->no_energy = json_string_value(l->plan->machine.no_energy[d]);
    if (!c->no_energy && l->used + cost > l->most)
        c->no_energy = "the budget does not hold an energy pass beside the cases; raise --budget";
    if (c->no_energy)
        return;
    c->energy_ns = cost;
    l->used += cost;
}

as_status as_plan_allot(as_plan *plan, as_error *e) {
    const size_t n = (size_t)(plan->count ? plan->count : 1);
    as_case **order = malloc(sizeof *order * n);
    ledger l = {.plan = plan,
                .kept = calloc(n, sizeof *l.kept),
                .used = start_ns(plan),
                .most = (double)plan->budget_ns,
                .most_for_ceilings = AS_CEILING_SHARE * (double)plan->budget_ns};
    if (order && l.kept) {
        for (int i = 0; i < plan->count; i++) {
            order[i] = &plan->cases[i];
            estimate(plan, order[i]);
        }
        qsort(order, (size_t)plan->count, sizeof *order, by_priority);
        for (int i = 0; i < plan->count; i++)
            if (!order[i]->ceiling && !order[i]->drop_reason)
                reserve(&l, order[i]);
        for (int i = 0; i < plan->count; i++)
            reserve_asked(&l, (int)(order[i] - plan->cases));
        for (int i = 0; i < plan->count; i++)
            if (!plan->cases[i].ceiling && !plan->cases[i].drop_reason)
                each_ceiling(&l, &plan->cases[i], mark_named, NULL);
        for (int i = 0; i < plan->count; i++)
            if (plan->cases[i].ceiling && !l.kept[i] && !plan->cases[i].drop_reason)
                plan->cases[i].drop_reason = "no case that fits the budget names it";
        for (int i = 0; plan->options->energy && i < plan->count; i++)
            if (!order[i]->ceiling && !order[i]->drop_reason)
                allot_energy(&l, order[i]);
    }
    const bool memory = order && l.kept;
    free(order);
    free(l.kept);
    return memory ? AS_OK : as_fail(e, AS_ENOMEM, "out of memory");
}

/* ---- for people ---- */

void as_plan_print_allocation(const as_plan *plan, FILE *to) {
    const int launches = plan->options->launches, cases = plan->count - plan->ceilings;
    double total = start_ns(plan), ceilings = 0;
    int fit = 0, limits = 0, energy = 0;
    const char *no_energy = NULL;
    for (int i = 0; i < plan->count; i++) {
        const as_case *c = &plan->cases[i];
        if (c->drop_reason)
            continue;
        total += c->cost_ns + c->energy_ns;
        energy += c->energy_ns > 0;
        no_energy = no_energy ? no_energy : c->no_energy;
        ceilings += c->ceiling ? c->cost_ns : 0;
        fit += !c->ceiling;
        limits += c->ceiling;
    }
    const double free_s = fmax(0, (double)plan->budget_ns - total) * 1e-9;
    fprintf(to, "\n%d of %d cases fit, with %d ceilings%s\n", fit, cases, limits,
            limits < plan->ceilings ? " (the others do not fit their share of the budget, or are not needed)" : "");
    fprintf(to, "reserved: %.0f s of %.0f s; of it %.1f s for ceilings, at most %.1f s\n", total * 1e-9,
            (double)plan->budget_ns * 1e-9, ceilings * 1e-9, AS_CEILING_SHARE * (double)plan->budget_ns * 1e-9);
    if (plan->options->energy)
        fprintf(to, "energy passes of %d cases are part of it%s%s\n", energy, no_energy ? "; others have none: " : "",
                no_energy ? no_energy : "");
    fprintf(to, "levels: %d launch%s a device, %s%d round%s a case and launch, ceilings %d + %d\n", launches,
            launches == 1 ? "" : "es", plan->options->rounds ? "" : "at least ", plan->min_rounds,
            plan->min_rounds == 1 ? "" : "s", plan->ceiling_rounds, plan->ceiling_rounds);
    if (plan->options->rounds)
        fprintf(to, "free: %.0f s, not used: --rounds fixes the rounds\n", free_s);
    else if (launches == 1)
        fprintf(to, "free: %.0f s, for rounds of the cases that converge soonest\n", free_s);
    else
        fprintf(to, "free: %.0f s, for rounds of each launch where rounds vary more than launches\n", free_s);
}
