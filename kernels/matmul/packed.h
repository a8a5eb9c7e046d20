/* What packed.c needs of a register tile: the tile itself and how its operands are packed. Everything is packed in words
 * of 4 bytes along k: an f32, or two bf16. */
#pragma once

#include "../../harness/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { AS_PACKED_MAX_ROWS = 32, AS_PACKED_MAX_COLUMNS = 32 };

/* c[rows][columns] = or += sum over depth words of a and b. */
typedef void (*as_packed_tile_fn)(int64_t depth, const void *a, const void *b, float *c, int64_t stride, bool add);

/* One panel of `size` rows of A or one strip of `size` columns of B, `depth` words deep: from `n` of them (at most size)
 * and `elements` along k; what is missing is zero. stride: elements from one row of the source to the next. */
typedef void (*as_packed_pack_fn)(void *out, const void *from, int64_t stride, int64_t elements, int64_t depth,
                                  int64_t n, int size);

typedef struct as_packed_kernel {
    as_packed_tile_fn tile;
    as_packed_pack_fn pack_a, pack_b;
    int rows, columns;                 /* of the register tile */
    int element_bytes;                 /* of A and B as they come */
    int per_word;                      /* elements along k in a word */
    int depth_unit;                    /* words that the depth of a block is a multiple of */
    bool b_transposed;                 /* B comes as n rows of k; C is then bf16, and summed in f32 first */
    int l1_halves;                     /* so many halves of L1 may a panel take */
    int64_t most_depth;                /* words of a block */
    void (*begin)(void), (*end)(void); /* around a member's tiles; NULL: nothing to do */
} as_packed_kernel;

/* The kernel for bf16 of axis `config`: amx, dot (AVX512-BF16), widen, auto: the first of them that is here. AS_EABSENT
 * where this machine lacks it. `f32` is the tile that `widen` uses. */
as_status as_packed_bf16(const char *config, const as_packed_kernel *f32, as_packed_kernel *out,
                         as_error *e) AS_MUST_CHECK;
/* To nearest, ties to even. */
void as_packed_round_bf16(uint16_t *out, const float *from, int64_t n);
