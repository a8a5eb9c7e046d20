#include "outcome.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"pending", "done", "failed", "skipped", "lost", "not_reached"};

const char *as_case_status_name(as_case_status s) { return names[s]; }

as_status as_run_state_init(as_run_state *s, const as_plan *plan, as_error *e) {
    memset(s, 0, sizeof *s);
    s->plan = plan;
    s->outcome = calloc((size_t)plan->count, sizeof *s->outcome);
    if (!s->outcome)
        return as_fail(e, AS_ENOMEM, "out of memory");
    s->placement = json_object();
    for (int i = 0; i < plan->count; i++) {
        as_outcome *o = &s->outcome[i];
        o->warm = true;
        o->after_timing = "not_run";
        o->verified_launch = o->complete_launch = -1;
        o->rounds = json_array();
        o->time = json_array();
        o->rows = json_array();
        o->extra = json_object();
        if (plan->cases[i].drop_reason) {
            o->status = AS_NOT_REACHED;
            snprintf(o->reason, sizeof o->reason, "%s", plan->cases[i].drop_reason);
        }
    }
    return AS_OK;
}

void as_run_state_free(as_run_state *s) {
    for (int i = 0; s->outcome && i < s->plan->count; i++) {
        as_outcome *o = &s->outcome[i];
        json_decref(o->verification);
        json_decref(o->rounds);
        json_decref(o->time);
        json_decref(o->host);
        json_decref(o->extra);
        json_decref(o->rows);
        json_decref(o->energy);
        json_decref(o->parts);
        free(o->median_ns);
        free(o->launch);
    }
    free(s->outcome);
    free(s->date);
    json_decref(s->placement);
    json_decref(s->context);
    memset(s, 0, sizeof *s);
}

/* ---- rounds ---- */

static double median_of(const json_t *samples, int64_t batch) {
    const size_t n = json_array_size(samples);
    double x[1024];
    if (n == 0 || n > sizeof x / sizeof *x)
        return 0;
    for (size_t i = 0; i < n; i++)
        x[i] = (double)json_integer_value(json_array_get(samples, i)) / (double)batch;
    return as_stats_median(x, n);
}

static as_status add_median(as_outcome *o, double median, int launch, as_error *e) {
    if (o->n_rounds == o->capacity) {
        const int capacity = o->capacity ? 2 * o->capacity : 16;
        double *m = realloc(o->median_ns, sizeof *m * (size_t)capacity);
        if (m)
            o->median_ns = m;
        int *l = realloc(o->launch, sizeof *l * (size_t)capacity);
        if (l)
            o->launch = l;
        if (!m || !l)
            return as_fail(e, AS_ENOMEM, "out of memory");
        o->capacity = capacity;
    }
    o->median_ns[o->n_rounds] = median;
    o->launch[o->n_rounds++] = launch;
    return AS_OK;
}

static as_status apply_round(as_outcome *o, const json_t *r, as_error *e) {
    json_t *time = json_object_get(r, "time"), *host = json_object_get(r, "host"), *row = json_object_get(r, "row");
    if (json_array_size(time) == 0 || json_array_size(time) > 1000 || o->batch < 1 || !json_is_object(row))
        return as_fail(e, AS_EUSAGE, "a round has no samples, more than 1000, or comes before its warm-up");
    json_t *meta = json_object();
    static const char *const kept[] = {"launch", "round", "order", "begin_ns", "end_ns", "flags", "counters"};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        json_object_set(meta, kept[i], json_object_get(r, kept[i]));
    json_object_set_new(meta, "samples", json_integer((json_int_t)json_array_size(time)));
    json_array_append_new(o->rounds, meta);
    json_array_append(o->time, time);
    if (host) {
        if (!o->host)
            o->host = json_array();
        json_array_append(o->host, host);
    }
    const char *name;
    json_t *values;
    json_object_foreach(json_object_get(r, "extra"), name, values) {
        if (!json_object_get(o->extra, name))
            json_object_set_new(o->extra, name, json_array());
        json_array_append(json_object_get(o->extra, name), values);
    }
    json_array_append(o->rows, row);
    return add_median(o, median_of(time, o->batch), (int)json_integer_value(json_object_get(r, "launch")), e);
}

/* ---- all records ---- */

static double number(const json_t *r, const char *key) { return json_number_value(json_object_get(r, key)); }

static as_status apply_status(as_outcome *o, const json_t *r, as_error *e) {
    const char *name = json_string_value(json_object_get(r, "status")),
               *why = json_string_value(json_object_get(r, "reason"));
    for (int i = AS_DONE; name && i <= AS_NOT_REACHED; i++)
        if (strcmp(names[i], name) == 0) {
            o->status = (as_case_status)i;
            snprintf(o->reason, sizeof o->reason, "%s", why ? why : "");
            return AS_OK;
        }
    return as_fail(e, AS_EUSAGE, "unknown status");
}

int as_outcome_rounds_in(const as_outcome *o, int launch) {
    int n = 0;
    for (int i = o->n_rounds - 1; i >= 0 && o->launch[i] == launch; i--)
        n++;
    return n;
}

