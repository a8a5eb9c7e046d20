/* The table of element types and their tolerance. */
#include "types.h"

#include <math.h>
#include <string.h>

static const as_matmul_type types[] = {
    {"f32", AS_MM_F32, AS_F32, AS_F32, false, 0, "flops.f32"},
    {"tf32", AS_MM_TF32, AS_TF32, AS_F32, true, 0, "flops.tf32"},
    {"bf16", AS_MM_BF16, AS_BF16, AS_BF16, true, 0x1p-8, "flops.bf16"},
    {"f16", AS_MM_F16, AS_F16, AS_F16, true, 0x1p-11, "flops.f16"},
    {"e4m3", AS_MM_E4M3, AS_F8E4M3, AS_BF16, true, 0x1p-8, "flops.e4m3"},
    {"s8", AS_MM_S8, AS_I8, AS_I32, true, 0, "flops.s8"},
};

const as_matmul_type *as_matmul_type_named(const char *name) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    return NULL;
}

/* f32: 4 u sqrt(k), u = 2^-24. Rounding errors of a sum of k terms behave like a random walk (Higham & Mary, SIAM J.
 *   Sci. Comput. 41, 2019). A wrong or missing term is of the order s / k, above this bound while k^(3/2) < 2^22, that
 *   is k < 26,000.
 * tf32, bf16, f16: products are exact; tensor cores cut where f32 arithmetic rounds, so the unit is 2^-23.
 * e4m3: a step of 32 terms aligns its products and the running sum to the largest and cuts below about u = 2^-13 of it
 *   (DeepSeek-V3 Technical Report, 2024, 3.3.2: "around 14 bits"). With terms of variance 1 the sum walks to sqrt(k),
 *   s = 0.64 k. Cutting the products: 32 errors a step, uniform in +-u |sum|, over k / 32 steps: a standard deviation
 *   of 0.41 u k = 0.64 u s, six of them 4 u s. Cutting the sum is always toward zero: k / 32 steps of u |sum| / 2, for
 *   an element that walks to five deviations 0.08 sqrt(k) u s. Together (4 + sqrt(k) / 8) u s. One missing term shows
 *   while k < 1,000; a missing step of 32 terms at every k of the plan.
 * s8: whole numbers, scale 1: any difference fails. */
double as_matmul_tolerance(const as_matmul_type *t, int64_t k) {
    const double root = sqrt((double)k);
    switch (t->element) {
    case AS_MM_F32: return 4 * 0x1p-24 * root;
    case AS_MM_E4M3: return 0x1p-13 * (4 + root / 8);
    case AS_MM_S8: return 0.25;
    default: return 4 * 0x1p-23 * root;
    }
}
