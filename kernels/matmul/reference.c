/* The reference of matmul: plain loops in float64, independent of every kernel under test. */
#include "matmul.h"

#include <math.h>

/* A row of C is built up from whole rows of B, so that a large B is read along its rows. Products of two floats are
 * exact in float64; the sum of k of them errs by at most k 2^-53 of the scale, far below the tolerance. */
as_status as_matmul_reference(const as_reference *r, as_error *e) {
    as_matmul_shape s = as_matmul_shape_of(r->params);
    const float *a = r->input[0], *b = r->input[1];
    for (int64_t x = 0; x < r->n_rows; x++) {
        int64_t row = r->rows[x];
        if (row < 0 || row >= s.m)
            return as_fail(e, AS_EFAIL, "reference of matmul: row %lld of %lld", (long long)row, (long long)s.m);
        double *expected = r->expected + x * s.n, *scale = r->scale + x * s.n;
        for (int64_t j = 0; j < s.n; j++)
            expected[j] = scale[j] = 0;
        for (int64_t k = 0; k < s.k; k++) {
            double left = a[row * s.k + k];
            const float *right = b + k * s.n;
            for (int64_t j = 0; j < s.n; j++) {
                double term = left * (double)right[j];
                expected[j] += term;
                scale[j] += fabs(term);
            }
        }
    }
    return AS_OK;
}
