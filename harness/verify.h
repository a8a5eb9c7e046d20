/* Verification of a prepared case: against an independent float64 reference, a source buffer or a count. */
#pragma once

#include "bench.h"

struct json_t;

typedef struct as_verdict {
    bool passed;
    const char *kind;  /* "reference", "copy", "effect", "exit" */
    int64_t checked;   /* elements, bytes or executions looked at */
    double max_error;  /* largest error over its tolerance; NAN where exact equality is asked */
    uint64_t checksum; /* of the output; deterministic variants only */
    char detail[200];  /* the first thing that is wrong */
} as_verdict;

/* The reference that was computed last: variants of one operation follow one another and share it. */
typedef struct as_reference_cache {
    char key[AS_ID_MAX];
    int64_t *rows;
    int64_t n_rows;
    double *expected, *scale;
} as_reference_cache;
void as_reference_cache_free(as_reference_cache *c);

/* Poisons the outputs, runs one operation on every copy, checks the first copy and every other: by the checksum
 * of the whole output where the variant is deterministic, else like the first. A wrong output is AS_OK with verdict.passed false; a failing call is an error. */
as_status as_verify(as_bench *b, as_workshop *w, as_reference_cache *cache, as_verdict *out, as_error *e) AS_MUST_CHECK;
/* After timing: checks what is in the outputs now against the cached or recomputed truth, without running. */
as_status as_verify_output(as_bench *b, as_workshop *w, as_reference_cache *cache, as_verdict *out,
                           as_error *e) AS_MUST_CHECK;
struct json_t *as_verdict_json(const as_verdict *v, const as_bench *b); /* verification{} of a result; new object */

/* ---- verify_reference.c ---- */

/* |out - expected| <= tolerance * scale for every listed row of the output operand of one copy; NaN fails. */
as_status as_verify_reference(as_bench *b, as_workshop *w, int copy, as_reference_cache *cache, as_verdict *out,
                              as_error *e) AS_MUST_CHECK;
