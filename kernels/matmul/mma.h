/* Configurations of matmul/mma. A row is
 *
 *   X(name, tile m, n, warps m, n, stages, blocks an SM, rate)
 *
 * A block computes tile_m x tile_n elements of C from slabs of 128 bytes along k, `stages` of them in shared memory;
 * warps_m x warps_n warps share the tile out. `rate` ranks the rows where `auto` chooses: an estimate, in percent of the
 * best. */
#pragma once

#include "config.h"

#define AS_MATMUL_MMA(X)                                                                                               \
    X("128x256w8s4", 128, 256, 2, 4, 4, 1, 100)                                                                        \
    X("128x128w4s3", 128, 128, 2, 2, 3, 2, 96)                                                                         \
    X("128x128w8s3", 128, 128, 2, 4, 3, 1, 90)                                                                         \
    X("64x64w4s3", 64, 64, 2, 2, 3, 4, 60)

/* Names for the help of axis `config`. */
#define AS_MMA_LISTED(name, ...) ", " name
#define AS_MMA_NAMES "auto" AS_MATMUL_MMA(AS_MMA_LISTED)

/* As as_config_row. */
static inline int as_mma_row(const char *name) {
#define AS_MMA_NAME(name, ...) name,
    static const char *const names[] = {AS_MATMUL_MMA(AS_MMA_NAME)};
#undef AS_MMA_NAME
    return as_config_row(names, (int)(sizeof names / sizeof *names), name);
}
