/* One case as JSON. */
#include "energy.h"
#include "record.h"
#include "telemetry.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static json_t *real_or_null(double x) { return isfinite(x) ? json_real(x) : json_null(); }

static json_t *parameters(const as_params *p) {
    json_t *o = json_object();
    for (int i = 0; i < p->count; i++)
        json_object_set_new(o, p->value[i].axis->name,
                            p->value[i].axis->integer && p->value[i].number >= 0 && !p->value[i].axis->all
                                ? json_integer(p->value[i].number)
                                : json_string(p->value[i].text));
    return o;
}

static json_t *work(const as_work *w) {
    json_t *bounds = json_array();
    for (int i = 0; i < w->bounds; i++)
        json_array_append_new(bounds,
                              json_pack("{s:s, s:f}", "resource", w->bound[i].ceiling, "amount", w->bound[i].amount));
    return json_pack("{s:f, s:f, s:f, s:s?, s:I, s:f, s:s?, s:f, s:o}", "flops", w->flops, "bytes_read", w->bytes_read,
                     "bytes_written", w->bytes_written, "convention", w->convention, "working_set_bytes",
                     (json_int_t)w->working_set_bytes, "items", w->items, "item", w->item, "fixed_ns", w->fixed_ns,
                     "bounds", bounds);
}

/* ---- statistics ---- */

static double *all_samples(const as_outcome *o, size_t *n) {
    size_t i, j;
    json_t *round, *v;
    *n = 0;
    json_array_foreach(o->time, i, round) *n += json_array_size(round);
    double *x = malloc(sizeof *x * (*n + 1));
    size_t k = 0;
    if (x)
        json_array_foreach(o->time, i, round) json_array_foreach(round, j, v) x[k++] =
            (double)json_integer_value(v) / (double)o->batch;
    return x;
}

double as_sample_median(const as_outcome *o) {
    size_t n;
    double *x = all_samples(o, &n);
    const double median = x && n > 0 ? as_stats_median(x, n) : NAN;
    free(x);
    return median;
}

static json_t *component(const as_component *c) {
    if (!(c->degrees_of_freedom > 0))
        return json_null();
    return json_pack("{s:o, s:f, s:b}", "relative_sd", real_or_null(c->relative_sd), "degrees_of_freedom",
                     c->degrees_of_freedom, "clipped", (int)c->clipped);
}

static json_t *variance(const as_outcome *o) {
    static const char *const advice[] = {
        [AS_ADVICE_ONE_LAUNCH] =
            "one launch: how fresh processes differ is unknown and not in the interval; give --launches 6",
        [AS_ADVICE_LAUNCHES_DIFFER] = "launches differ most: more --launches narrow the interval, more rounds do not"};
    const as_components x = as_outcome_components(o);
    return json_pack("{s:o, s:o, s:o, s:s?}", "launch", component(&x.launch), "round", component(&x.round), "sample",
                     component(&x.sample), "advice", advice[as_variance_advice(o)]);
}

static json_t *statistics(const as_outcome *o, const as_figures *f) {
    size_t n;
    double *x = all_samples(o, &n);
    if (!x || n == 0) {
        free(x);
        return json_null();
    }
    const double median = as_stats_median(x, n), mad = as_stats_mad(x, n);
    as_stats_sort(x, n);
    static const double points[] = {0.5, 0.9, 0.99, 0.999};
    json_t *percentiles = json_array();
    for (size_t i = 0; i < sizeof points / sizeof *points; i++)
        json_array_append_new(percentiles, json_pack("{s:f, s:f, s:f}", "p", points[i], "ns",
                                                     as_stats_quantile_sorted(x, n, points[i]), "confidence",
                                                     as_stats_percentile_confidence(points[i], n)));
    json_t *out =
        json_pack("{s:s, s:I, s:I, s:f, s:f, s:f, s:f, s:o, s:b, s:o, s:o}", "scope", f->scope, "units",
                  (json_int_t)f->time.units, "samples", (json_int_t)n, "median_ns", median, "mad_ns", mad, "min_ns",
                  x[0], "max_ns", x[n - 1], "relative_half_width", real_or_null(f->time.relative_half_width),
                  "converged", (int)f->converged, "percentiles", percentiles, "variance", variance(o));
    free(x);
    return out;
}

