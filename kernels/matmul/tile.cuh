/* Which tile of C a block computes, and grids of tiles. Shared by the kernels of this folder. */
#pragma once

#include "../../harness/status.h"

#include <limits.h>
#include <stdint.h>

/* First row and column of a tile of C. */
struct as_tile {
    int64_t row, column;
};

/* Of this block in a 1-D grid of ceil(m / tile_m) x ceil(n / tile_n) tiles, columns fastest. */
static __device__ __forceinline__ as_tile as_tile_of_block(int64_t n, int tile_m, int tile_n) {
    const int64_t across = (n + tile_n - 1) / tile_n;
    as_tile t;
    t.row = (int64_t)blockIdx.x / across * tile_m;
    t.column = (int64_t)blockIdx.x % across * tile_n;
    return t;
}

/* The same grid walked down columns of `height` tiles, group after group, so that the blocks that run at one time
 * cover a compact piece of C and share the rows of A and columns of B in the L2 cache. The last group may be lower. */
static __device__ __forceinline__ as_tile as_tile_in_group(int64_t m, int64_t n, int tile_m, int tile_n, int height) {
    const int64_t down = (m + tile_m - 1) / tile_m, across = (n + tile_n - 1) / tile_n;
    const int64_t first = (int64_t)blockIdx.x / (height * across) * height;
    const int64_t rows = down - first < height ? down - first : height;
    const int64_t in_group = (int64_t)blockIdx.x - first * across;
    as_tile t;
    t.row = (first + in_group % rows) * tile_m;
    t.column = in_group / rows * tile_n;
    return t;
}

/* Blocks of either grid. */
static inline as_status as_tile_grid(int64_t m, int64_t n, int tile_m, int tile_n, unsigned *blocks, as_error *e) {
    const int64_t down = (m + tile_m - 1) / tile_m, across = (n + tile_n - 1) / tile_n;
    if (down > INT_MAX / across)
        return as_fail(e, AS_EUSAGE, "matmul of %lld x %lld needs over 2^31 blocks; use smaller m or n", (long long)m,
                       (long long)n);
    *blocks = (unsigned)(down * across);
    return AS_OK;
}
