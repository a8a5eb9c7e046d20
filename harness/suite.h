/* What a suite registers: axes, variants, points of the plan, work formulas, reference. This header is the whole
 * surface that a kernel or a suite sees, in the tree and outside it; docs/adding.md walks through it. */
#pragma once

#include "device.h"
#include "params.h"
#include "parts.h"
#include "rng.h"
#include "status.h"
#include "team.h"

#include <stdbool.h>
#include <stdint.h>

struct json_t;

#ifdef __cplusplus
extern "C" {
#endif

enum { AS_MAX_OPERANDS = 6, AS_MAX_BOUNDS = 4, AS_MAX_EXTRA = 3, AS_MAX_FACTS = 8 };

/* ---- what an operation reads and writes ---- */

typedef enum as_role { AS_IN, AS_OUT } as_role; /* outputs are poisoned before every verified run */

typedef struct as_operand {
    const char *name;
    as_role role;
    as_memory memory;
    as_dtype type;
    as_dist dist;  /* inputs only */
    int64_t count; /* elements; 0 is legal */
    uint32_t key;  /* Philox stream of an input: operands of one operation differ */
} as_operand;

/* A resource that bounds an operation, and how much of it one operation needs.
 * `ceiling` names a row of the ceiling suite's table (docs/method.md): "memory" (resolved to a level by the
 * working set, cache state, threads and mix of reads and writes), "flops.f32" and other types, "link.h2d", "link.d2h",
 * "link.both", "launch", "atomics", "atomics.shared". */
typedef struct as_bound {
    const char *ceiling;
    double amount; /* bytes, floating-point operations or launches of one operation */
} as_bound;

/* A figure that follows from the parameters alone: it stands among the case's metrics. */
typedef struct as_fact {
    const char *name, *unit; /* "kv_bytes", "bytes" */
    double value;
    const char *formula;
} as_fact;

/* How an output is judged. */
typedef enum as_check {
    AS_CHECK_REFERENCE, /* |out - ref| <= tolerance * scale, element by element, against float64 */
    AS_CHECK_COPY,      /* the last operand equals the first, byte for byte */
    AS_CHECK_EFFECT,    /* a counting twin ran `expected_count` times (call->counter) */
    AS_CHECK_EXIT,      /* exit status and hash of the output of a command */
} as_check;

/* Everything the harness must know about one operation with given parameters. Filled by as_suite.describe. */
typedef struct as_work {
    as_operand operand[AS_MAX_OPERANDS];
    int operands;

    double flops;                     /* floating-point operations of one operation */
    double bytes_read, bytes_written; /* bytes that must move at least, by formula */
    const char *convention;           /* how bytes are counted: "read + written", "copied once" */
    int64_t working_set_bytes;        /* decides the memory level; inputs + outputs touched */
    double items;                     /* things in one operation to divide by (kernels of a chain); 0 if none */
    const char *item;                 /* their name, singular: "kernel" */

    as_bound bound[AS_MAX_BOUNDS];
    int bounds;
    double fixed_ns;        /* time spent by construction (a 10 us spin kernel), part of the floor */
    const char *no_ceiling; /* why there is none, where bounds == 0 and fixed_ns == 0 */

    as_check check;
    double tolerance;       /* AS_CHECK_REFERENCE: of the reference's scale (see as_reference) */
    int64_t rows, columns;  /* shape of the output operand for the reference: rows * columns elements */
    int64_t tile;           /* edge that sampled verification must visit: largest tile of any variant; 0 none */
    int64_t expected_count; /* AS_CHECK_EFFECT: executions of one operation */

    double predicted_ns; /* rough time of one operation for the planner; 0 = unknown */

    /* The rest may stay 0. */
    as_fact fact[AS_MAX_FACTS];
    int facts;
    bool utilisation;       /* metrics mbu and mfu: the shares of the bounds "memory" and "flops..." that it reached */
    bool follows_output;    /* AS_CHECK_REFERENCE: what is right depends on the output itself (as_reference.output) */
    int64_t reference_rows; /* AS_CHECK_REFERENCE: most rows that the host computes, the first and the last among them;
                               0: as many as are cheap */
    bool reference_by_device; /* AS_CHECK_REFERENCE: far too long for the host; where the suite has a reference on this
                                 device, that alone, which smaller cases check against the host's */
    double reference_ns;      /* rough time of the host's reference for the planner; 0: by flops */
    int64_t state_bytes;      /* memory that the variant's state takes beside the operands */
} as_work;

/* ---- one call of a variant ---- */

typedef struct as_call {
    const as_params *params;
    void *const *operand; /* pointers of this iteration's copy, in the order of as_work.operand */
    as_device *device;
    as_stream stream;          /* NULL on cpu */
    as_team *team;             /* cpu: the team of the size that axis `threads` asks; NULL on other devices */
    const as_placement *place; /* CPUs of the run */
    void *state;               /* what the variant's prepare made; NULL without one */
    uint64_t *counter;         /* effect checks: device (or host) counter that the twin adds 1 to for each execution;
                                  NULL when timed: then the empty kernel itself runs */
    double *extra;             /* values of the variant's extra series, filled by run or, on a device, by its kernels
                                  (page-locked memory); of one operation: batch is then 1 */
    double *own_ns;            /* AS_OWN_CLOCK: run stores the time of the operation here; NULL where nobody asks */
} as_call;

/* Runs one operation: on cpu to completion, on a device issued to call->stream. No allocation, no I/O. */
typedef as_status (*as_run_fn)(const as_call *call, as_error *e);

typedef struct as_extra_series {
    const char *name, *unit;
    bool higher_is_better;
    bool per_item; /* the metrics show its median over items, too: <name>_per_item */
    bool median;   /* the metrics show its median under its own name; a value NaN: this operation has none */
} as_extra_series;

typedef enum as_variant_flags {
    AS_DETERMINISTIC = 1, /* same inputs give the same bits: its checksum is recorded and must repeat */
    AS_HOST_CLOCK = 2,    /* device variant timed by the host: run() synchronises by itself */
    AS_SINGLE = 4,        /* one operation a sample (it cannot be batched) */
    AS_CAPTURE = 8,       /* device variant whose batch may be captured in a graph, so that short kernels are
                             not measured through the launch queue */
    AS_OWN_CLOCK = 16, /* run() times the part that counts by itself, stores it in *call->own_ns and has finished when
                             it returns: several streams or devices at once, or a preparation between two operations.
                             One operation a sample */
} as_variant_flags;

typedef struct as_variant {
    const char *name;
    const char *on; /* device kind: "cpu", "cuda" */
    const char *summary;
    unsigned flags;
    as_run_fn run;
    /* Optional: state that outlives one call (graphs, handles). Called with call->counter as it will be in run. */
    as_status (*prepare)(const as_call *call, void **state, as_error *e);
    void (*finish)(void *state);
    /* Optional: AS_EABSENT with the reason where this machine cannot run it (missing library, ISA). */
    as_status (*available)(as_device *device, as_error *e);
    as_extra_series extra[AS_MAX_EXTRA]; /* ends at name NULL */
    /* Optional: runs one instrumented operation and adds what each of its parts took (parts.h). Called after the
     * rounds, in a pass of its own; it may allocate, outside the parts that it times. */
    as_status (*breakdown)(const as_call *call, as_parts *parts, as_error *e);
} as_variant;

/* ---- points of the plan ---- */

typedef enum as_profile { AS_QUICK, AS_STANDARD, AS_PUBLISH } as_profile;

/* A cross product: variants x axes. A profile includes the points of the smaller ones before it. */
typedef struct as_point {
    as_profile from;      /* smallest profile that includes it */
    const char *on;       /* device kind */
    const char *variants; /* "naive,tiled32" or "*" for all of that kind */
    const char *axes;     /* "n=256,1024;threads=1,all"; axes not named stand at their default */
    int priority;         /* 0 first kept when the budget is short; higher is dropped first */
} as_point;

/* ---- references ---- */

/* Computes rows[0..n_rows) of the output in float64 from host inputs (NULL for operands that are outputs).
 * expected and scale hold n_rows * columns values; scale is what `tolerance` multiplies
 * (matmul: sum |a||b|). Independent code: no kernel under test is called. */
typedef struct as_reference {
    const as_params *params;
    const as_work *work;
    const void *const *input;
    const int64_t *rows;
    int64_t n_rows;
    double *expected, *scale;
    const void *output; /* work->follows_output: the whole output, in host memory; else NULL */
} as_reference;

/* Where a case does not fit: what would. Writes one line, "take batch:12 or less", for a device on which operands and
 * state of one case may take `room` bytes. */
typedef void (*as_largest_fn)(const as_params *p, const as_variant *v, const as_device *d, double room, char text[160]);

typedef struct as_suite {
    const char *name;
    const char *summary;
    bool only_if_named; /* a plan takes its cases only where --suite or --cases names them */
    const as_axis *axes;
    int n_axes;
    const as_variant *variants; /* ends at name NULL */
    const as_point *points;     /* ends at variants NULL */
    /* Formulas of one operation. AS_EUSAGE for parameters that make no sense together. */
    as_status (*describe)(const as_params *p, const as_variant *v, const as_device *d, as_work *out, as_error *e);
    as_status (*reference)(const as_reference *r, as_error *e); /* AS_CHECK_REFERENCE only */
    /* Optional whole-output float64 reference on a device of this kind: operands are the inputs in order, then
     * (work->follows_output) the output, then expected and scale (double, rows * columns, device memory). Itself checked against `reference`. */
    const char *device_reference_on;
    as_run_fn device_reference;
    as_largest_fn largest; /* optional: remedy for a case that is larger than the memory */
} as_suite;

/* ---- ceilings ---- */

/* One ceiling case: a variant of the ceiling suite and its axes ("level=l2;threads=all"). A ceiling's own describe
 * sets bound[0] to the resource and the amount that one operation uses of it: its rate is amount / time. */
typedef struct as_ceiling_ref {
    const char *variant;
    char axes[64];
} as_ceiling_ref;
enum { AS_MAX_CEILING_REFS = 4 };

/* A kind of device that people may ask for and this binary was built without. */
typedef struct as_absent_kind {
    const char *kind, *reason;
} as_absent_kind;

/* A command for processes that this binary starts of itself, `assay __NAME`: no help names it. Returns the exit code. */
typedef struct as_private_command {
    const char *name;
    int (*run)(int argc, char **argv);
} as_private_command;

/* Everything a binary offers; suites/main.c holds ours, an outside project holds its own. */
typedef struct as_registry {
    const as_suite *const *suites;          /* ends at NULL; not the ceiling suite */
    const as_device_driver *const *drivers; /* ends at NULL; the cpu driver is always there and not listed */
    const as_absent_kind *absent;       /* kinds of device that this build leaves out; ends at kind NULL; NULL: none */
    const as_private_command *commands; /* ends at name NULL; NULL: none */
    const as_suite *ceilings;           /* NULL for none; a plan takes all its points where it is named */
    /* The ceiling cases that serve bound `b` of a case; the highest of their rates counts. Returns their number,
     * 0 if none. `cold`: the case runs on a cold cache. */
    int (*ceilings_for)(const as_bound *b, const as_work *w, const as_params *p, const as_device *d, bool cold,
                        as_ceiling_ref out[AS_MAX_CEILING_REFS]);
    /* Further keys of what `list --json` prints and results hold as plan.catalogue. New object, NULL where memory is
     * short; a key of the harness's own wins. NULL: none. */
    struct json_t *(*catalogue)(void);
} as_registry;

/* The whole command: parses argv, runs, returns the exit code. */
int as_main(int argc, char **argv, const as_registry *registry);

#ifdef __cplusplus
}
#endif
