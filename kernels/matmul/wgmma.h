/* Configurations of matmul/wgmma. A row is
 *
 *   X(name, tile m, n, stages, cluster m, n, store, height, rate)
 *
 * A block computes tile_m x tile_n elements of C from slabs of 128 bytes along k, `stages` of them in shared memory.
 * cluster_m x cluster_n blocks share what they load: the blocks of a column of the cluster one tile of B, those of a row
 * one tile of A. `store`: BOXES through shared memory and the copy engine; DEFERRED the same, but a narrow C while the
 * next tile is multiplied; DIRECT from registers. `height`: rows of clusters in a group of the walk over C; 0: about a
 * square. `rate` ranks the rows where `auto` chooses, in percent of the best: estimates, which two rounds of each row at
 * n = 4096 on an H200 did not contradict (wgmma.cuh). */
#pragma once

#include "config.h"

enum { AS_WGMMA_BOXES, AS_WGMMA_DEFERRED, AS_WGMMA_DIRECT };

#define AS_MATMUL_WGMMA(X)                                                                                             \
    X("128x256s4c2x1d", 128, 256, 4, 2, 1, AS_WGMMA_DEFERRED, 0, 100)                                                  \
    X("128x256s4c2x1", 128, 256, 4, 2, 1, AS_WGMMA_BOXES, 0, 96)                                                       \
    X("128x256s4c2x1r", 128, 256, 4, 2, 1, AS_WGMMA_DIRECT, 0, 90)                                                     \
    X("128x256s4c2x1h4", 128, 256, 4, 2, 1, AS_WGMMA_DEFERRED, 4, 95)                                                  \
    X("128x256s4c2x1h16", 128, 256, 4, 2, 1, AS_WGMMA_DEFERRED, 16, 95)                                                \
    X("128x256s4c1x2d", 128, 256, 4, 1, 2, AS_WGMMA_DEFERRED, 0, 95)                                                   \
    X("128x256s4c1x1d", 128, 256, 4, 1, 1, AS_WGMMA_DEFERRED, 0, 95)                                                   \
    X("256x128s4c2x1d", 256, 128, 4, 2, 1, AS_WGMMA_DEFERRED, 0, 95)                                                   \
    X("256x128s4c1x2d", 256, 128, 4, 1, 2, AS_WGMMA_DEFERRED, 0, 95)                                                   \
    X("128x128s6c2x1d", 128, 128, 6, 2, 1, AS_WGMMA_DEFERRED, 0, 85)                                                   \
    X("128x128s6c1x1d", 128, 128, 6, 1, 1, AS_WGMMA_DEFERRED, 0, 80)

/* Names for the help of axis `config`. */
#define AS_WGMMA_LISTED(name, ...) ", " name
#define AS_WGMMA_NAMES "auto" AS_MATMUL_WGMMA(AS_WGMMA_LISTED)

/* As as_config_row. */
static inline int as_wgmma_row(const char *name) {
#define AS_WGMMA_NAME(name, ...) name,
    static const char *const names[] = {AS_MATMUL_WGMMA(AS_WGMMA_NAME)};
#undef AS_WGMMA_NAME
    return as_config_row(names, (int)(sizeof names / sizeof *names), name);
}
