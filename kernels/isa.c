#include "isa.h"

static as_isa upper = AS_ISA_AVX512;
static bool bf16_allowed = true;

void as_isa_limit(as_isa limit) { upper = limit; }

as_isa as_isa_best(void) {
    as_isa best = AS_ISA_BASE;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        best = AS_ISA_AVX2;
    if (best == AS_ISA_AVX2 && __builtin_cpu_supports("avx512f"))
        best = AS_ISA_AVX512;
#endif
    return best < upper ? best : upper;
}

void as_isa_allow_bf16(bool allow) { bf16_allowed = allow; }

bool as_isa_bf16(void) {
#if defined(__x86_64__)
    return bf16_allowed && as_isa_best() == AS_ISA_AVX512 && __builtin_cpu_supports("avx512bf16");
#else
    return false;
#endif
}