/* ---- series and metrics ---- */

static json_t *series_row(const char *name, const char *unit, const char *better, const char *clock, json_int_t batch,
                          bool primary, json_t *samples) {
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:b, s:O}", "name", name, "unit", unit, "better", better, "clock",
                     clock, "batch", batch, "primary", (int)primary, "samples", samples);
}

static json_t *series(const as_case *k, const as_outcome *o) {
    json_t *list = json_array();
    if (o->n_rounds == 0)
        return list;
    json_array_append_new(list,
                          series_row("time", "ns", "lower", o->host ? "device" : "host", o->batch, true, o->time));
    if (o->host)
        json_array_append_new(list, series_row("host_time", "ns", "lower", "host", o->batch, false, o->host));
    for (int i = 0; i < AS_MAX_EXTRA && k->variant->extra[i].name; i++) {
        const as_extra_series *x = &k->variant->extra[i];
        json_t *samples = json_object_get(o->extra, x->name);
        if (samples)
            json_array_append_new(list, series_row(x->name, x->unit, x->higher_is_better ? "higher" : "lower", "host",
                                                   1, false, samples));
    }
    return list;
}

static void add_metric(json_t *list, const char *name, const char *unit, const char *better, double value, double low,
                       double high, const char *formula) {
    if (isfinite(value))
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:f, s:o, s:o, s:s}", "name", name, "unit", unit,
                                              "better", better, "value", value, "low", real_or_null(low), "high",
                                              real_or_null(high), "formula", formula));
}

/* Median over all rounds; NAN where there is none. */
static double series_median(const json_t *rounds) {
    size_t i, j, n = 0;
    json_t *round, *v;
    json_array_foreach(rounds, i, round) n += json_array_size(round);
    double *x = malloc(sizeof *x * (n + 1)), median = NAN;
    n = 0;
    if (x)
        json_array_foreach(rounds, i, round) json_array_foreach(round, j, v) x[n++] = (double)json_integer_value(v);
    if (n > 0)
        median = as_stats_median(x, n);
    free(x);
    return median;
}

static void extra_metrics(json_t *list, const as_case *k, const as_outcome *o) {
    for (int i = 0; i < AS_MAX_EXTRA && k->variant->extra[i].name; i++) {
        const as_extra_series *x = &k->variant->extra[i];
        char name[64];
        snprintf(name, sizeof name, "%s_per_item", x->name);
        if (x->median && json_object_get(o->extra, x->name))
            add_metric(list, x->name, x->unit, x->higher_is_better ? "higher" : "lower",
                       series_median(json_object_get(o->extra, x->name)), NAN, NAN, "median of the series");
        if (x->per_item && k->work.items > 0)
            add_metric(list, name, x->unit, x->higher_is_better ? "higher" : "lower",
                       series_median(json_object_get(o->extra, x->name)) / k->work.items, NAN, NAN,
                       "median of the series / items");
    }
}

static void energy_metrics(json_t *list, const as_energy_figures *g) {
    const double half = g->joules * g->relative_half_width;
    add_metric(list, "energy_joules", "J", "lower", g->joules, fmax(0, g->joules - half), g->joules + half,
               "joules between two steps of the counter / operations between them");
    add_metric(list, "energy_above_idle_joules", "J", "lower", g->above_idle_joules, g->above_idle_joules - half,
               g->above_idle_joules + half, "energy_joules - idle_power_watts x seconds / operations");
    add_metric(list, "power_watts", "W", "lower", g->watts, NAN, NAN, "joules / seconds between the same steps");
    add_metric(list, "idle_power_watts", "W", "lower", g->idle_watts, NAN, NAN,
               "joules / seconds at rest, just before, context open");
}

