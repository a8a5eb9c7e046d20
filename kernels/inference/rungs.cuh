/* State of a variant: one or two passes, their graphs, and what a generation needs between them. */
#pragma once

#include "choose.cuh"
#include "decoder.cuh"

typedef struct as_rung_state {
    as_rung rung;
    as_step step;
    as_step_io io;                /* of the call that it was prepared with: copies have states of their own */
    as_decoder *prefill, *decode; /* NULL where the phase has none */
    cudaGraphExec_t prefill_graph, decode_graph;
    double *extra;
    /* Device memory of phases with a cache of their own: one allocation. */
    char *memory;
    char *cache;
    float *logits;  /* generate: [batch][vocab] */
    uint32_t *next; /* generate, and naive: [batch][prompt] tokens of the pass under way */
    as_generation_clock *clock;
    /* Rung eager_naive: pageable host memory. */
    uint32_t *host_token, *host_chosen;
    float *host_logits;
} as_rung_state;

as_status as_rung_prepare(const as_call *call, as_rung rung, as_rung_state **out, as_error *e);
void as_rung_finish(as_rung_state *s); /* NULL allowed */
/* One operation: issued to the stream, or (naive) run to its end. */
as_status as_rung_run(as_rung_state *s, cudaStream_t stream, as_error *e);
/* After a pass of a generation: the next token, the next position. */
as_status as_rung_choose(as_rung_state *s, const as_decoder *d, cudaStream_t stream, as_error *e);
/* Ends a capture, also after a failure `so_far` (which it returns): a stream in capture cannot be used. */
as_status as_rung_end_capture(cudaStream_t stream, as_status so_far, cudaGraphExec_t *out, as_error *e);
/* What eager_naive does around a pass: tokens from pageable memory; logits to it, waiting for them; the next token of
 * each row, as its choice number `at`. */
as_status as_rung_naive_tokens_in(as_rung_state *s, const as_decoder *d, const uint32_t *token, cudaStream_t stream,
                                  as_error *e);
as_status as_rung_naive_logits_out(as_rung_state *s, const as_decoder *d, cudaStream_t stream, as_error *e);
void as_rung_naive_choose(as_rung_state *s, int64_t at);
as_status as_rung_breakdown(const as_call *call, as_parts *parts, as_error *e); /* rungs_parts.cu */
