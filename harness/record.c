/* The whole document: context, plan, ceilings, cases, benchmarks. */
#include "record.h"
#include "build_info.h"
#include "environment.h"
#include "gbench.h"
#include "telemetry.h"

#include <jansson.h>
#include <string.h>

static json_t *build_json(void) {
    json_t *dirty = as_build.dirty < 0 ? json_null() : json_boolean(as_build.dirty);
    return json_pack("{s:s, s:s, s:o, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "version", as_build.version, "commit",
                     as_build.commit, "dirty", dirty, "source_hash", as_build.source_hash, "build_type",
                     as_build.build_type, "compiler", as_build.compiler, "flags", as_build.flags, "sanitizers",
                     as_build.sanitizers, "toolkit", as_build.toolkit, "google_benchmark", as_gb_version());
}

static json_t *argv_json(int argc, char **argv) {
    json_t *list = json_array();
    for (int i = 0; i < argc; i++) {
        const char *slash = i == 0 ? strrchr(argv[0], '/') : NULL; /* the command's folder is nobody's business */
        json_t *word = json_string(slash ? slash + 1 : argv[i]);
        json_array_append_new(list, word ? word : json_string("(not UTF-8)"));
    }
    return list;
}

json_t *as_record_context(const as_plan *plan, int argc, char **argv) {
    const char *slash = strrchr(argv[0], '/');
    json_t *context = as_environment_context("", slash ? slash + 1 : argv[0]);
    char seed[24];
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)plan->options->seed);
    json_object_set_new(context, "assay", build_json());
    json_object_set_new(context, "argv", argv_json(argc, argv));
    json_object_set_new(context, "seed", json_string(seed));
    json_t *devices = json_array(), *absent = json_array();
    for (int i = 0; i < plan->machine.devices; i++)
        json_array_append(devices, plan->machine.description[i]);
    size_t i;
    json_t *row;
    json_array_foreach(plan->machine.absent, i, row)
        json_array_append_new(absent, json_pack("{s:O, s:O}", "kind", json_object_get(row, "kind"), "reason",
                                                json_object_get(row, "reason")));
    json_object_set_new(context, "devices", devices);
    json_object_set_new(context, "absent", absent);
    json_t *warnings = json_object_get(context, "warnings");
    for (int w = 0; w < plan->placement.warnings; w++)
        json_array_append_new(warnings, json_string(plan->placement.warning[w]));
    return context;
}

static json_t *names_json(const as_plan *plan, bool devices) {
    json_t *list = json_array();
    const char *last = "";
    for (int i = 0; i < plan->count - plan->ceilings; i++) {
        const char *name = devices ? plan->cases[i].device->name : plan->cases[i].suite->name;
        bool known = strcmp(name, last) == 0;
        size_t j;
        json_t *have;
        json_array_foreach(list, j, have) known = known || strcmp(json_string_value(have), name) == 0;
        if (!known)
            json_array_append_new(list, json_string(name));
        last = name;
    }
    return list;
}

/* The plan's placement with what the host's worker read back (null: the host had none), and each device's own: the
 * worker of an accelerator takes CPUs near it. */
static json_t *placement_json(const as_run_state *s) {
    json_t *p = as_place_json(&s->plan->placement), *devices = json_object();
    const json_t *host = json_object_get(s->placement, as_cpu_driver.kind), *seen = json_object_get(host, "read_back");
    json_object_set_new(p, "read_back", seen ? json_copy((json_t *)seen) : json_null());
    json_object_update(devices, s->placement);
    json_object_set_new(p, "devices", devices);
    return p;
}

static json_t *plan_json(const as_run_state *s) {
    const as_plan *plan = s->plan;
    const as_options *o = plan->options;
    char hash[20];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)plan->hash);
    return json_pack("{s:s, s:I, s:f, s:f, s:I, s:i, s:i, s:b, s:s?, s:o, s:o, s:s, s:o, s:o, s:f}", "profile",
                     as_profile_name(o->profile), "budget_ns", (json_int_t)plan->budget_ns,
                     "target_relative_half_width", plan->rule.target, "confidence", plan->rule.confidence, "min_units",
                     (json_int_t)plan->rule.min_units, "launches", o->launches, "resumed", s->resumed, "strict",
                     (int)o->strict, "filter", o->filter, "suites", names_json(plan, false), "devices",
                     names_json(plan, true), "hash", hash, "placement", placement_json(s), "catalogue",
                     as_plan_catalogue(plan->registry), "clock_cost_ns", s->clock_cost_ns);
}

/* ---- benchmarks: Google Benchmark's rows, one a round, as its compare.py takes them ---- */

static void add_rows(const as_run_state *s, int c, int family, json_t *list) {
    const as_outcome *o = &s->outcome[c];
    const char *id = s->plan->cases[c].id;
    const int n = (int)json_array_size(o->rows);
    for (int i = 0; i < n; i++) {
        const json_t *row = json_array_get(o->rows, (size_t)i);
        json_t *out = json_pack("{s:s, s:i, s:i, s:s, s:s, s:i, s:i, s:i, s:O, s:O, s:O, s:s}", "name", id,
                                "family_index", family, "per_family_instance_index", 0, "run_name", id, "run_type",
                                "iteration", "repetitions", n, "repetition_index", i, "threads", 1, "iterations",
                                json_object_get(row, "iterations"), "real_time", json_object_get(row, "real_time"),
                                "cpu_time", json_object_get(row, "cpu_time"), "time_unit", "ns");
        json_object_update_missing(out, json_object_get(row, "counters"));
        json_array_append_new(list, out);
    }
}

json_t *as_record_run(const as_run_state *s, int argc, char **argv) {
    json_t *cases = json_array(), *ceilings = json_array(), *rows = json_array();
    for (int i = 0, family = 0; i < s->plan->count; i++) {
        json_array_append_new(s->plan->cases[i].ceiling ? ceilings : cases, as_record_case(s, i));
        if (!s->plan->cases[i].ceiling && s->outcome[i].status == AS_DONE && s->outcome[i].n_rounds > 0)
            add_rows(s, i, family++, rows);
    }
    json_t *context = s->context ? json_incref(s->context) : as_record_context(s->plan, argc, argv);
    const as_telemetry *t = s->telemetry;
    if (t && t->fault[0])
        json_array_append_new(json_object_get(context, "warnings"), json_string(t->fault));
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "schema", "assay.result/1", "context", context, "plan",
                     plan_json(s), "ceilings", ceilings, "cases", cases, "benchmarks", rows, "telemetry",
                     as_telemetry_json(t));
}