/* Shares of the bounds: of memory (mbu), and of arithmetic (mfu). */
static void utilisation_metrics(json_t *list, const as_run_state *s, int c, const as_interval *t) {
    const as_work *w = &s->plan->cases[c].work;
    for (int b = 0; w->utilisation && b < w->bounds; b++) {
        int which;
        const bool memory = strcmp(w->bound[b].ceiling, "memory") == 0;
        const double floor_ns = w->bound[b].amount / as_case_ceiling_rate(s, c, b, &which);
        char formula[300];
        if (!isfinite(floor_ns))
            continue;
        snprintf(formula, sizeof formula, "%s of the bound %s / time / rate of %.200s", memory ? "bytes" : "operations",
                 w->bound[b].ceiling, s->plan->cases[which].id);
        add_metric(list, memory ? "mbu" : "mfu", "1", "higher", floor_ns / t->value, floor_ns / t->high,
                   floor_ns / t->low, formula);
    }
}

static void fact_metrics(json_t *list, const as_work *w) {
    for (int i = 0; i < w->facts; i++)
        add_metric(list, w->fact[i].name, w->fact[i].unit, "lower", w->fact[i].value, NAN, NAN, w->fact[i].formula);
}

/* Items whose rate people ask for. */
static void rate_metric(json_t *list, const char *item, double per_item_ns, double down, double up) {
    static const struct {
        const char *item, *name, *unit;
    } rates[] = {{"token", "tokens_per_s", "tokens_per_s"}, {"image", "images_per_s", "items_per_s"}};
    for (size_t i = 0; item && i < sizeof rates / sizeof *rates; i++)
        if (strcmp(item, rates[i].item) == 0)
            add_metric(list, rates[i].name, rates[i].unit, "higher", 1e9 / per_item_ns, 1e9 / (per_item_ns / down),
                       1e9 / (per_item_ns / up), "items / time");
}

static json_t *metrics(const as_run_state *s, int c, const as_figures *f, const as_energy_figures *energy) {
    const as_case *k = &s->plan->cases[c];
    const as_outcome *o = &s->outcome[c];
    json_t *list = json_array();
    const as_interval t = f->time;
    const double down = t.value / t.high, up = t.value / t.low; /* a rate's ends, relative to its value */
    add_metric(list, "time", "ns", "lower", t.value, t.low, t.high, "exp(mean(log(unit medians))) / batch");
    add_metric(list, "flop_rate", "flops_per_s", "higher", f->flop_rate, f->flop_rate * down, f->flop_rate * up,
               "flops / time");
    add_metric(list, "bandwidth", "bytes_per_s", "higher", f->bandwidth, f->bandwidth * down, f->bandwidth * up,
               "(bytes_read + bytes_written) / time");
    add_metric(list, "time_per_item", "ns", "lower", f->per_item_ns, f->per_item_ns / up, f->per_item_ns / down,
               "time / items");
    rate_metric(list, k->work.item, f->per_item_ns, down, up);
    utilisation_metrics(list, s, c, &t);
    fact_metrics(list, &k->work);
    extra_metrics(list, k, o);
    if (energy)
        energy_metrics(list, energy);
    return list;
}

static json_t *ceiling(const as_run_state *s, const as_figures *f) {
    return json_pack("{s:o, s:s?, s:s?, s:o, s:s?, s:b}", "fraction", real_or_null(f->fraction), "limit",
                     isfinite(f->fraction) ? f->limit : NULL, "ceiling_id",
                     f->ceiling >= 0 && isfinite(f->fraction) ? s->plan->cases[f->ceiling].id : NULL, "floor_ns",
                     real_or_null(f->floor_ns), "reason", f->no_ceiling, "suspect", (int)f->ceiling_suspect);
}

