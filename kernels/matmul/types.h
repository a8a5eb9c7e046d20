/* Element types of a matrix product, axis `type`: what A and B hold, what C holds, how B lies in memory.
 *
 * A is m x k, row-major, for every type. B is k x n, row-major, for f32; for all others it is stored transposed: n rows
 * of k values ("TN", the layout of a linear layer's weights), since the tensor cores read 8-bit and tf32 operands along
 * k only, and one layout for all of them keeps the rungs comparable.
 *
 *   type   A, B             accumulated in   C
 *   f32    f32              f32              f32
 *   tf32   f32, low 13 bits of the fraction 0: products are exact in f32
 *                           f32              f32
 *   bf16   bf16             f32              bf16
 *   f16    f16              f32              f16
 *   e4m3   f8e4m3, scale 1  f32, but with about 14 bits inside Hopper's tensor cores ("fast accumulation": no partial
 *                           sums moved to registers; cublaslt is asked for the same)
 *                                            bf16
 *   s8     i8               i32              i32; exact while k <= 2^17 */
#pragma once

#include "../../harness/params.h"
#include "../../harness/rng.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum as_matmul_element { AS_MM_F32, AS_MM_TF32, AS_MM_BF16, AS_MM_F16, AS_MM_E4M3, AS_MM_S8 } as_matmul_element;

typedef struct as_matmul_type {
    const char *name;
    as_matmul_element element;
    as_dtype in, out;
    bool b_transposed;
    double out_rounding; /* half a unit in the last place of C's type, relative; 0 where C is as wide as the sum */
    const char *ceiling; /* name of the bound: the rate of the unit that does the work */
} as_matmul_type;

#define AS_MATMUL_TYPE_NAMES "f32, tf32, bf16, f16, e4m3, s8"

/* The row of axis `type`; NULL where there is none of that name. */
const as_matmul_type *as_matmul_type_named(const char *name);
static inline const as_matmul_type *as_matmul_type_of(const as_params *p) {
    return as_matmul_type_named(as_params_text(p, "type"));
}

/* |c - reference| <= tolerance x scale; docs/method.md 11 derives it. */
double as_matmul_tolerance(const as_matmul_type *t, int64_t k);

/* The scale of one element of C from s = sum |a||b| and the exact sum: s, and for a narrow C what its rounding adds; 1
 * for s8, where nothing rounds. */
static inline AS_HD double as_matmul_scale(double s, double magnitude_of_c, double rounding_over_tolerance,
                                           bool exact) {
    return exact ? 1.0 : s + magnitude_of_c * rounding_over_tolerance;
}

#ifdef __cplusplus
}
#endif
