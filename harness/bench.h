/* One case inside a worker: its operands, copies, calls and state. Prepared once a launch; rounds allocate nothing. */
#pragma once

#include "inputs.h"
#include "place.h"
#include "suite.h"

enum { AS_MAX_TEAMS = 8 };

/* What a worker owns besides its cases. */
typedef struct as_workshop {
    as_device device;
    as_stream stream;
    as_event from, to;
    as_inputs *inputs;
    as_placement placement;
    struct json_t *placed;       /* what the operating system says took effect */
    as_team *team[AS_MAX_TEAMS]; /* cpu: one a size, made on first use */
    uint64_t seed;
    const char *references; /* folder where the launches of a run share references; NULL: none */
} as_workshop;

typedef struct as_bench {
    const as_suite *suite;
    const as_variant *variant;
    as_params params;
    as_work work;
    char id[AS_ID_MAX];
    int copies;
    int prepared;   /* calls whose state is made */
    int next;       /* copy that the next operation takes: goes on from sample to sample */
    as_call *call;  /* one a copy */
    void **operand; /* copies x AS_MAX_OPERANDS */
    double *extra;  /* AS_MAX_EXTRA values, in memory that device and host both write to */
    double own_ns;  /* AS_OWN_CLOCK: what the last operation stored */
    as_graph graph; /* AS_CAPTURE: `graph_batch` operations captured at warm-up; NULL before */
    int64_t graph_batch;
    double op_ns; /* estimate from warm-up */
    uint64_t input_checksum;
} as_bench;

as_status as_workshop_open(as_workshop *w, const as_device_driver *driver, int index, const as_placement *place,
                           uint64_t seed, as_error *e) AS_MUST_CHECK;
void as_workshop_close(as_workshop *w);

/* Allocates, fills inputs, prepares the variant's state. AS_EABSENT: the variant cannot run on this machine.
 * suite, variant, params and copies are set by the caller. On failure nothing is left allocated. */
as_status as_bench_prepare(as_bench *b, as_workshop *w, as_error *e) AS_MUST_CHECK;
void as_bench_release(as_bench *b, as_workshop *w);
/* Fills every output of every copy with 0xFF bytes: NaN in every float type. */
as_status as_bench_poison(as_bench *b, as_workshop *w, as_error *e) AS_MUST_CHECK;
size_t as_operand_bytes(const as_operand *o);
