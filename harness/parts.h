/* The breakdown of an operation: what each of its parts takes, from an instrumented pass of its own. A variant's
 * breakdown hook runs one operation and adds its parts; the harness calls it some tens of times and sums them up. */
#pragma once

#include "status.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct json_t;

/* One part of one operation. Texts must outlive the pass: literals. */
typedef struct as_part {
    const char *phase;   /* "prefill", "decode", "forward" */
    const char *path;    /* "attention", "mlp/down": a slash sets off a part of a part */
    int layer;           /* -1: of no layer */
    const char *where;   /* "host", "device" */
    const char *source;  /* what timed it: "clock", "events", "cupti", "stamps" */
    double ns;           /* parts do not overlap: each ns of the operation is in one of them at most */
    double bytes, flops; /* that it must move and compute at least; 0: none */
    const char *ceiling; /* the bound of the case that limits it: "memory", "flops.f32"; NULL: nothing does */
} as_part;

typedef struct as_parts as_parts;

/* Layers of a path come in order; the next time that the path starts over, it is another occurrence of it. */
void as_parts_add(as_parts *p, const as_part *part);
/* Ends the operation: what it took from end to end, with the instruments in it. */
void as_parts_total(as_parts *p, double ns);

/* The clock of the host's parts: the one that times the rounds. */
int64_t as_parts_now_ns(void);

/* ---- the harness's side ---- */

as_status as_parts_create(as_parts **out, as_error *e) AS_MUST_CHECK;
void as_parts_free(as_parts *p); /* NULL allowed */
int64_t as_parts_operations(const as_parts *p);
/* {operations, instrumented_ns (mean of one), rows[]: phase, path, layer, where, source, count, total_ns, mean_ns, p50_ns,
 * p99_ns, bytes, flops, ceiling}. Times are of the operations whose totals lie between the quartiles, percentiles of all.
 * Rows of layer null hold a path over all its layers, one occurrence each time it starts over; rows with a number one
 * layer of it. NULL: out of memory, or no operation was ended. New object. */
struct json_t *as_parts_json(const as_parts *p);

#ifdef __cplusplus
}
#endif
