#include "energy.h"
#include "measure.h"
#include "process.h"
#include "stats.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const as_energy_settings as_energy_usual = {
    .idle_ns = 1000000000, .settle_ns = 300000000, .window_ns = 600000000, .windows = 5};

/* Between two readings under load: short against the 100 ms in which a GPU's counter moves. */
static const double chunk_ns = 8e6;
/* Between two at rest: often enough for steps of 100 ms, too seldom to keep a device awake. */
static const long rest_poll_ns = 2000000;

double as_energy_cost_ns(double op_ns) {
    const as_energy_settings *s = &as_energy_usual;
    const double window = fmax((double)s->window_ns + 1e8, 2 * op_ns); /* a step of the counter longer */
    return (double)(s->idle_ns + s->settle_ns) + s->windows * window + 1e8 + 2 * op_ns;
}

/* ---- the counter ---- */

/* A step of the counter was seen: its value, when, and between how many and how many operations were complete. */
typedef struct edge {
    int64_t at_ns;
    double joules, low, high;
} edge;

typedef struct counter {
    const as_device_telemetry *telemetry;
    void *monitor;
    double joules, low; /* of the last reading; joules NaN before */
    int64_t at_ns;
    double step_ns; /* time between steps at rest; INFINITY unknown */
    char reason[160];
} counter;

/* Operations complete at this reading: `low` for certain, `high` at most. 1: a step was seen; 0: none; -1: unreadable. */
static int look(counter *c, double low, double high, double op_ns, edge *out) {
    double joules;
    if (!c->telemetry->energy(c->monitor, &joules, c->reason))
        return -1;
    const int64_t now = as_now_ns();
    const bool stepped = isfinite(c->joules) && joules != c->joules;
    /* It stepped after the last reading, and its value is at most one step old. */
    const double oldest = isfinite(c->step_ns) && op_ns > 0 ? low - c->step_ns / op_ns : -INFINITY;
    if (stepped)
        *out = (edge){now, joules, fmin(fmax(c->low, oldest), high), high};
    c->joules = joules;
    c->low = low;
    c->at_ns = now;
    return stepped;
}

static json_t *absent(const char *reason) { return json_pack("{s:s, s:s}", "state", "absent", "reason", reason); }

/* ---- at rest ---- */

/* Mean power between the first and the last step, NaN where fewer than two were seen; sets the counter's step. */
static double rest(counter *c, int64_t idle_ns) {
    const int64_t until = as_now_ns() + idle_ns;
    edge first = {0}, last = {0}, now;
    int steps = 0;
    while (as_now_ns() < until) {
        nanosleep(&(struct timespec){.tv_nsec = rest_poll_ns}, NULL);
        const int seen = look(c, 0, 0, 0, &now);
        if (seen < 0)
            return NAN;
        if (seen && steps++ == 0)
            first = now;
        last = seen ? now : last;
    }
    if (steps < 2)
        return NAN;
    c->step_ns = (double)(last.at_ns - first.at_ns) / (steps - 1);
    return (last.joules - first.joules) / ((double)(last.at_ns - first.at_ns) * 1e-9);
}

/* ---- under load ---- */

typedef struct load {
    as_bench *b;
    as_workshop *w;
    int64_t batch;
    int batches;     /* in a chunk */
    bool overlapped; /* the counter is read while the device works: reading it leaves no gap */
    double done;     /* operations complete for certain */
} load;

static as_status run_chunk(load *l, counter *c, int *seen, edge *out, as_error *e) {
    const double before = l->done, op_ns = l->b->op_ns;
    for (int i = 0; i < l->batches; i++)
        AS_TRY(as_measure_issue(l->b, l->w, l->batch, e));
    l->done += (double)l->batch * l->batches;
    if (l->overlapped)
        *seen = look(c, before, l->done, op_ns, out);
    AS_TRY(l->w->device.driver->stream_sync(&l->w->device, l->w->stream, e));
    if (!l->overlapped)
        *seen = look(c, l->done, l->done, op_ns, out);
    return AS_OK;
}

static load make_load(as_bench *b, as_workshop *w, int64_t batch) {
    const double batch_ns = fmax(b->op_ns, 1) * (double)batch;
    load l = {.b = b, .w = w, .batch = batch, .batches = (int)fmax(1, floor(chunk_ns / batch_ns))};
    l.overlapped = as_bench_device_clock(b, w) && batch_ns <= chunk_ns;
    return l;
}

