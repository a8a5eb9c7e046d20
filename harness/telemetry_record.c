/* Telemetry as JSON: the run's curves, and what fell into the rounds of one case. */
#include "telemetry_internal.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of the rows that grow in time, in order. A sampler that was killed while it dropped every second row leaves
 * some twice. NULL without memory; *n rows. */
static int *ordered_rows(const as_telemetry *t, int *n) {
    const int rows = as_telemetry_rows(t);
    int *list = malloc(sizeof *list * (size_t)(rows + 1));
    double last = -INFINITY;
    *n = 0;
    for (int i = 0; list && i < rows; i++)
        if (as_telemetry_row(t, i)[0] > last) {
            last = as_telemetry_row(t, i)[0];
            list[(*n)++] = i;
        }
    return list;
}

/* Five significant digits: no reading is better than that, and the file stays small. */
static json_t *value_json(double x) {
    char text[32];
    if (!isfinite(x))
        return json_null();
    if (fabs(x) >= 1e4 || x == floor(x))
        return fabs(x) < 1e15 ? json_integer(llround(x)) : json_real(x);
    snprintf(text, sizeof text, "%.5g", x);
    return json_real(strtod(text, NULL));
}

/* ---- the run ---- */

/* Mean of one column over rows list[from..to); of a mask all bits that stood. NaN where none is known. */
static double joined(const as_telemetry *t, const int *list, int from, int to, int column) {
    double sum = 0;
    int64_t bits = 0;
    int known = 0;
    for (int i = from; i < to; i++) {
        const double x = as_telemetry_row(t, list[i])[column + 1];
        if (!isfinite(x))
            continue;
        sum += x;
        bits |= (int64_t)x;
        known++;
    }
    if (known == 0)
        return NAN;
    return t->column[column]->kind == AS_MASK ? (double)bits : sum / known;
}

static json_t *time_json(const as_telemetry *t, const int *list, int n, int stride) {
    json_t *out = json_array();
    for (int from = 0; from < n; from += stride) {
        const int to = from + stride < n ? from + stride : n;
        const double first = as_telemetry_row(t, list[from])[0];
        double later = 0;
        for (int i = from; i < to; i++)
            later += as_telemetry_row(t, list[i])[0] - first;
        json_array_append_new(out, json_integer((json_int_t)(first + later / (to - from))));
    }
    return out;
}

/* A column that never had a value is named in `unreadable` and has no values: NULL. */
static json_t *values_json(const as_telemetry *t, const int *list, int n, int stride, int column) {
    json_t *out = json_array();
    bool any = false;
    for (int from = 0; from < n; from += stride) {
        const double x = joined(t, list, from, from + stride < n ? from + stride : n, column);
        any = any || isfinite(x);
        json_array_append_new(out, value_json(x));
    }
    if (any)
        return out;
    json_decref(out);
    return NULL;
}

static json_t *sampler_json(const as_telemetry *t) {
    const as_telemetry_area *a = t->area;
    if (!a)
        return json_null();
    return json_pack("{s:s, s:o, s:I, s:I, s:i, s:f, s:f, s:f, s:f, s:f}", "scheduling", a->scheduling, "cpu",
                     a->cpu >= 0 ? json_integer(a->cpu) : json_null(), "shortest_period_ns", (json_int_t)a->floor_ns,
                     "last_period_ns", (json_int_t)atomic_load(&a->period_ns), "thinned", atomic_load(&a->thinned),
                     "start_cpu_ns", a->start_cpu_ns, "cpu_ns", a->cpu_ns, "wall_ns", a->wall_ns, "cpu_share",
                     a->wall_ns > 0 ? a->cpu_ns / a->wall_ns : 0.0, "worst_share_60s", a->worst_share);
}

