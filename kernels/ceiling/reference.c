/* What a ceiling's output must be, by plain loop or formula. */
#include "ceiling.h"

/* read: one u32, the wrapping sum of the words times the passes (bytes_read over the operand's size); a multiply-add
 * ceiling: half its floating-point operations. Both are exact: any difference fails. */
as_status as_ceiling_reference(const as_reference *r, as_error *e) {
    const as_work *w = r->work;
    if (r->n_rows != 1 || r->rows[0] != 0 || w->columns != 1)
        return as_fail(e, AS_EFAIL, "a ceiling has one value to verify, not %lld rows", (long long)r->n_rows);
    r->scale[0] = 1;
    if (w->operands == 1) {
        r->expected[0] = w->flops / 2;
        return AS_OK;
    }
    const uint32_t *words = r->input[0];
    uint32_t sum = 0;
    for (int64_t i = 0; i < w->operand[0].count; i++)
        sum += words[i];
    uint64_t passes = (uint64_t)(w->bytes_read / (4.0 * (double)w->operand[0].count));
    r->expected[0] = (double)(uint32_t)(sum * passes);
    return AS_OK;
}
