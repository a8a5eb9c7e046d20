/* Loops that move bytes at the best rate of an instruction set: sums, copies, stores, triads. Shared by memcpy,
 * memory and the ceilings.
 * Any start, any length: ragged ends are moved by memcpy. */
#pragma once

#include "isa.h"

#include <stddef.h>
#include <stdint.h>

/* Copies `bytes`; the ranges do not overlap. */
typedef void (*as_stream_copy_fn)(void *to, const void *from, size_t bytes);
/* Sum of the 32-bit words of `bytes` (a multiple of 4), wrapping, `passes` times over. Every pass loads again. */
typedef uint32_t (*as_stream_sum_fn)(const void *from, size_t bytes, int64_t passes);

as_stream_copy_fn as_stream_copy_nt(as_isa isa); /* non-temporal stores, complete (fenced) on return */
as_stream_copy_fn as_stream_copy_temporal(as_isa isa);
as_stream_sum_fn as_stream_sum(as_isa isa);
as_stream_sum_fn as_stream_sum_quarters(as_isa isa); /* reads in four places at a time */

/* Stores `value` in `count` words. */
typedef void (*as_stream_fill_fn)(uint32_t *to, uint32_t value, size_t count);
/* a[i] = b[i] + 3 c[i]; with a joined multiply-add where the instruction set has one. */
typedef void (*as_stream_triad_fn)(float *a, const float *b, const float *c, size_t count);

as_stream_fill_fn as_stream_fill(as_isa isa);
as_stream_fill_fn as_stream_fill_nt(as_isa isa); /* as the copy: complete on return */
as_stream_triad_fn as_stream_triad(as_isa isa);
as_stream_triad_fn as_stream_triad_nt(as_isa isa);