static as_status apply_checked(as_outcome *o, int least_rounds, const json_t *r) {
    const bool passed = json_is_true(json_object_get(r, "passed"));
    const int launch = (int)json_integer_value(json_object_get(r, "launch"));
    if (passed && launch != o->complete_launch && as_outcome_rounds_in(o, launch) >= least_rounds) {
        o->complete_launch = launch;
        o->complete++;
    }
    if (strcmp(o->after_timing, "failed") != 0)
        o->after_timing = passed ? "passed" : "failed";
    if (o->verification) {
        json_object_set_new(o->verification, "after_timing", json_string(o->after_timing));
        if (!passed)
            json_object_set(o->verification, "detail", json_object_get(r, "detail"));
    }
    return AS_OK;
}

as_status as_run_state_apply(as_run_state *s, const json_t *r, as_error *e) {
    const char *kind = json_string_value(json_object_get(r, "kind"));
    if (!kind)
        return as_fail(e, AS_EUSAGE, "a record without a kind");
    if (strcmp(kind, "launch") == 0) {
        const char *device = json_string_value(json_object_get(r, "device"));
        s->launches = (int)json_integer_value(json_object_get(r, "launch")) + 1;
        if (device && json_is_object(json_object_get(r, "placement")))
            json_object_set(s->placement, device, json_object_get(r, "placement"));
        return AS_OK;
    }
    const json_t *index = json_object_get(r, "case");
    if (!json_is_integer(index) || json_integer_value(index) < 0 || json_integer_value(index) >= s->plan->count)
        return as_fail(e, AS_EUSAGE, "a record names no case of this plan");
    as_outcome *o = &s->outcome[json_integer_value(index)];
    if (strcmp(kind, "prepared") == 0) {
        o->prepare_ns += number(r, "ns");
        o->visits++;
    } else if (strcmp(kind, "verified") == 0) {
        o->verify_ns += number(r, "ns");
        o->verified_launch = (int)json_integer_value(json_object_get(r, "launch"));
        json_decref(o->verification);
        o->verification = json_deep_copy(json_object_get(r, "verification"));
        json_object_set_new(o->verification, "after_timing", json_string(o->after_timing));
    } else if (strcmp(kind, "warm") == 0) {
        o->warmup_ns += number(r, "spent_ns");
        o->warm = o->warm && json_is_true(json_object_get(r, "warm"));
        o->op_ns = number(r, "op_ns");
        if (o->batch == 0)
            o->batch = json_integer_value(json_object_get(r, "batch"));
    } else if (strcmp(kind, "round") == 0) {
        return apply_round(o, r, e);
    } else if (strcmp(kind, "checked") == 0) {
        const bool ceiling = s->plan->cases[json_integer_value(index)].ceiling;
        return apply_checked(o, ceiling ? 2 * s->plan->ceiling_rounds : s->plan->min_rounds, r);
    } else if (strcmp(kind, "energy") == 0) {
        json_decref(o->energy);
        o->energy = json_incref(json_object_get(r, "energy"));
    } else if (strcmp(kind, "parts") == 0) {
        if (!json_is_array(json_object_get(json_object_get(r, "parts"), "rows")))
            return as_fail(e, AS_EUSAGE, "a breakdown without rows");
        json_decref(o->parts);
        o->parts = json_incref(json_object_get(r, "parts"));
    } else if (strcmp(kind, "status") == 0) {
        return apply_status(o, r, e);
    } else {
        return as_fail(e, AS_EUSAGE, "a record of unknown kind '%.20s'", kind);
    }
    return AS_OK;
}

size_t as_outcome_units(const as_outcome *o, const as_stop_rule *rule, double *out, const char **scope) {
    size_t launches = 0;
    for (int i = 0; i < o->n_rounds; i++)
        launches += i == 0 || o->launch[i] != o->launch[i - 1]; /* rounds of a launch follow one another */
    if (launches < rule->min_units) {
        *scope = "within-launch";
        if (o->n_rounds > 0) /* no array before the first round */
            memcpy(out, o->median_ns, sizeof *out * (size_t)o->n_rounds);
        return (size_t)o->n_rounds;
    }
    *scope = "launches";
    size_t n = 0;
    for (int begin = 0, end; begin < o->n_rounds; begin = end) {
        for (end = begin + 1; end < o->n_rounds && o->launch[end] == o->launch[begin]; end++)
            ;
        out[n++] = as_stats_median(o->median_ns + begin, (size_t)(end - begin));
    }
    return n;
}

as_components as_outcome_components(const as_outcome *o) {
    const size_t rounds = (size_t)o->n_rounds;
    as_components out = {0};
    size_t n = 0, i, j;
    json_t *round, *v;
    json_array_foreach(o->time, i, round) n += json_array_size(round);
    double *x = malloc(sizeof *x * (n + 1));
    size_t *count = malloc(sizeof *count * (rounds + 1));
    if (x && count && rounds > 0) {
        size_t at = 0;
        json_array_foreach(o->time, i, round) {
            count[i] = json_array_size(round);
            json_array_foreach(round, j, v) x[at++] = log(fmax((double)json_integer_value(v), 1) / (double)o->batch);
        }
        out = as_variance_components(x, count, o->launch, rounds);
    }
    free(x);
    free(count);
    return out;
}

as_components as_outcome_round_components(const as_outcome *o) {
    const size_t n = (size_t)o->n_rounds;
    as_components out = {0};
    double *x = malloc(sizeof *x * (n + 1));
    size_t *count = malloc(sizeof *count * (n + 1));
    for (size_t i = 0; x && count && i < n; i++) {
        x[i] = log(o->median_ns[i]);
        count[i] = 1;
    }
    if (x && count)
        out = as_variance_components(x, count, o->launch, n);
    free(x);
    free(count);
    return out;
}
