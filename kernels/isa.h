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
/* AMX: tiles with products of bf16 and of int8, beside AVX-512. The first call asks the kernel to let this process use
 * them (arch_prctl): its registers are 8 KiB, which threads must have room for. */
bool as_isa_tiles(void);
/* Shapes all eight tiles of the calling thread to 16 rows of 64 bytes, and gives them back. Only where as_isa_tiles says
 * so. */
void as_isa_tiles_begin(void);
void as_isa_tiles_end(void);
/* Lowers (or lifts again) the limit, so that tests reach the paths of lesser machines. Not for threads. */
void as_isa_limit(as_isa limit);
/* The same for AVX512-BF16 alone, and for AMX. */
void as_isa_allow_bf16(bool allow);
void as_isa_allow_tiles(bool allow);

#if defined(__x86_64__)
#define AS_TARGET_AVX2 __attribute__((target("avx2,fma")))
#define AS_TARGET_AVX512 __attribute__((target("avx512f,avx2,fma,prefer-vector-width=512")))
#define AS_TARGET_AVX512_BF16                                                                                          \
    __attribute__((target("avx512f,avx512bf16,avx512vl,avx512bw,avx2,fma,prefer-vector-width=512")))
#define AS_TARGET_TILES                                                                                                \
    __attribute__((target("amx-tile,amx-bf16,amx-int8,avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")))
#else
#define AS_TARGET_AVX2
#define AS_TARGET_AVX512
#endif
