#include "measure.h"
#include "process.h"
#include "stats.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A sample is at least this long, so that clock cost and resolution stay below 1% of it. The host clock costs some
 * 25 ns; device events resolve about 0.5 us. */
static const double host_sample_ns = 20e3, device_sample_ns = 100e3;
static const int64_t most_batch = 1 << 20, most_captured = 512;
enum { MAX_BLOCKS = 64, MIN_BLOCKS = 8 };

bool as_bench_device_clock(const as_bench *b, const as_workshop *w) {
    return w->device.driver->capture_begin != NULL && !(b->variant->flags & AS_HOST_CLOCK);
}

static bool own_clock(const as_bench *b) { return b->variant->flags & AS_OWN_CLOCK; }

double as_host_clock_cost_ns(void) {
    static double cost;
    if (cost == 0) {
        enum { READS = 2000 };
        double best = INFINITY;
        for (int block = 0; block < 5; block++) {
            int64_t t = as_now_ns();
            for (int i = 0; i < READS; i++)
                (void)as_now_ns();
            best = fmin(best, (double)(as_now_ns() - t) / READS);
        }
        cost = best;
    }
    return cost;
}

/* ---- one sample ---- */

as_status as_measure_issue(as_bench *b, as_workshop *w, int64_t batch, as_error *e) {
    if (b->graph && b->graph_batch == batch)
        return w->device.driver->graph_launch(&w->device, b->graph, w->stream, e);
    const as_run_fn run = b->variant->run;
    const int copies = b->copies;
    int copy = b->next; /* not from 0 at each sample: a cold case with a batch of 1 would stay on one copy */
    for (int64_t i = 0; i < batch; i++, copy = copy + 1 == copies ? 0 : copy + 1)
        AS_TRY(run(&b->call[copy], e));
    b->next = copy;
    return AS_OK;
}

static as_status sample(as_bench *b, as_workshop *w, int64_t batch, double *primary_ns, double *host_ns, as_error *e) {
    const as_device_driver *driver = w->device.driver;
    if (own_clock(b)) {
        const int64_t t = as_now_ns();
        b->own_ns = NAN;
        AS_TRY(as_measure_issue(b, w, batch, e));
        *host_ns = (double)(as_now_ns() - t);
        *primary_ns = b->own_ns;
        return isfinite(b->own_ns) ? AS_OK : as_fail(e, AS_EFAIL, "%s stored no time of its own", b->variant->name);
    }
    if (!as_bench_device_clock(b, w)) {
        const int64_t t = as_now_ns();
        AS_TRY(as_measure_issue(b, w, batch, e));
        *primary_ns = *host_ns = (double)(as_now_ns() - t);
        return AS_OK;
    }
    const int64_t t = as_now_ns();
    AS_TRY(driver->event_record(&w->device, w->from, w->stream, e));
    AS_TRY(as_measure_issue(b, w, batch, e));
    AS_TRY(driver->event_record(&w->device, w->to, w->stream, e));
    AS_TRY(driver->stream_sync(&w->device, w->stream, e));
    *host_ns = (double)(as_now_ns() - t);
    return driver->event_elapsed(&w->device, w->from, w->to, primary_ns, e);
}

/* ---- warm-up ---- */

/* A graph holds its calls' copies for good: its batch is a multiple of the copies, so that a cold case stays cold. */
static bool captures(const as_bench *b, const as_workshop *w) {
    return (b->variant->flags & AS_CAPTURE) && w->device.driver->capture_begin && b->copies <= most_captured;
}

