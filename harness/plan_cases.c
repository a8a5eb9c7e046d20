#include "plan_cases.h"

#include <errno.h>
#include <jansson.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

bool as_case_is_cold(const as_case *c) {
    return as_params_has(&c->params, "cache") && strcmp(as_params_text(&c->params, "cache"), "cold") == 0;
}

/* ---- selection ---- */

typedef struct selection {
    const as_options *o;
    regex_t regex;
    bool has_regex;
    char *listed; /* --cases: the file's text between newlines */
} selection;

static as_status read_cases(const char *path, char **text, as_error *e) {
    FILE *f = fopen(path, "r");
    if (!f)
        return as_fail_code(e, AS_EUSAGE, errno, "--cases %s: cannot be read: %s", path, strerror(errno));
    size_t capacity = 0;
    ssize_t n = getdelim(text, &capacity, '\0', f);
    const int fault = ferror(f) ? errno : 0; /* a folder opens, and only its reading fails */
    fclose(f);
    if (fault)
        return as_fail_code(e, AS_EUSAGE, fault, "--cases %s: cannot be read: %s", path, strerror(fault));
    return n > 0 ? AS_OK : as_fail(e, AS_EUSAGE, "--cases %s: the file is empty; list one id a line", path);
}

/* A misspelt id must not pass in silence: every line names a case of the plan. */
static as_status check_listed(const as_plan *plan, const char *listed, as_error *e) {
    for (const char *at = listed; at && *at;) {
        const size_t n = strcspn(at, "\r\n");
        bool found = n == 0;
        for (int i = 0; i < plan->count && !found; i++)
            found = strlen(plan->cases[i].id) == n && strncmp(plan->cases[i].id, at, n) == 0;
        if (!found)
            return as_fail(e, AS_EUSAGE, "--cases %s: '%.*s' is no case of this plan; see assay run --dry-run",
                           plan->options->cases, n < 200 ? (int)n : 200, at);
        at += n + strspn(at + n, "\r\n");
    }
    return AS_OK;
}

/* regcomp recurses on every parenthesis and copies for every repeat: what it would crash or choke on is refused. */
static as_status check_regex(const char *text, as_error *e) {
    enum { MOST_LENGTH = 2000, MOST_DEPTH = 32, MOST_REPEATS = 2 };
    int depth = 0, deepest = 0, repeats = 0;
    for (const char *c = text; *c; c++) {
        if (*c == '\\' && c[1]) {
            c++;
            continue;
        }
        depth += (*c == '(') - (*c == ')');
        deepest = depth > deepest ? depth : deepest;
        repeats += *c == '{';
    }
    if (strlen(text) > MOST_LENGTH || deepest > MOST_DEPTH || repeats > MOST_REPEATS)
        return as_fail(
            e, AS_EUSAGE,
            "--filter: the expression is too large (at most %d characters, %d nested groups, %d repeats {}); "
            "list ids with --cases instead",
            MOST_LENGTH, MOST_DEPTH, MOST_REPEATS);
    return AS_OK;
}

static as_status select_init(selection *s, const as_options *o, as_error *e) {
    memset(s, 0, sizeof *s);
    s->o = o;
    if (o->filter) {
        AS_TRY(check_regex(o->filter, e));
        int rc = regcomp(&s->regex, o->filter, REG_EXTENDED | REG_NOSUB);
        if (rc != 0) {
            char why[128];
            regerror(rc, &s->regex, why, sizeof why);
            return as_fail(e, AS_EUSAGE, "--filter '%.80s' does not compile: %s", o->filter, why);
        }
        s->has_regex = true;
    }
    return o->cases ? read_cases(o->cases, &s->listed, e) : AS_OK;
}

static void select_free(selection *s) {
    if (s->has_regex)
        regfree(&s->regex);
    free(s->listed);
}

static bool line_in(const char *text, const char *line) {
    size_t n = strlen(line);
    for (const char *at = text; (at = strstr(at, line)); at++)
        if ((at == text || at[-1] == '\n') && (at[n] == '\n' || at[n] == '\r' || at[n] == '\0'))
            return true;
    return false;
}

static bool selected(const selection *s, const char *id) {
    if (s->has_regex && regexec(&s->regex, id, 0, NULL, 0) != 0)
        return false;
    return !s->listed || line_in(s->listed, id);
}

bool as_names_hold(const as_names *list, const char *name) {
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->name[i], name) == 0)
            return true;
    return list->count == 0;
}

