/* What memory costs before it is used: one operation takes a block of `bytes` and gives it back; with callers or
 * threads above 1 each of them does so at the same time, `AS_ALLOC_PAIRS` times. No operands.
 *
 * The series `alloc` and `free` are the mean host times of the two calls on the first caller.
 * Verification by a counting twin: where call->counter is set, the first and the last byte of every block are written
 * and read back by whoever uses such memory (host code, or a kernel), and each block that held them counts.
 *
 *   touch=yes (cpu, and managed on a GPU) writes a byte in every page: first touch, where the pages are really made. */
#pragma once

#include "../table.h"

#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { AS_ALLOC_PAIRS = 16 };

#define AS_ALLOC_SERIES                                                                                                \
    {"alloc", "ns", false, false}, { "free", "ns", false, false }

#define AS_ALLOC_CPU(X)                                                                                                \
    X(alloc, malloc, 0, "malloc and free of the C library", AS_ALLOC_SERIES)                                           \
    X(alloc, mmap, 0, "anonymous mapping, unmapped again", AS_ALLOC_SERIES)                                            \
    X(alloc, huge, 0, "anonymous mapping, aligned to 2 MiB, huge pages advised", AS_ALLOC_SERIES)                      \
    X(alloc, mlock, 0, "anonymous mapping, locked in memory", AS_ALLOC_SERIES)                                         \
    X(alloc, slab, 0, "a free list of equal blocks, made beforehand", AS_ALLOC_SERIES)

#define AS_ALLOC_CUDA(X)                                                                                               \
    X(alloc, malloc, AS_HOST_CLOCK, "cudaMalloc and cudaFree", AS_ALLOC_SERIES)                                        \
    X(alloc, stream, AS_HOST_CLOCK, "cudaMallocAsync, cudaFreeAsync, synchronise; the pool keeps nothing",             \
      AS_ALLOC_SERIES)                                                                                                 \
    X(alloc, stream_retained, AS_HOST_CLOCK, "the same; the pool keeps all memory (release threshold unlimited)",      \
      AS_ALLOC_SERIES)                                                                                                 \
    X(alloc, pinned, AS_HOST_CLOCK, "cudaMallocHost and cudaFreeHost", AS_ALLOC_SERIES)                                \
    X(alloc, registered, AS_HOST_CLOCK, "cudaHostRegister and cudaHostUnregister of touched pages", AS_ALLOC_SERIES)   \
    X(alloc, managed, AS_HOST_CLOCK, "cudaMallocManaged and cudaFree", AS_ALLOC_SERIES)                                \
    X(alloc, slab, AS_HOST_CLOCK, "a free list of equal device blocks, made beforehand", AS_ALLOC_SERIES)

AS_ALLOC_CPU(AS_PROTOTYPE_CPU_STATE)
AS_ALLOC_CUDA(AS_PROTOTYPE_CUDA_STATE)

/* ---- slab.c: a free list of equal blocks under one lock; any block is as good as any other ---- */
typedef struct as_slab as_slab;
as_status as_slab_create(as_slab **out, int blocks, as_error *e) AS_MUST_CHECK;
int as_slab_take(as_slab *s); /* number of a free block; -1 if there is none */
void as_slab_give(as_slab *s, int block);
void as_slab_destroy(as_slab *s); /* NULL allowed */

#ifdef __cplusplus
}
#endif
