/* What the operations of memory.h must put out, by plain loops: all values are whole numbers below 2^32 (sums wrap),
 * so that any difference fails; triad is compared with float64. */
#include "memory.h"

#include <math.h>
#include <stdlib.h>

void as_memory_cycle(const uint32_t *keys, int64_t lines, uint32_t *next) {
    for (int64_t i = 0; i < lines; i++)
        next[i] = (uint32_t)i;
    for (int64_t i = lines - 1; i > 0; i--) {
        const int64_t j = keys[i] % (uint32_t)i; /* below i: this makes it one cycle */
        const uint32_t kept = next[i];
        next[i] = next[j];
        next[j] = kept;
    }
}

void as_memory_starts(const uint32_t *next, as_memory_walk w, uint32_t *start) {
    uint32_t line = 0;
    for (int64_t walker = 0; walker < w.walkers; walker++) {
        start[walker] = line;
        for (int64_t i = 0; i < w.share; i++)
            line = next[line];
    }
}

/* Walkers follow one another along the cycle, so that one walk through it meets all their starts. */
static as_status walk(const as_reference *r, as_error *e) {
    const as_memory_walk w = as_memory_walk_by(r->work->operand[0].count, r->work->operand[0].key >> 8);
    uint32_t *next = malloc((size_t)w.lines * sizeof *next);
    if (!next)
        return as_fail(e, AS_ENOMEM, "no memory to walk %lld lines", (long long)w.lines);
    as_memory_cycle(r->input[0], w.lines, next);
    const uint32_t stride = (uint32_t)as_params_int(r->params, "stride");
    uint32_t total = 0, ends = 0, line = 0;
    for (int64_t walker = 0; walker < w.walkers; walker++) {
        uint32_t hash = 0;
        for (int64_t i = 0; i < w.steps; i++) {
            hash = 3 * hash + line * stride;
            line = next[line];
        }
        total += hash;
        ends += line;
    }
    free(next);
    r->expected[0] = total;
    r->expected[1] = ends;
    return AS_OK;
}

static uint32_t sum_words(const as_reference *r) {
    const uint32_t *words = r->input[0];
    uint32_t sum = 0;
    for (int64_t i = 0; i < r->work->operand[0].count; i++)
        sum += words[i];
    return sum;
}

static uint32_t shared_sum(const as_reference *r) {
    const uint32_t *words = r->input[0];
    const int64_t stride = as_params_int(r->params, "stride"), width = as_params_int(r->params, "width") / 4;
    uint32_t sum = 0;
    for (int64_t lane = 0; lane < 32; lane++)
        for (int64_t step = 0; step < AS_MEMORY_SHARED_STEPS; step++)
            for (int64_t word = 0; word < width; word++)
                sum += words[as_memory_shared_word(lane, step, stride, width) + word];
    return sum * AS_MEMORY_SHARED_WARPS;
}

static uint32_t constant_sum(const as_reference *r) {
    const uint32_t *words = r->input[0];
    const int64_t distinct = as_params_int(r->params, "distinct");
    uint32_t sum = 0;
    for (int64_t lane = 0; lane < 32; lane++)
        for (int64_t step = 0; step < AS_MEMORY_SHARED_STEPS; step++)
            sum += words[as_memory_constant_word(lane, step, distinct)];
    return sum * AS_MEMORY_SHARED_WARPS;
}

static uint32_t strided_sum(const as_reference *r) {
    const uint32_t *words = r->input[0];
    const int64_t stride = as_params_int(r->params, "stride"), offset = as_params_int(r->params, "offset");
    uint32_t sum = 0;
    for (int64_t i = 0; i < as_params_int(r->params, "bytes") / 4; i++)
        sum += words[i * stride + offset];
    return sum;
}

static uint32_t line_sum(const as_reference *r) {
    const uint32_t *words = r->input[0];
    uint32_t sum = 0;
    for (int64_t i = 0; i < r->work->operand[0].count; i += AS_MEMORY_LINE_BYTES / 4)
        sum += words[i];
    return sum;
}

/* Each thread starts value j at input[j] + thread and, STEPS times, takes v[j] = v[j] * 5 + v[j + 1]. */
static uint32_t spill_sum(const as_reference *r) {
    enum { N = AS_MEMORY_SPILL_VALUES };
    const uint32_t *words = r->input[0];
    uint32_t sum = 0;
    for (uint32_t thread = 0; thread < AS_MEMORY_SPILL_THREADS; thread++) {
        uint32_t v[N];
        for (int j = 0; j < N; j++)
            v[j] = words[j] + thread;
        for (int step = 0; step < AS_MEMORY_SPILL_STEPS; step++)
            for (int j = 0; j < N; j++)
                v[j] = v[j] * 5 + v[(j + 1) % N];
        for (int j = 0; j < N; j++)
            sum += v[j];
    }
    return sum;
}

/* Rows of an output of one value (store) or of float64 sums (triad) for each element. */
static void elements(const as_reference *r, bool triad) {
    const float *b = r->input[0], *c = r->input[1];
    for (int64_t k = 0; k < r->n_rows; k++)
        for (int64_t j = 0; j < r->work->columns; j++) {
            const int64_t at = r->rows[k] * r->work->columns + j, out = k * r->work->columns + j;
            r->expected[out] = triad ? b[at] + 3.0 * c[at] : ((const uint32_t *)r->input[0])[0];
            r->scale[out] = triad ? fabs(b[at]) + 3.0 * fabs(c[at]) : 1;
        }
}

as_status as_memory_reference(const as_reference *r, as_error *e) {
    const as_work *w = r->work;
    for (int64_t i = 0; i < r->n_rows * w->columns; i++)
        r->scale[i] = 1;
    switch (w->operand[0].key & 0xFF) {
    case AS_MEMORY_WALK: return walk(r, e);
    case AS_MEMORY_SUM: r->expected[0] = sum_words(r); return AS_OK;
    case AS_MEMORY_STORE: elements(r, false); return AS_OK;
    case AS_MEMORY_TRIAD: elements(r, true); return AS_OK;
    case AS_MEMORY_CLOCK:
        r->expected[0] = (uint32_t)(((const uint32_t *)r->input[0])[0] * (uint32_t)AS_MEMORY_CLOCK_STEPS);
        return AS_OK;
    case AS_MEMORY_COUNT: r->expected[0] = w->items; return AS_OK;
    case AS_MEMORY_TARGETS:
        for (int64_t j = 0; j < w->columns; j++)
            r->expected[j] = w->items / (double)w->columns;
        return AS_OK;
    case AS_MEMORY_SHARED: r->expected[0] = shared_sum(r); return AS_OK;
    case AS_MEMORY_CONSTANT: r->expected[0] = constant_sum(r); return AS_OK;
    case AS_MEMORY_STRIDED: r->expected[0] = strided_sum(r); return AS_OK;
    case AS_MEMORY_LINES: r->expected[0] = line_sum(r); return AS_OK;
    case AS_MEMORY_SPILL: r->expected[0] = spill_sum(r); return AS_OK;
    default: return as_fail(e, AS_EFAIL, "no reference for input key %u", w->operand[0].key);
    }
}