static as_status capture(as_bench *b, as_workshop *w, int64_t batch, as_error *e) {
    const as_device_driver *driver = w->device.driver;
    if (!captures(b, w) || batch % b->copies != 0 || (b->graph && b->graph_batch == batch))
        return AS_OK;
    if (b->graph)
        driver->graph_destroy(&w->device, b->graph);
    b->graph = NULL;
    AS_TRY(driver->capture_begin(&w->device, w->stream, e));
    as_status s = as_measure_issue(b, w, batch, e);
    as_graph graph = NULL;
    as_status end = driver->capture_end(&w->device, w->stream, &graph, s == AS_OK ? e : NULL);
    if (s != AS_OK || end != AS_OK)
        return s != AS_OK ? s : end;
    b->graph = graph;
    b->graph_batch = batch;
    return AS_OK;
}

/* Doubles the batch until a sample is long enough. A capturable kernel is captured from the first step on. */
static as_status choose_batch(as_bench *b, as_workshop *w, int64_t *batch, double *op_ns, as_error *e) {
    const double enough = as_bench_device_clock(b, w) ? device_sample_ns : host_sample_ns;
    const int64_t unit = captures(b, w) ? b->copies : 1;
    const bool single = own_clock(b) || b->variant->flags & AS_SINGLE;
    const int64_t most = single ? 1 : captures(b, w) ? most_captured / unit * unit : most_batch;
    double ns = 0, host = 0;
    *batch = unit;
    AS_TRY(sample(b, w, 1, &ns, &host, e)); /* first call: caches, page tables, clocks */
    *op_ns = ns / (double)unit;
    if (own_clock(b))
        return AS_OK;
    if (ns > 100 * enough) /* slow: repeating it to choose a batch would only take time */
        return AS_OK;
    for (;;) {
        AS_TRY(capture(b, w, *batch, e));
        double best = INFINITY;
        for (int i = 0; i < 3; i++) {
            AS_TRY(sample(b, w, *batch, &ns, &host, e));
            best = fmin(best, ns);
        }
        *op_ns = best / (double)*batch;
        if (best >= enough || *batch >= most)
            return AS_OK;
        const double grow = best > 0 ? ceil(1.2 * enough / best) : 16;
        const int64_t next = (int64_t)((double)*batch * fmin(fmax(grow, 2), 16));
        *batch = next < most ? next / unit * unit : most;
    }
}

as_status as_measure_warmup(as_bench *b, as_workshop *w, int64_t batch, double limit_ns, as_warmup *out, as_error *e) {
    const int64_t begin = as_now_ns();
    *out = (as_warmup){.batch = batch};
    if (batch == 0)
        AS_TRY(choose_batch(b, w, &out->batch, &out->op_ns, e));
    AS_TRY(capture(b, w, out->batch, e));
    double block[MAX_BLOCKS], ns, host;
    const double block_ns = limit_ns / 16; /* a block is a sixteenth of the limit, or one sample if that is longer */
    for (int n = 0; n < MAX_BLOCKS && !out->warm; n++) {
        double samples[64];
        int k = 0;
        const int64_t start = as_now_ns();
        do {
            AS_TRY(sample(b, w, out->batch, &ns, &host, e));
            if (own_clock(b)) /* what a round takes: an operation is longer than the part of it that counts */
                ns = host;
            samples[k++] = ns;
        } while (k < 64 && (double)(as_now_ns() - start) < block_ns);
        block[n] = as_stats_median(samples, (size_t)k);
        out->op_ns = block[n] / (double)out->batch;
        out->warm = as_stats_warm(block, (size_t)n + 1, 0.05);
        /* An operation longer than the limit is its own warm-up. */
        if ((n + 1 >= MIN_BLOCKS || ns > limit_ns) && (double)(as_now_ns() - begin) > limit_ns)
            break;
    }
    b->op_ns = out->op_ns;
    out->spent_ns = (double)(as_now_ns() - begin);
    return AS_OK;
}

/* ---- a round ---- */

typedef struct round_context {
    as_bench *b;
    as_workshop *w;
    as_round *r;
    as_status status;
    as_error *e;
} round_context;