/* A filter alone is too wide a net for a suite that must be named: "dev:cpu" would draw it in. */
static bool suite_wanted(const as_options *o, const as_suite *suite) {
    const bool asked = o->suites.count > 0 || o->cases;
    return as_names_hold(&o->suites, suite->name) && (asked || !suite->only_if_named);
}

bool as_plan_device_wanted(const as_options *o, const as_device *d) {
    bool cpu = d->driver == &as_cpu_driver;
    if (!cpu && o->gpu >= 0 && d->index != o->gpu)
        return false;
    return as_names_hold(&o->devices, d->name) || as_names_hold(&o->devices, d->driver->kind);
}

/* ---- devices that were asked for ---- */

/* A kind alone, or a kind with a number. */
static bool is_of_kind(const char *name, const char *kind) {
    const size_t n = strlen(kind);
    return strncmp(name, kind, n) == 0 && strspn(name + n, "0123456789") == strlen(name + n);
}

static bool is_there(const as_plan *plan, const char *name) {
    for (int i = 0; i < plan->machine.devices; i++)
        if (strcmp(plan->machine.device[i].name, name) == 0 || strcmp(plan->machine.device[i].driver->kind, name) == 0)
            return true;
    return false;
}

as_status as_plan_check_device(const as_plan *plan, const char *name, as_error *e) {
    size_t i;
    json_t *row;
    if (is_there(plan, name))
        return AS_OK;
    json_array_foreach(plan->machine.absent, i,
                       row) if (is_of_kind(name, json_string_value(json_object_get(row, "kind")))) {
        const bool broken = json_is_true(json_object_get(row, "broken"));
        return as_fail(e, broken ? AS_EENV : AS_EABSENT, "--device %s: %s: %s", name, broken ? "broken" : "absent",
                       json_string_value(json_object_get(row, "reason")));
    }
    char known[256] = "cpu";
    for (const as_device_driver *const *d = plan->registry->drivers; d && *d; d++) {
        if (is_of_kind(name, (*d)->kind))
            return as_fail(e, AS_EABSENT, "--device %s: absent: there are fewer devices of this kind", name);
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, ", %s, %s0 ...", (*d)->kind, (*d)->kind);
    }
    return as_fail(e, AS_EUSAGE, "--device %.40s: unknown; devices are %s", name, known);
}

const as_suite *as_registry_suite(const as_registry *registry, int i) {
    int n = 0;
    while (registry->suites && registry->suites[n])
        n++;
    return i < n ? registry->suites[i] : i == n ? registry->ceilings : NULL;
}

as_status as_registry_check_suites(const as_registry *registry, const as_names *suites, as_error *e) {
    for (int i = 0; i < suites->count; i++) {
        bool found = false;
        char known[256] = "";
        const as_suite *s;
        for (int k = 0; (s = as_registry_suite(registry, k)); k++) {
            found |= strcmp(s->name, suites->name[i]) == 0;
            size_t used = strlen(known);
            snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", s->name);
        }
        if (!found)
            return as_fail(e, AS_EUSAGE, "--suite %.40s: unknown; there are %s", suites->name[i], known);
    }
    return AS_OK;
}

static as_status check_names(const as_plan *plan, as_error *e) {
    const as_options *o = plan->options;
    AS_TRY(as_registry_check_suites(plan->registry, &o->suites, e));
    for (int i = 0; i < o->devices.count; i++)
        AS_TRY(as_plan_check_device(plan, o->devices.name[i], e));
    if (o->gpu >= 0) {
        for (int i = 0; i < plan->machine.devices; i++)
            if (plan->machine.device[i].driver != &as_cpu_driver && plan->machine.device[i].index == o->gpu)
                return AS_OK;
        return as_fail(e, AS_EABSENT, "--gpu %lld: there is no such accelerator", (long long)o->gpu);
    }
    return AS_OK;
}

/* ---- adding ---- */

static int find_case(const as_plan *plan, const char *id) {
    for (int i = 0; i < plan->count; i++)
        if (strcmp(plan->cases[i].id, id) == 0)
            return i;
    return -1;
}

static as_status make_id(char id[AS_ID_MAX], const as_suite *suite, const as_variant *variant, const as_params *params,
                         const as_device *device, as_error *e) {
    if (as_case_id(id, suite->name, variant->name, params, device->name) < AS_ID_MAX)
        return AS_OK;
    return as_fail(e, AS_EUSAGE, "%.80s...: the id is longer than %d characters", id, AS_ID_MAX - 1);
}

