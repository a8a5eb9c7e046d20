/* Timing of one prepared case: warm-up with the choice of the batch, and rounds through Google Benchmark. */
#pragma once

#include "bench.h"
#include "gbench.h"

enum { AS_MAX_SAMPLES = 1000 };

typedef struct as_warmup {
    int64_t batch; /* operations a sample */
    double op_ns;  /* one operation, from the last blocks */
    double spent_ns;
    bool warm; /* the blocks settled before the limit */
} as_warmup;

/* Runs until the block medians settle (as_stats_warm) or limit_ns is spent. batch 0: choose it so that a sample is
 * long against the clock's resolution; otherwise keep the given one, so that launches stay comparable. */
as_status as_measure_warmup(as_bench *b, as_workshop *w, int64_t batch, double limit_ns, as_warmup *out,
                            as_error *e) AS_MUST_CHECK;

/* One round: `samples` samples of `batch` operations. Arrays hold AS_MAX_SAMPLES and are the caller's. */
typedef struct as_round {
    int samples;
    int64_t batch;
    int64_t begin_ns, end_ns;
    int64_t time_ns[AS_MAX_SAMPLES]; /* of `batch` operations, by the primary clock */
    int64_t host_ns[AS_MAX_SAMPLES]; /* the same by the host, where the primary clock is the device's */
    double extra[AS_MAX_EXTRA][AS_MAX_SAMPLES];
    as_gb_row row;
    char suspicion[160]; /* why the round's clocks disagree; empty if they do not */
} as_round;

as_status as_measure_round(as_bench *b, as_workshop *w, as_round *r, as_error *e) AS_MUST_CHECK;

/* Issues a batch through the timed path: a captured graph, or the copies in turn. A device may still be at work. */
as_status as_measure_issue(as_bench *b, as_workshop *w, int64_t batch, as_error *e) AS_MUST_CHECK;

/* One sample's worth of operations through the timed path, untimed; every copy runs at least once. */
as_status as_measure_once(as_bench *b, as_workshop *w, as_error *e) AS_MUST_CHECK;

/* The instrumented pass: at least AS_PARTS_OPERATIONS operations and AS_PARTS_LEAST_NS, as far as they fit
 * AS_PARTS_MOST_NS; at least one operation. The variant must have a breakdown hook. */
enum { AS_PARTS_OPERATIONS = 20, AS_PARTS_MOST_OPERATIONS = 1000 };
#define AS_PARTS_LEAST_NS 5e8
#define AS_PARTS_MOST_NS 2e9
as_status as_measure_parts(as_bench *b, as_parts *parts, as_error *e) AS_MUST_CHECK;
/* Wall time that the pass takes for an operation of op_ns: what the plan reserves. */
double as_measure_parts_cost_ns(double op_ns);

bool as_bench_device_clock(const as_bench *b, const as_workshop *w);
double as_host_clock_cost_ns(void); /* of reading the host clock once: measured at the first call */