json_t *as_telemetry_json(const as_telemetry *t) {
    if (!t || !t->state[0])
        return json_null();
    int n = 0;
    int *list = ordered_rows(t, &n);
    const int stride = n > AS_TELEMETRY_KEPT ? (n + AS_TELEMETRY_KEPT - 1) / AS_TELEMETRY_KEPT : 1;
    json_t *columns = json_array(), *unreadable = json_array();
    for (int s = 0; list && s < t->sources; s++) {
        const int end = s + 1 < t->sources ? t->source[s + 1].first : t->columns;
        for (int c = t->source[s].first; c < end; c++) {
            json_t *values = values_json(t, list, n, stride, c);
            if (values)
                json_array_append_new(columns, json_pack("{s:s, s:s, s:o}", "device", t->source[s].name, "name",
                                                         t->column[c]->name, "values", values));
            else
                json_array_append_new(unreadable, json_sprintf("%s.%s", t->source[s].name, t->column[c]->name));
        }
    }
    json_t *out =
        json_pack("{s:s, s:o, s:s, s:o, s:i, s:i, s:o, s:o, s:o}", "state", t->state, "fault",
                  t->fault[0] ? json_string(t->fault) : json_null(), "clock", "CLOCK_MONOTONIC_RAW", "sampler",
                  sampler_json(t), "samples", n, "joined", stride, "time_ns",
                  list ? time_json(t, list, n, stride) : json_array(), "columns", columns, "unreadable", unreadable);
    free(list);
    return out;
}

/* ---- a case ---- */

typedef struct summary {
    double min, max, sum;
    int known;
} summary;

/* First of the rows that is not before `ns`. */
static int first_from(const as_telemetry *t, const int *list, int n, double ns) {
    int low = 0, high = n;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (as_telemetry_row(t, list[middle])[0] < ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void take_row(const as_telemetry *t, const double *row, summary *sums) {
    for (int c = 0; c < t->columns; c++) {
        const double x = row[c + 1];
        if (!isfinite(x) || t->column[c]->kind == AS_MASK)
            continue;
        sums[c].min = sums[c].known ? fmin(sums[c].min, x) : x;
        sums[c].max = sums[c].known ? fmax(sums[c].max, x) : x;
        sums[c].sum += x;
        sums[c].known++;
    }
}

static json_t *summaries_json(const as_telemetry *t, const summary *sums, const char *device) {
    json_t *out = json_array();
    for (int s = 0; s < t->sources; s++) {
        const int end = s + 1 < t->sources ? t->source[s + 1].first : t->columns;
        if (t->source[s].driver != &as_host_telemetry && strcmp(t->source[s].name, device) != 0)
            continue;
        for (int c = t->source[s].first; c < end; c++)
            if (sums[c].known)
                json_array_append_new(out, json_pack("{s:s, s:s, s:o, s:o, s:o}", "device", t->source[s].name, "name",
                                                     t->column[c]->name, "min", value_json(sums[c].min), "mean",
                                                     value_json(sums[c].sum / sums[c].known), "max",
                                                     value_json(sums[c].max)));
    }
    return out;
}

json_t *as_telemetry_case_json(const as_telemetry *t, const json_t *rounds, const char *device) {
    json_t *out = json_object();
    if (!t || as_telemetry_rows(t) == 0)
        return out;
    int n = 0, taken = 0;
    int *list = ordered_rows(t, &n);
    summary *sums = calloc((size_t)t->columns + 1, sizeof *sums);
    size_t i;
    json_t *round;
    json_array_foreach(rounds, i, round) {
        if (!list || !sums || json_integer_value(json_object_get(round, "launch")) < t->first_launch)
            continue;
        const double begin = (double)json_integer_value(json_object_get(round, "begin_ns")),
                     end = (double)json_integer_value(json_object_get(round, "end_ns"));
        for (int k = first_from(t, list, n, begin); k < n && as_telemetry_row(t, list[k])[0] <= end; k++, taken++)
            take_row(t, as_telemetry_row(t, list[k]), sums);
    }
    if (taken > 0) {
        json_object_set_new(out, "samples", json_integer(taken));
        json_object_set_new(out, "columns", summaries_json(t, sums, device));
    }
    free(list);
    free(sums);
    return out;
}
