/* Configurations of matmul/warptiled. A row is
 *
 *   X(name, tile m, n, k, of one thread m, n, lanes m, stages, blocks an SM, unroll, order, rate)
 *
 * A block computes tile_m x tile_n elements of C from slabs of depth tile_k, `stages` of them in shared memory. A warp
 * is lanes_m x (32 / lanes_m) threads, each with thread_m x thread_n elements in quads. `blocks` bounds the registers
 * of a thread so that as many blocks fit an SM. `unroll`: pairs of steps of k in a pass of the inner loop. `order`:
 * PAIRED fixes the register banks, PLAIN leaves them to the compiler; warptiled.cuh says how. `rate` ranks the rows:
 * the rate measured at n = 8192 on an H200 (1980 MHz, CUDA 13.0) over the multiply-add ceiling of the same machine,
 * 63.4 TFLOP/s, in percent. Shapes that lost there are gone: 128x256x32 (79), six stages (80), 256x128 (75), 128x64
 * (75). The `plain` twin stays as the evidence for what PAIRED buys: 72 against 79.
 */
#pragma once

#include "config.h"

enum { AS_WARPTILED_PLAIN, AS_WARPTILED_PAIRED };

#define AS_MATMUL_WARPTILED(X)                                                                                         \
    X("64x128x16t8x8s4", 64, 128, 16, 8, 8, 4, 4, 4, 7, AS_WARPTILED_PAIRED, 83)                                       \
    X("128x256x8t16x8s4", 128, 256, 8, 16, 8, 4, 4, 1, 1, AS_WARPTILED_PAIRED, 81)                                     \
    X("64x256x8t8x8s4", 64, 256, 8, 8, 8, 8, 4, 2, 7, AS_WARPTILED_PAIRED, 81)                                         \
    X("128x128x16t8x8s3", 128, 128, 16, 8, 8, 8, 3, 2, 7, AS_WARPTILED_PAIRED, 80)                                     \
    X("128x256x16t16x8s3", 128, 256, 16, 16, 8, 4, 3, 1, 1, AS_WARPTILED_PAIRED, 79)                                   \
    X("128x256x16t16x8s3plain", 128, 256, 16, 16, 8, 4, 3, 1, 1, AS_WARPTILED_PLAIN, 72)                               \
    X("64x64x16t8x8s4", 64, 64, 16, 8, 8, 8, 4, 8, 7, AS_WARPTILED_PAIRED, 72)                                         \
    X("64x64x16t8x4s4", 64, 64, 16, 8, 4, 4, 4, 4, 7, AS_WARPTILED_PAIRED, 68)                                         \
    X("32x32x16t4x4s4", 32, 32, 16, 4, 4, 8, 4, 8, 7, AS_WARPTILED_PAIRED, 45)

/* Names for the help of axis `config`: "auto, 128x256x16t16x8s3, ...". */
#define AS_WARPTILED_LISTED(name, ...) ", " name
#define AS_WARPTILED_NAMES "auto" AS_MATMUL_WARPTILED(AS_WARPTILED_LISTED)

/* As as_config_row. */
static inline int as_warptiled_row(const char *name) {
#define AS_WARPTILED_NAME(name, ...) name,
    static const char *const names[] = {AS_MATMUL_WARPTILED(AS_WARPTILED_NAME)};
#undef AS_WARPTILED_NAME
    return as_config_row(names, (int)(sizeof names / sizeof *names), name);
}
