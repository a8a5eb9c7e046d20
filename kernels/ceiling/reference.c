/* What a ceiling's output must be, by plain loop or formula. Exact but for triad: any difference fails. */
#include "ceiling.h"

#include <math.h>

/* One u32: the wrapping sum of the words times the passes (bytes_read over the operand's size). */
static uint32_t sum_of_words(const as_reference *r) {
    const as_work *w = r->work;
    const uint32_t *words = r->input[0];
    uint32_t sum = 0;
    for (int64_t i = 0; i < w->operand[0].count; i++)
        sum += words[i];
    return sum * (uint32_t)(uint64_t)(w->bytes_read / (4.0 * (double)w->operand[0].count));
}

static void elements_of_triad(const as_reference *r) {
    const float *b = r->input[0], *c = r->input[1];
    for (int64_t k = 0; k < r->n_rows; k++)
        for (int64_t j = 0; j < r->work->columns; j++) {
            const int64_t at = r->rows[k] * r->work->columns + j, out = k * r->work->columns + j;
            r->expected[out] = b[at] + 3.0 * c[at];
            r->scale[out] = fabs(b[at]) + 3.0 * fabs(c[at]);
        }
}

as_status as_ceiling_reference(const as_reference *r, as_error *e) {
    const as_work *w = r->work;
    const int64_t values = r->n_rows * w->columns;
    for (int64_t i = 0; i < values; i++)
        r->scale[i] = 1;
    if (w->operands == 1) { /* of every counter the same: additions, or multiply-adds of two operations */
        for (int64_t i = 0; i < values; i++)
            r->expected[i] = w->items > 0 ? w->items / (double)w->columns : w->flops / 2;
        return AS_OK;
    }
    switch (w->operand[0].key) {
    case AS_CEILING_WORDS: r->expected[0] = sum_of_words(r); return AS_OK;
    case AS_CEILING_WORD:
        for (int64_t i = 0; i < values; i++)
            r->expected[i] = ((const uint32_t *)r->input[0])[0];
        return AS_OK;
    case AS_CEILING_TRIAD: elements_of_triad(r); return AS_OK;
    default: return as_fail(e, AS_EFAIL, "no reference for input key %u", w->operand[0].key);
    }
}
