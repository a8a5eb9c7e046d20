/* Building the plan: points -> cases -> filter -> ceilings -> groups -> budget. */
#include "build_info.h"
#include "plan_budget.h"
#include "plan_cases.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const as_profile_limits limits_of[] = {
    [AS_QUICK] = {.target = 0.05,
                  .budget_ns = 240000000000,
                  .round_ns = 30e6,
                  .warmup_ns = 150e6,
                  .longest_op_ns = 100e6,
                  .most_cases = 95},
    [AS_STANDARD] =
        {.target = 0.02, .budget_ns = 900000000000, .round_ns = 100e6, .warmup_ns = 500e6, .longest_op_ns = 2e9},
    [AS_PUBLISH] =
        {.target = 0.01, .budget_ns = 3600000000000, .round_ns = 250e6, .warmup_ns = 1e9, .longest_op_ns = 10e9},
};

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
    as_plan_pack(plan);
    AS_TRY(as_plan_allot(plan, e));
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

int as_plan_widest_id(const as_plan *plan) {
    int w = 4; /* the heading, "case" */
    for (int i = 0; i < plan->count; i++) {
        const int n = (int)strlen(plan->cases[i].id);
        w = n > w ? n : w;
    }
    return w;
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
    fprintf(to, " (%d core%s), NUMA node %d\n", p->cores, p->cores == 1 ? "" : "s", p->numa_node);
    for (int i = 0; i < p->warnings; i++)
        fprintf(to, "warning: %s\n", p->warning[i]);
    const int width = as_plan_widest_id(plan);
    fprintf(to, "\n  %-*s %5s %11s %9s\n", width, "case", "group", "memory", "estimate");
    for (int i = 0; i < plan->count; i++) {
        const as_case *c = &plan->cases[i];
        fprintf(to, "  %-*s %5d %8.1f MB %7.2f s%s%s\n", width, c->id, c->group, (double)c->bytes * 1e-6,
                c->cost_ns * 1e-9, c->drop_reason ? "  not reached: " : "", c->drop_reason ? c->drop_reason : "");
    }
    as_plan_print_allocation(plan, to);
}

json_t *as_plan_catalogue(const as_registry *registry) {
    json_t *suites = json_array();
    const as_suite *s;
    for (int k = 0; (s = as_registry_suite(registry, k)); k++) {
        json_t *axes = json_array(), *variants = json_array();
        for (int i = 0; i < s->n_axes; i++) {
            const as_axis *a = &s->axes[i];
            json_array_append_new(axes, json_pack("{s:s, s:s, s:s, s:s}", "name", a->name, "default", a->fallback,
                                                  "unit", a->unit ? a->unit : "", "help", a->help ? a->help : ""));
        }
        for (const as_variant *v = s->variants; v->name; v++)
            json_array_append_new(variants, json_pack("{s:s, s:s, s:s}", "name", v->name, "device", v->on, "summary",
                                                      v->summary ? v->summary : ""));
        json_array_append_new(suites, json_pack("{s:s, s:s, s:o, s:o}", "name", s->name, "summary", s->summary, "axes",
                                                axes, "variants", variants));
    }
    json_t *catalogue = json_pack("{s:o}", "suites", suites);
    if (registry->catalogue) {
        json_t *more = registry->catalogue();
        json_object_update_missing(catalogue, more);
        json_decref(more);
    }
    return catalogue;
}
