/* The reference of matmul: plain loops in float64, independent of every kernel under test. */
#include "matmul.h"

#include <math.h>
#include <stdlib.h>

/* Widens `count` elements to float64, exactly. */
static void widen(double *out, const void *in, as_dtype type, int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = first + i;
        switch (type) {
        case AS_BF16: out[i] = (double)as_bf16_to_f32(((const uint16_t *)in)[at]); break;
        case AS_F16: out[i] = (double)as_f16_to_f32(((const uint16_t *)in)[at]); break;
        case AS_F8E4M3: out[i] = (double)as_f8e4m3_to_f32(((const uint8_t *)in)[at]); break;
        case AS_I8: out[i] = ((const int8_t *)in)[at]; break;
        default: out[i] = (double)((const float *)in)[at];
        }
    }
}

/* One row of C from one row of A: built up from whole rows of B, so that a large B is read along its rows, or by dot
 * products where B is stored transposed. `row` holds k or n doubles of B. */
static void one_row(as_matmul_shape s, const as_matmul_type *t, const double *a, const void *b, double *row,
                    double *expected, double *scale) {
    for (int64_t j = 0; j < s.n; j++)
        expected[j] = scale[j] = 0;
    if (t->b_transposed) {
        for (int64_t j = 0; j < s.n; j++) {
            double sum[4] = {0}, magnitude[4] = {0}; /* four chains of additions: one would wait for itself */
            widen(row, b, t->in, j * s.k, s.k);
            for (int64_t k = 0; k < s.k; k++) {
                sum[k & 3] += a[k] * row[k];
                magnitude[k & 3] += fabs(a[k] * row[k]);
            }
            expected[j] = sum[0] + sum[1] + sum[2] + sum[3];
            scale[j] = magnitude[0] + magnitude[1] + magnitude[2] + magnitude[3];
        }
        return;
    }
    for (int64_t k = 0; k < s.k; k++) {
        widen(row, b, t->in, k * s.n, s.n);
        for (int64_t j = 0; j < s.n; j++) {
            expected[j] += a[k] * row[j];
            scale[j] += fabs(a[k] * row[j]);
        }
    }
}

/* Products of two floats of 24 bits are exact in float64; the sum of k of them errs by at most k 2^-53 of the scale,
 * far below the tolerance. */
as_status as_matmul_reference(const as_reference *r, as_error *e) {
    const as_matmul_shape s = as_matmul_shape_of(r->params);
    const as_matmul_type *t = as_matmul_type_of(r->params);
    const double rounding = t->out_rounding / as_matmul_tolerance(t, s.k);
    double *a = malloc(sizeof *a * (size_t)s.k), *row = malloc(sizeof *row * (size_t)(s.n > s.k ? s.n : s.k));
    as_status status = a && row ? AS_OK : as_fail(e, AS_ENOMEM, "no host memory for the reference of matmul");
    for (int64_t x = 0; status == AS_OK && x < r->n_rows; x++) {
        if (r->rows[x] < 0 || r->rows[x] >= s.m) {
            status =
                as_fail(e, AS_EFAIL, "reference of matmul: row %lld of %lld", (long long)r->rows[x], (long long)s.m);
            break;
        }
        double *expected = r->expected + x * s.n, *scale = r->scale + x * s.n;
        widen(a, r->input[0], t->in, r->rows[x] * s.k, s.k);
        one_row(s, t, a, r->input[1], row, expected, scale);
        for (int64_t j = 0; j < s.n; j++)
            scale[j] = as_matmul_scale(scale[j], fabs(expected[j]), rounding, t->element == AS_MM_S8);
    }
    free(a);
    free(row);
    return status;
}