static as_status add_case(as_plan *plan, const as_suite *suite, const as_variant *variant, const as_params *params,
                          const as_device *device, bool ceiling, int priority, int *index, as_error *e) {
    char id[AS_ID_MAX];
    AS_TRY(make_id(id, suite, variant, params, device, e));
    if ((*index = find_case(plan, id)) >= 0)
        return AS_OK;
    as_case c = {.suite = suite,
                 .variant = variant,
                 .params = *params,
                 .device = device,
                 .priority = priority,
                 .ceiling = ceiling,
                 .copies = 1};
    memset(c.ceiling_of, -1, sizeof c.ceiling_of);
    as_error detail = {0};
    as_status s = suite->describe(params, variant, device, &c.work, &detail);
    if (s == AS_EABSENT) /* no such level or unit on this device: nothing to plan */
        return AS_OK;
    if (s != AS_OK)
        return as_fail(e, s, "%s: %s", id, detail.message);
    if (!ceiling && c.work.predicted_ns > plan->limits.longest_op_ns)
        return AS_OK;
    as_case *grown = realloc(plan->cases, sizeof *grown * (size_t)(plan->count + 1));
    if (!grown)
        return as_fail(e, AS_ENOMEM, "out of memory");
    plan->cases = grown;
    if (!(c.id = strdup(id)))
        return as_fail(e, AS_ENOMEM, "out of memory");
    *index = plan->count;
    plan->cases[plan->count++] = c;
    return AS_OK;
}

typedef struct expansion {
    as_plan *plan;
    const selection *select;
    const as_suite *suite;
    const as_point *point;
    const as_device *device;
} expansion;

static bool variant_listed(const char *list, const char *name) {
    size_t n = strlen(name);
    if (strcmp(list, "*") == 0)
        return true;
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, n) == 0 && (at[n] == ',' || at[n] == '\0'))
            return true;
    }
    return false;
}

static as_status add_variants(const expansion *x, const as_params *params, as_error *e) {
    for (const as_variant *v = x->suite->variants; v->name; v++) {
        char id[AS_ID_MAX];
        int index;
        if (strcmp(v->on, x->device->driver->kind) != 0 || !variant_listed(x->point->variants, v->name))
            continue;
        AS_TRY(make_id(id, x->suite, v, params, x->device, e));
        if (selected(x->select, id))
            AS_TRY(add_case(x->plan, x->suite, v, params, x->device, x->suite == x->plan->registry->ceilings,
                            x->point->priority, &index, e));
    }
    return AS_OK;
}

/* Walks "axis=v1,v2;axis=..." recursively: the leftmost axis is the outermost loop. */
static as_status expand(const expansion *x, const char *axes, as_params params, as_error *e) {
    if (!axes || !*axes)
        return add_variants(x, &params, e);
    size_t length = strcspn(axes, ";");
    const char *rest = axes[length] ? axes + length + 1 : axes + length;
    const char *equals = memchr(axes, '=', length);
    if (!equals)
        return as_fail(e, AS_EUSAGE, "suite %s: point '%s' has no '='", x->suite->name, axes);
    if (equals + 1 == axes + length)
        return as_fail(e, AS_EUSAGE, "suite %s: point '%s' has no value", x->suite->name, axes);
    char name[AS_AXIS_TEXT], value[AS_AXIS_TEXT];
    snprintf(name, sizeof name, "%.*s", (int)(equals - axes), axes);
    for (const char *at = equals + 1, *end = axes + length; at < end;) {
        size_t n = strcspn(at, ",;");
        snprintf(value, sizeof value, "%.*s", (int)n, at);
        AS_TRY(as_params_set(&params, name, value, e));
        AS_TRY(expand(x, rest, params, e));
        at += n + 1;
    }
    return AS_OK;
}

/* A case that is named needs no profile to offer it. */
static bool offered(const as_options *o, const as_point *p) { return o->cases || p->from <= o->profile; }

static as_status add_suite(as_plan *plan, const selection *select, const as_suite *suite, as_error *e) {
    for (int d = 0; d < plan->machine.devices; d++)
        for (const as_point *p = suite->points; p->variants; p++) {
            const as_device *device = &plan->machine.device[d];
            if (!offered(plan->options, p) || strcmp(p->on, device->driver->kind) != 0 ||
                !as_plan_device_wanted(plan->options, device))
                continue;
            as_params params;
            AS_TRY(as_params_init(&params, suite->axes, suite->n_axes, e));
            AS_TRY(expand(&(expansion){plan, select, suite, p, device}, p->axes, params, e));
        }
    return AS_OK;
}

/* ---- ceilings: the plan measures those that its cases name, and those that the selection itself names ---- */

