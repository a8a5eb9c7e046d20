#include "isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

static as_isa upper = AS_ISA_AVX512;
static bool bf16_allowed = true, tiles_allowed = true;

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

void as_isa_allow_tiles(bool allow) { tiles_allowed = allow; }

#if defined(__x86_64__)
/* The processor has AMX-TILE, AMX-BF16 and AMX-INT8 (CPUID 7, EDX bits 24, 22, 25), and the kernel grants its state. */
static bool tiles_granted(void) {
    enum { REQUEST_STATE = 0x1023 /* ARCH_REQ_XCOMP_PERM, Linux 5.16 */, TILE_DATA = 18 };
    const unsigned wanted = 1u << 22 | 1u << 24 | 1u << 25;
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & wanted) == wanted &&
           syscall(SYS_arch_prctl, REQUEST_STATE, TILE_DATA) == 0;
}
#endif

bool as_isa_tiles(void) {
#if defined(__x86_64__)
    static int granted = -1; /* two threads that ask at once both store the same answer */
    int known = __atomic_load_n(&granted, __ATOMIC_RELAXED);
    if (known < 0) {
        known = tiles_granted();
        __atomic_store_n(&granted, known, __ATOMIC_RELAXED);
    }
    return known && tiles_allowed && as_isa_best() == AS_ISA_AVX512;
#else
    return false;
#endif
}

#if defined(__x86_64__)
/* Palette 1 of the tile configuration (Intel SDM, LDTILECFG). */
typedef struct tile_shapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_shapes;

AS_TARGET_TILES void as_isa_tiles_begin(void) {
    _Alignas(64) tile_shapes shapes = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        shapes.row_bytes[i] = 64;
        shapes.rows[i] = 16;
    }
    __asm__ volatile("" ::: "memory"); /* the intrinsic does not tell the compiler that it reads all of it */
    _tile_loadconfig(&shapes);
}

AS_TARGET_TILES void as_isa_tiles_end(void) { _tile_release(); }
#else
void as_isa_tiles_begin(void) {}
void as_isa_tiles_end(void) {}
#endif
