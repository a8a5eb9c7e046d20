/* Instruction sets of x86-64, chosen at run time: one binary serves every machine. A kernel is one macro, made into
 * a function for each level by a target attribute. */
#pragma once

#include <stdbool.h>

/* AS_ISA_AVX2 stands for AVX2 with FMA, AS_ISA_AVX512 for AVX-512 F. */
typedef enum as_isa { AS_ISA_BASE, AS_ISA_AVX2, AS_ISA_AVX512 } as_isa;

/* The best level that this machine has, up to the limit. */
as_isa as_isa_best(void);
/* AVX512-BF16 beside the best level, where that is AVX-512. */
bool as_isa_bf16(void);
/* Lowers (or lifts again) the limit, so that tests reach the paths of lesser machines. Not for threads. */
void as_isa_limit(as_isa limit);
/* The same for AVX512-BF16 alone. */
void as_isa_allow_bf16(bool allow);

#if defined(__x86_64__)
#define AS_TARGET_AVX2 __attribute__((target("avx2,fma")))
#define AS_TARGET_AVX512 __attribute__((target("avx512f,avx2,fma,prefer-vector-width=512")))
#else
#define AS_TARGET_AVX2
#define AS_TARGET_AVX512
#endif
