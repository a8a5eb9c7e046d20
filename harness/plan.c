/* Building the plan: points -> cases -> filter -> ceilings -> groups -> budget. */
#include "plan.h"
#include "build_info.h"
#include "energy.h"
#include "plan_cases.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const as_profile_limits limits_of[] = {
    [AS_QUICK] = {.target = 0.05,
                  .budget_ns = 170000000000,
                  .round_ns = 30e6,
                  .warmup_ns = 150e6,
                  .longest_op_ns = 100e6,
                  .most_cases = 95},
    [AS_STANDARD] =
        {.target = 0.02, .budget_ns = 900000000000, .round_ns = 100e6, .warmup_ns = 500e6, .longest_op_ns = 2e9},
    [AS_PUBLISH] =
        {.target = 0.01, .budget_ns = 3600000000000, .round_ns = 250e6, .warmup_ns = 1e9, .longest_op_ns = 10e9},
};

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
    c->bytes = bytes * (size_t)c->copies;
}

/* First fit in plan order into 60% of the free memory; cases of one group are prepared together. Ceilings are the
 * first group of their device. */
static void pack_groups(as_plan *plan) {
    for (int d = 0; d < plan->machine.devices; d++) {
        const double room = 0.6 * (double)plan->machine.free_bytes[d];
        double used = 0;
        int group = plan->groups;
        bool any = false;
        for (int i = 0; i < plan->count; i++) {
            as_case *c = &plan->cases[i];
            if (c->device != &plan->machine.device[d] || c->ceiling)
                continue;
            if ((double)c->bytes > room && room > 0) {
                c->drop_reason = "needs more than 60% of the free memory";
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
}

/* ---- budget ---- */

static double estimate_ns(const as_plan *plan, const as_case *c) {
    const as_profile_limits *l = &plan->limits;
    double op = c->work.predicted_ns > 0 ? c->work.predicted_ns : 1000;
    double round = op > l->round_ns ? op : l->round_ns;
    /* Measured on an H200's host: 0.5 ns a byte to allocate and fill, 0.6 ns to check; references at 1.4 GFLOP/s. */
    double fill = (double)c->bytes * 0.5;
    double check = (double)operand_bytes(&c->work) * 0.6 + fmin(c->work.flops, 3e8) * 0.7;
    int rounds = c->ceiling ? 2 * plan->ceiling_rounds : plan->min_rounds;
    return fill + 2 * check + l->warmup_ns * 0.5 + 4 * op + rounds * plan->options->launches * (round + 2e6);
}

static int by_priority(const void *a, const void *b) {
    const as_case *const *x = a, *const *y = b;
    if ((*x)->priority != (*y)->priority)
        return (*x)->priority - (*y)->priority;
    return *x < *y ? -1 : *x > *y;
}

/* Energy passes get what the cases themselves leave, by the same priorities: they push no case out. */
static void allot_energy(as_plan *plan, as_case **order, double used) {
    for (int i = 0; i < plan->count && plan->options->energy; i++) {
        as_case *c = order[i];
        const int d = (int)(c->device - plan->machine.device);
        const double cost = as_energy_cost_ns(c->work.predicted_ns);
        if (c->ceiling || c->drop_reason)
            continue;
        c->no_energy = json_string_value(plan->machine.no_energy[d]);
        if (!c->no_energy && used + cost > (double)plan->budget_ns)
            c->no_energy = "the budget does not hold an energy pass beside the cases; raise --budget";
        if (c->no_energy)
            continue;
        c->energy_ns = cost;
        c->cost_ns += cost;
        used += cost;
    }
}

/* Reserves preparation, verification and the minimum of rounds for every case, by declared priority; what does not
 * fit is planned, not reached, and says so. */
static as_status allot(as_plan *plan, as_error *e) {
    as_case **order = malloc(sizeof *order * (size_t)(plan->count ? plan->count : 1));
    if (!order)
        return as_fail(e, AS_ENOMEM, "out of memory");
    for (int i = 0; i < plan->count; i++)
        order[i] = &plan->cases[i];
    qsort(order, (size_t)plan->count, sizeof *order, by_priority);
    double used = 2e9; /* start-up of workers */
    for (int i = 0; i < plan->count; i++) {
        as_case *c = order[i];
        c->cost_ns = estimate_ns(plan, c);
        if (c->drop_reason)
            continue;
        if (used + c->cost_ns > (double)plan->budget_ns && !c->ceiling)
            c->drop_reason = "it does not fit the budget beside cases of higher priority; raise --budget";
        else
            used += c->cost_ns;
    }
    allot_energy(plan, order, used);
    free(order);
    return AS_OK;
}

/* ---- the whole ---- */

static uint64_t plan_hash(const as_plan *plan) {
    uint64_t h = as_checksum(as_build.source_hash, strlen(as_build.source_hash), plan->options->seed);
    h = as_checksum(&plan->options->profile, sizeof plan->options->profile, h);
    const as_options *o = plan->options;
    const char *const texts[] = {o->exec ? o->exec : "", o->cpus ? o->cpus : ""};
    const int64_t numbers[] = {o->launches, o->rounds, o->gpu, o->ceilings};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        h = as_checksum(texts[i], strlen(texts[i]), h);
    h = as_checksum(numbers, sizeof numbers, h);
    for (int i = 0; i < plan->count; i++)
        h = as_checksum(plan->cases[i].id, strlen(plan->cases[i].id), h);
    return h;
}

as_status as_plan_build(as_plan *plan, const as_registry *registry, const as_options *o, as_error *e) {
    memset(plan, 0, sizeof *plan);
    plan->registry = registry;
    plan->options = o;
    plan->limits = limits_of[o->profile];
    plan->budget_ns = o->budget_ns ? o->budget_ns : plan->limits.budget_ns;
    plan->rule = (as_stop_rule){.min_units = 6, .target = plan->limits.target, .confidence = 0.95};
    plan->min_rounds = o->rounds ? (int)o->rounds : (6 + o->launches - 1) / o->launches;
    plan->ceiling_rounds = 3;
    if (o->exec)
        AS_TRY(as_exec_suite_create(&plan->exec_suite, o->exec, o->exec_name, e));
    AS_TRY(as_place_resolve(&(as_place_request){.cpus = o->cpus}, &plan->placement, e));
    AS_TRY(as_probe(&plan->machine, registry, e));
    AS_TRY(as_plan_add_cases(plan, e));
    for (int i = 0; i < plan->count; i++)
        size_case(&plan->cases[i]);
    pack_groups(plan);
    AS_TRY(allot(plan, e));
    plan->hash = plan_hash(plan);
    return AS_OK;
}

void as_plan_free(as_plan *plan) {
    for (int i = 0; i < plan->count; i++)
        free(plan->cases[i].id);
    free(plan->cases);
    as_machine_free(&plan->machine);
    as_exec_suite_free(plan->exec_suite);
    memset(plan, 0, sizeof *plan);
}

void as_plan_print(const as_plan *plan, FILE *to) {
    const as_placement *p = &plan->placement;
    fprintf(to, "profile %s, budget %.0f s, seed %llu, %d launch%s, intervals of %.0f%%\n",
            as_profile_name(plan->options->profile), (double)plan->budget_ns * 1e-9,
            (unsigned long long)plan->options->seed, plan->options->launches, plan->options->launches == 1 ? "" : "es",
            plan->rule.target * 100);
    fprintf(to, "CPUs");
    for (int i = 0; i < p->cpus; i++)
        fprintf(to, "%s%d", i ? "," : " ", p->cpu[i]);
    fprintf(to, " (%d cores), NUMA node %d\n", p->cores, p->numa_node);
    for (int i = 0; i < p->warnings; i++)
        fprintf(to, "warning: %s\n", p->warning[i]);
    double total = 0;
    fprintf(to, "\n  %-60s %5s %9s %9s\n", "case", "group", "memory", "estimate");
    for (int i = 0; i < plan->count; i++) {
        const as_case *c = &plan->cases[i];
        fprintf(to, "  %-60s %5d %6.1f MB %7.2f s%s%s\n", c->id, c->group, (double)c->bytes * 1e-6, c->cost_ns * 1e-9,
                c->drop_reason ? "  not reached: " : "", c->drop_reason ? c->drop_reason : "");
        total += c->drop_reason ? 0 : c->cost_ns;
    }
    int fit = 0, energy = 0;
    for (int i = 0; i < plan->count - plan->ceilings; i++)
        fit += plan->cases[i].drop_reason == NULL, energy += plan->cases[i].energy_ns > 0;
    const char *no_energy = NULL;
    for (int i = 0; i < plan->count && !no_energy; i++)
        no_energy = plan->cases[i].no_energy;
    fprintf(
        to,
        "\n%d of %d cases fit, with %d ceilings: %.0f s needed, %.0f s given; the rest goes to the widest intervals\n",
        fit, plan->count - plan->ceilings, plan->ceilings, total * 1e-9, (double)plan->budget_ns * 1e-9);
    if (plan->options->energy)
        fprintf(to, "energy passes of %d cases are part of it%s%s\n", energy, no_energy ? "; others have none: " : "",
                no_energy ? no_energy : "");
}

json_t *as_plan_catalogue(const as_registry *registry) {
    json_t *suites = json_array();
    for (const as_suite *const *s = registry->suites; s && *s; s++) {
        json_t *axes = json_array(), *variants = json_array();
        for (int i = 0; i < (*s)->n_axes; i++) {
            const as_axis *a = &(*s)->axes[i];
            json_array_append_new(axes, json_pack("{s:s, s:s, s:s, s:s}", "name", a->name, "default", a->fallback,
                                                  "unit", a->unit ? a->unit : "", "help", a->help ? a->help : ""));
        }
        for (const as_variant *v = (*s)->variants; v->name; v++)
            json_array_append_new(variants, json_pack("{s:s, s:s, s:s}", "name", v->name, "device", v->on, "summary",
                                                      v->summary ? v->summary : ""));
        json_array_append_new(suites, json_pack("{s:s, s:s, s:o, s:o}", "name", (*s)->name, "summary", (*s)->summary,
                                                "axes", axes, "variants", variants));
    }
    return json_pack("{s:o}", "suites", suites);
}