static void body(as_gb_state *state, void *context) {
    round_context *x = context;
    as_round *r = x->r;
    int k = 0;
    while (as_gb_keep_running_batch(state, r->batch)) {
        double ns = 0, host = 0;
        if (k == r->samples || (x->status = sample(x->b, x->w, r->batch, &ns, &host, x->e)) != AS_OK) {
            as_gb_skip_with_error(state, "the operation failed");
            return;
        }
        as_gb_set_iteration_time(state, ns * 1e-9);
        r->time_ns[k] = llround(ns);
        r->host_ns[k] = llround(host);
        for (int i = 0; i < AS_MAX_EXTRA && x->b->variant->extra[i].name; i++)
            r->extra[i][k] = x->b->extra[i];
        k++;
    }
}

/* A device cannot have worked longer than the host waited for it. That our samples agree with Google Benchmark's own
 * total is judged over all rounds of a case (figures.c): one preemption between two samples spoils no sample. */
static void cross_check(const as_bench *b, const as_workshop *w, as_round *r) {
    double sum = 0, host = 0;
    for (int i = 0; i < r->samples; i++) {
        sum += (double)r->time_ns[i];
        host += (double)r->host_ns[i];
    }
    if (as_bench_device_clock(b, w) && sum > 1.01 * host + 2000.0 * r->samples)
        snprintf(r->suspicion, sizeof r->suspicion, "device time %.0f ns exceeds host time %.0f ns", sum, host);
}

as_status as_measure_round(as_bench *b, as_workshop *w, as_round *r, as_error *e) {
    const bool manual_time = own_clock(b) || as_bench_device_clock(b, w);
    round_context x = {b, w, r, AS_OK, e};
    r->suspicion[0] = '\0';
    (void)as_host_clock_cost_ns();
    r->begin_ns = as_now_ns();
    AS_TRY(as_gb_run(&(as_gb_spec){.name = b->id,
                                   .iterations = (int64_t)r->samples * r->batch,
                                   .manual_time = manual_time,
                                   .body = body,
                                   .context = &x},
                     &r->row, e));
    r->end_ns = as_now_ns();
    AS_TRY(x.status);
    if (r->row.failed)
        return as_fail(e, AS_EFAIL, "Google Benchmark gave up: %.400s", r->row.message);
    cross_check(b, w, r);
    return AS_OK;
}

as_status as_measure_once(as_bench *b, as_workshop *w, as_error *e) {
    b->next = 0; /* from the first copy on: a graph's batch is a multiple of the copies, the loop takes each once */
    AS_TRY(as_measure_issue(b, w, b->graph ? b->graph_batch : b->copies, e));
    return w->device.driver->stream_sync(&w->device, w->stream, e);
}

/* ---- the instrumented pass ---- */

double as_measure_parts_cost_ns(double op_ns) {
    return fmax(op_ns, fmin(fmax(AS_PARTS_LEAST_NS, AS_PARTS_OPERATIONS * op_ns), AS_PARTS_MOST_NS));
}

/* Warm, from the rounds before; copies in turn, as there. */
as_status as_measure_parts(as_bench *b, as_parts *parts, as_error *e) {
    const int64_t begin = as_now_ns();
    for (int64_t n = 0; n < AS_PARTS_MOST_OPERATIONS; n++) {
        const double spent = (double)(as_now_ns() - begin), next = n > 0 ? spent / (double)n : 0;
        if ((n >= AS_PARTS_OPERATIONS && spent >= AS_PARTS_LEAST_NS) || (n > 0 && spent + next > AS_PARTS_MOST_NS))
            break;
        AS_TRY(b->variant->breakdown(&b->call[b->next], parts, e));
        b->next = b->next + 1 == b->copies ? 0 : b->next + 1;
        if (as_parts_operations(parts) != n + 1)
            return as_fail(e, AS_EFAIL, "the breakdown of %s/%s ended %lld operations for 1", b->suite->name,
                           b->variant->name, (long long)(as_parts_operations(parts) - n));
    }
    return AS_OK;
}