/* windows + 1 steps of the counter, each at least window_ns after the last. *n is smaller where the time ran out. */
static as_status run_windows(load *l, counter *c, const as_energy_settings *s, edge *edges, int *n, as_error *e) {
    const int64_t begin = as_now_ns();
    const double step = isfinite(c->step_ns) ? c->step_ns : 0;
    const double longest = fmax((double)s->window_ns, 4 * l->b->op_ns) + 10 * step + 1e9;
    int64_t not_before = begin + (int64_t)fmax((double)s->settle_ns, 2 * step);
    const int64_t deadline = not_before + (int64_t)((s->windows + 1) * longest);
    *n = 0;
    while (*n <= s->windows && as_now_ns() < deadline) {
        int seen = 0;
        edge found;
        AS_TRY(run_chunk(l, c, &seen, &found, e));
        if (seen < 0)
            return AS_OK;
        if (!seen || found.at_ns < not_before || (*n > 0 && found.low <= edges[*n - 1].high))
            continue;
        edges[(*n)++] = found;
        not_before = found.at_ns + s->window_ns;
    }
    return AS_OK;
}

static json_t *measured(const counter *c, double idle_watts, const edge *edges, int n) {
    json_t *at = json_array(), *joules = json_array(), *low = json_array(), *high = json_array();
    for (int i = 0; i < n; i++) {
        json_array_append_new(at, json_integer(edges[i].at_ns));
        json_array_append_new(joules, json_real(edges[i].joules - edges[0].joules));
        json_array_append_new(low, json_real(edges[i].low));
        json_array_append_new(high, json_real(edges[i].high));
    }
    return json_pack("{s:s, s:n, s:o, s:o, s:o, s:o, s:o, s:o}", "state", "measured", "reason", "step_ns",
                     isfinite(c->step_ns) ? json_real(c->step_ns) : json_null(), "idle_watts",
                     isfinite(idle_watts) ? json_real(idle_watts) : json_null(), "at_ns", at, "joules", joules,
                     "operations_low", low, "operations_high", high);
}

as_status as_energy_measure(as_bench *b, as_workshop *w, int64_t batch, const as_device_telemetry *telemetry,
                            void *monitor, const as_energy_settings *s, json_t **out, as_error *e) {
    *out = NULL;
    counter c = {.telemetry = telemetry, .monitor = monitor, .joules = NAN, .step_ns = INFINITY};
    edge ignored, edges[AS_MOST_WINDOWS + 1];
    if (!telemetry || !telemetry->energy || !monitor) {
        *out = absent("this device has no energy counter that can be read");
        return AS_OK;
    }
    if (look(&c, 0, 0, 0, &ignored) < 0) {
        *out = absent(c.reason);
        return AS_OK;
    }
    const double idle_watts = rest(&c, s->idle_ns);
    load l = make_load(b, w, batch);
    int n = 0;
    c.reason[0] = '\0';
    AS_TRY(run_windows(&l, &c, s, edges, &n, e));
    if (n == s->windows + 1)
        *out = measured(&c, idle_watts, edges, n);
    else
        *out = absent(c.reason[0] ? c.reason : "the energy counter did not move often enough");
    return AS_OK;
}

/* ---- figures ---- */

static double at(const json_t *pass, const char *key, int i) {
    return json_number_value(json_array_get(json_object_get(pass, key), (size_t)i));
}

static double operations(const json_t *pass, int i) {
    return (at(pass, "operations_low", i) + at(pass, "operations_high", i)) / 2;
}

static double doubt(const json_t *pass, int i) {
    return (at(pass, "operations_high", i) - at(pass, "operations_low", i)) / 2;
}

bool as_energy_figures_of(const json_t *pass, double confidence, as_energy_figures *out) {
    const char *state = json_string_value(json_object_get(pass, "state"));
    const int n = (int)json_array_size(json_object_get(pass, "joules")) - 1;
    if (!state || strcmp(state, "measured") != 0 || n < 3 || n > AS_MOST_WINDOWS)
        return false;
    double window[AS_MOST_WINDOWS];
    for (int i = 0; i < n; i++)
        window[i] =
            (at(pass, "joules", i + 1) - at(pass, "joules", i)) / (operations(pass, i + 1) - operations(pass, i));
    const double count = operations(pass, n) - operations(pass, 0), joules = at(pass, "joules", n),
                 seconds = (at(pass, "at_ns", n) - at(pass, "at_ns", 0)) * 1e-9;
    const json_t *idle = json_object_get(pass, "idle_watts");
    const double resolution = (doubt(pass, 0) + doubt(pass, n)) / count;
    *out = (as_energy_figures){.joules = joules / count,
                               .relative_half_width =
                                   as_stats_interval(window, (size_t)n, confidence).relative_half_width + resolution,
                               .resolution_joules = joules / count * resolution,
                               .watts = joules / seconds,
                               .idle_watts = json_is_number(idle) ? json_number_value(idle) : NAN};
    out->above_idle_joules = (joules - out->idle_watts * seconds) / count;
    return isfinite(out->joules) && isfinite(out->relative_half_width) && out->joules > 0;
}
