/* A breakdown's marks: which stage of which layer a kernel belongs to, and what is known of a stage. */
#pragma once

#include "rungs.cuh"

#include "../../harness/parts.h"

typedef struct as_mark_cuda {
    const as_decoder *d;
    as_decoder_stage stage;
    int layer;
} as_mark_cuda;

typedef struct as_recorder {
    as_mark_cuda *mark;
    cudaEvent_t *event; /* one before each mark, one at the end; NULL: marks only */
    int n, room;
    cudaStream_t stream;
    unsigned flags; /* of the events */
    as_decoder *d;
} as_recorder;

/* Listens to the pass `d` until it is freed. */
as_status as_recorder_init(as_recorder *r, as_decoder *d, bool events, unsigned flags, cudaStream_t stream,
                           as_error *e);
void as_recorder_free(as_recorder *r);
/* Each mark's time to the next event; adds the whole to *total_ns. The last event has been recorded. */
as_status as_recorder_add_events(const as_recorder *r, as_parts *parts, double *total_ns, as_error *e);

void as_mark_add(as_parts *parts, const as_mark_cuda *m, const char *source, double ns);
/* The time in which no kernel ran, before the mark's. */
void as_mark_add_gap(as_parts *parts, const as_mark_cuda *m, const char *source, double ns);
/* Something of no stage: "sample"; `m` tells the phase. */
void as_mark_add_other(as_parts *parts, const as_mark_cuda *m, const char *path, const char *where, const char *source,
                       double ns);
/* Whether the stage's kernels are the library's. */
bool as_mark_is_library(const as_mark_cuda *m);