/* What was sampled within the rounds, and the energy pass with its resolution or the reason why there is none. */
static json_t *telemetry(const as_run_state *s, const as_case *k, const as_outcome *o, const as_energy_figures *g) {
    json_t *out = as_telemetry_case_json(s->telemetry, o->rounds, k->device->name);
    if (!o->energy)
        return out;
    json_t *energy = json_copy(o->energy);
    if (g)
        json_object_set_new(energy, "resolution_joules", json_real(g->resolution_joules));
    json_object_set_new(out, "energy", energy);
    return out;
}

/* ---- the case ---- */

static json_t *verification(const as_outcome *o) {
    if (o->verification)
        return json_incref(o->verification);
    return json_pack("{s:s, s:s, s:i, s:n, s:n, s:b, s:n, s:n, s:s, s:n}", "kind", "reference", "status", "not_run",
                     "checked", 0, "max_error", "tolerance", "deterministic", 0, "input_checksum", "output_checksum",
                     "after_timing", "not_run", "detail");
}

static void add_rate(json_t *row, const as_case *k, const as_figures *f) {
    const char *resource = k->work.bound[0].ceiling;
    const double amount = k->work.bound[0].amount;
    const char *unit = strncmp(resource, "flops", 5) == 0     ? "flops_per_s"
                       : strcmp(resource, "launch") == 0      ? "launches_per_s"
                       : strncmp(resource, "atomics", 7) == 0 ? "additions_per_s"
                                                              : "bytes_per_s";
    json_object_set_new(row, "rate",
                        json_pack("{s:s, s:s, s:o, s:o, s:o}", "resource", resource, "unit", unit, "value",
                                  real_or_null(amount / f->fastest_ns * 1e9), "low",
                                  real_or_null(amount / f->time.high * 1e9), "high",
                                  real_or_null(fmax(amount / f->time.low, amount / f->fastest_ns) * 1e9)));
}

json_t *as_record_case(const as_run_state *s, int c) {
    const as_case *k = &s->plan->cases[c];
    const as_outcome *o = &s->outcome[c];
    const bool done = o->status == AS_DONE;
    const as_figures f = as_case_figures(s, c);
    as_energy_figures energy;
    const bool powered = done && as_energy_figures_of(o->energy, s->plan->rule.confidence, &energy);
    json_t *reasons = json_array();
    const char *validity = as_case_validity(s, c, &f, reasons);
    json_t *row = json_pack(
        "{s:s, s:s, s:s, s:{s:s, s:s}, s:o, s:s, s:o, s:i, s:o, s:o, s:{s:s, s:o}, s:o, s:O, s:o, s:o, s:o, "
        "s:o, s:o, "
        "s:{s:f, s:f, s:f, s:b, s:i}}",
        "id", k->id, "suite", k->suite->name, "variant", k->variant->name, "device", "name", k->device->name, "kind",
        k->device->driver->kind, "parameters", parameters(&k->params), "status", as_case_status_name(o->status),
        "reason", o->reason[0] ? json_string(o->reason) : json_null(), "priority", k->priority, "work", work(&k->work),
        "verification", verification(o), "validity", "status", validity, "reasons", reasons, "statistics",
        done ? statistics(o, &f) : json_null(), "rounds", o->rounds, "series", series(k, o), "metrics",
        done ? metrics(s, c, &f, powered ? &energy : NULL) : json_array(), "ceiling", ceiling(s, &f), "parts",
        done ? as_record_parts(s, c) : json_array(), "telemetry", telemetry(s, k, o, powered ? &energy : NULL), "cost",
        "prepare_ns", o->prepare_ns, "verify_ns", o->verify_ns, "warmup_ns", o->warmup_ns, "warm",
        (int)(o->n_rounds > 0 && o->warm), "copies", k->copies);
    if (row && done && o->parts)
        json_object_set_new(row, "breakdown", as_record_breakdown(s, c, as_sample_median(o)));
    if (row && k->ceiling)
        add_rate(row, k, done ? &f : &(as_figures){.time = {NAN, NAN, NAN, NAN, 0}, .fastest_ns = NAN});
    return row;
}
