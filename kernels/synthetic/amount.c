/* How much one operation does, and what its output must then be. */
#include "synthetic.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SHARE = 10 };

as_status as_synthetic_share(const char *list, int64_t k, double *out, as_error *e) {
    const char *at = list;
    for (int64_t i = 1;; i++) {
        const size_t length = strcspn(at, ","), digits = strspn(at, "0123456789.");
        char *end;
        const double share = strtod(at, &end); /* of digits and a point alone: no sign, exponent, inf or nan */
        if (length == 0 || digits != length || end != at + length || share > MOST_SHARE)
            return as_fail(e, AS_EUSAGE, "ASSAY_INJECT is '%.40s': give a share from 0 to %d, or several: 0.05,0.20",
                           list, MOST_SHARE);
        if (i == k)
            *out = share;
        at += length;
        if (*at == '\0')
            return i >= k ? AS_OK
                          : as_fail(e, AS_EUSAGE, "ASSAY_INJECT is '%.40s': there is no entry %lld for inject:%lld",
                                    list, (long long)k, (long long)k);
        at++;
    }
}

static as_status share_of(const as_params *p, double *out, as_error *e) {
    const int64_t k = as_params_int(p, "inject");
    const char *list = getenv("ASSAY_INJECT");
    *out = 0;
    return k > 0 && list ? as_synthetic_share(list, k, out, e) : AS_OK;
}

static int64_t with_share(int64_t nominal, double share) { return nominal + llround(share * (double)nominal); }

as_status as_synthetic_steps(const as_params *p, int64_t steps_of_us, int64_t *nominal, int64_t *steps, as_error *e) {
    const int64_t us = as_params_int(p, "us");
    double share;
    if (us < AS_SYNTHETIC_LEAST_US || us > AS_SYNTHETIC_MOST_US)
        return as_fail(e, AS_EUSAGE, "synthetic: us is %d to %d", AS_SYNTHETIC_LEAST_US, AS_SYNTHETIC_MOST_US);
    AS_TRY(share_of(p, &share, e));
    *nominal = us * steps_of_us;
    *steps = with_share(*nominal, share);
    return AS_OK;
}

as_status as_synthetic_pieces_of(const as_params *p, as_synthetic_pieces *out, as_error *e) {
    enum { PIECE = AS_SYNTHETIC_PIECE_BYTES, MOST_PASSES = 1 << 20 };
    const int64_t bytes = as_params_int(p, "bytes"), passes = as_params_int(p, "passes");
    double share;
    if (bytes < PIECE || bytes % PIECE != 0 || passes < 1 || passes > MOST_PASSES)
        return as_fail(e, AS_EUSAGE, "synthetic/stream: bytes is a multiple of %d, passes 1 to %d", PIECE, MOST_PASSES);
    out->whole = bytes / PIECE;
    out->nominal = out->whole * passes;
    if (out->nominal < AS_SYNTHETIC_LEAST_READS)
        return as_fail(e, AS_EUSAGE, "synthetic/stream: bytes times passes is at least %d",
                       AS_SYNTHETIC_LEAST_READS * PIECE);
    AS_TRY(share_of(p, &share, e));
    out->reads = with_share(out->nominal, share);
    out->from = (out->whole - out->reads % out->whole) / 2;
    return AS_OK;
}

/* ---- reference ---- */

/* n steps at once are x -> a x + c. By squaring: nothing of the loops under test. */
static void jump(uint32_t n, uint32_t *a, uint32_t *c) {
    uint32_t step_a = AS_SYNTHETIC_A, step_c = AS_SYNTHETIC_C;
    *a = 1, *c = 0;
    for (; n; n >>= 1) {
        if (n & 1) {
            *a *= step_a;
            *c = *c * step_a + step_c;
        }
        step_c *= step_a + 1;
        step_a *= step_a;
    }
}

static void chain_ends(const as_reference *r) {
    uint32_t a, c;
    jump(r->work->operand[1].key, &a, &c); /* the steps mod 2^32, which is the period */
    for (int64_t i = 0; i < r->n_rows; i++)
        r->expected[i] = (double)(uint32_t)(a * (*(const uint32_t *)r->input[0] + (uint32_t)r->rows[i]) + c);
}

static as_status piece_sums(const as_reference *r, as_error *e) {
    enum { WORDS = AS_SYNTHETIC_PIECE_BYTES / 4 };
    as_synthetic_pieces pieces;
    AS_TRY(as_synthetic_pieces_of(r->params, &pieces, e));
    for (int64_t i = 0; i < r->n_rows; i++) {
        const uint32_t *word = (const uint32_t *)r->input[0] + as_synthetic_piece(pieces, r->rows[i]) * WORDS;
        uint32_t sum = 0;
        for (int k = 0; k < WORDS; k++)
            sum += word[k];
        r->expected[i] = (double)sum;
    }
    return AS_OK;
}

as_status as_synthetic_reference(const as_reference *r, as_error *e) {
    const as_work *w = r->work;
    for (int64_t i = 0; i < r->n_rows; i++) {
        if (w->columns != 1 || r->rows[i] < 0 || r->rows[i] >= w->rows)
            return as_fail(e, AS_EFAIL, "a synthetic case has no row %lld", (long long)r->rows[i]);
        r->scale[i] = 1;
    }
    if (w->operand[0].count > 1)
        return piece_sums(r, e);
    chain_ends(r);
    return AS_OK;
}