static as_status add_ceiling(as_plan *plan, const as_ceiling_ref *ref, const as_device *device, int *index,
                             as_error *e) {
    const as_suite *suite = plan->registry->ceilings;
    *index = -1;
    for (const as_variant *v = suite->variants; v->name; v++) {
        if (strcmp(v->name, ref->variant) != 0 || strcmp(v->on, device->driver->kind) != 0)
            continue;
        as_params params;
        AS_TRY(as_params_init(&params, suite->axes, suite->n_axes, e));
        char axes[sizeof ref->axes], *save = NULL;
        snprintf(axes, sizeof axes, "%s", ref->axes);
        for (char *word = strtok_r(axes, ";", &save); word; word = strtok_r(NULL, ";", &save)) {
            char *equals = strchr(word, '=');
            if (!equals)
                return as_fail(e, AS_EUSAGE, "ceiling %s: '%s' has no '='", ref->variant, word);
            *equals = '\0';
            AS_TRY(as_params_set(&params, word, equals + 1, e));
        }
        return add_case(plan, suite, v, &params, device, true, 0, index, e);
    }
    return as_fail(e, AS_EUSAGE, "there is no ceiling %s on %s", ref->variant, device->driver->kind);
}

static as_status add_ceilings(as_plan *plan, int cases, as_error *e) {
    for (int i = 0; i < cases; i++)
        for (int b = 0; b < plan->cases[i].work.bounds; b++) {
            const as_case *c = &plan->cases[i]; /* valid until the next add_ceiling */
            as_ceiling_ref refs[AS_MAX_CEILING_REFS];
            const as_device *device = c->device;
            int n =
                plan->registry->ceilings_for(&c->work.bound[b], &c->work, &c->params, device, as_case_is_cold(c), refs);
            for (int r = 0, kept = 0; r < n; r++) {
                int index;
                AS_TRY(add_ceiling(plan, &refs[r], device, &index, e));
                if (index >= 0) /* one that this device lacks leaves no hole: readers stop at the first -1 */
                    plan->cases[i].ceiling_of[b][kept++] = index;
            }
        }
    return AS_OK;
}

/* Asked for, they are reserved like cases. They stand behind the cases, as all ceilings do. */
static as_status add_asked_ceilings(as_plan *plan, const selection *select, as_error *e) {
    const int first = plan->count;
    const as_suite *suite = plan->registry->ceilings;
    if (!suite || plan->exec_suite || !(plan->options->suites.count > 0 || plan->options->cases) ||
        !as_names_hold(&plan->options->suites, suite->name))
        return AS_OK;
    AS_TRY(add_suite(plan, select, suite, e));
    for (int i = first; i < plan->count; i++)
        plan->cases[i].asked = true;
    return AS_OK;
}

/* ---- quick runs stay small ---- */

static void mark_beyond_limit(as_plan *plan) {
    if (plan->limits.most_cases == 0)
        return;
    for (int d = 0; d < plan->machine.devices; d++) {
        int kept = 0;
        for (int p = 0; p <= 9; p++)
            for (int i = 0; i < plan->count; i++) {
                as_case *c = &plan->cases[i];
                if (c->device == &plan->machine.device[d] && !c->ceiling && c->priority == p &&
                    ++kept > plan->limits.most_cases)
                    c->drop_reason = "a quick run holds at most 95 cases a device; use --profile standard or --filter";
            }
    }
}

as_status as_plan_add_cases(as_plan *plan, as_error *e) {
    const as_options *o = plan->options;
    AS_TRY(check_names(plan, e));
    selection select;
    as_status s = select_init(&select, o, e);
    if (plan->exec_suite)
        s = s != AS_OK ? s : add_suite(plan, &select, plan->exec_suite, e);
    else
        for (const as_suite *const *it = plan->registry->suites; s == AS_OK && it && *it; it++)
            if (suite_wanted(o, *it))
                s = add_suite(plan, &select, *it, e);
    const int cases = plan->count;
    s = s != AS_OK ? s : add_asked_ceilings(plan, &select, e);
    if (s == AS_OK && !o->filter)
        s = check_listed(plan, select.listed, e);
    select_free(&select);
    AS_TRY(s);
    if (plan->count == 0)
        return as_fail(e, AS_EUSAGE, "no case matches%s%.200s%s; see assay list, or assay run --dry-run",
                       o->filter ? " --filter '" : " the selection", o->filter ? o->filter : "", o->filter ? "'" : "");
    mark_beyond_limit(plan);
    if (o->ceilings && plan->registry->ceilings && !plan->exec_suite)
        AS_TRY(add_ceilings(plan, cases, e));
    plan->ceilings = plan->count - cases;
    return AS_OK;
}
