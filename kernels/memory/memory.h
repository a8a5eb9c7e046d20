/* What it costs to reach memory: latency by working set, access patterns, contention. No kernel here computes.
 *
 * chase           A walk along one cycle through all lines of a working set: each address comes from the line before,
 *                 so that nothing overlaps and one step costs one latency. The cycle is Sattolo's shuffle of the lines
 *                 (every permutation that is one cycle, equally likely), by seeded keys: no prefetcher follows it.
 *                 Axes: bytes (working set), stride (from line to line; above a page it measures the TLB).
 *                 Operands: keys (input, u32, one a line), out (u32[2]): sum over walkers of the hash
 *                 h = 3 h + line * stride, and of the lines they end at. Large sets are walked by several walkers at once, far
 *                 too few to wait for one another: as_memory_walk states how many, and the steps of each.
 * read            Sums words (docs: ceiling). write: stores one value everywhere. triad: a = b + 3 c, f32.
 * clock           A chain of dependent integer additions: one a cycle on every core that we know of, so that
 *                 chase / clock is a latency in cycles of the clock that ran. out: their sum.
 * counters        Each thread of the team adds to its own counter, `stride` bytes from its neighbour's, by plain loads
 *                 and stores: under a line's length all of them share lines (false sharing). out: sum of the counters.
 * atomic          cpu: each thread adds 1 to one shared counter, atomically. cuda: each thread adds 1 to counter
 *                 i mod `targets`. out: the counters.
 * handoff         Two threads of the team pass a flag to and fro; a step is one way. peer=near: members 0 and 1, far:
 *                 the first and the last. out: the last value passed.
 * l2_distance     cuda: the latency of each line of an L2-resident set from one multiprocessor, 10th and 90th
 *                 percentile: the near and far halves of a divided L2.
 * shared          cuda: loads from shared memory, lane i at i * stride words of `width` bytes; cycles of the warp's
 *                 access show the conflict degree. out: sum of what was loaded.
 * constant        cuda: loads from constant memory, `distinct` addresses in a warp; 1 is a broadcast. out: sum.
 * strided         cuda: u32 loads from device memory, neighbouring threads `stride` elements apart, starting at element
 *                 `offset`: useful bytes only are counted, so that the rate shows what coalescing buys. out: sum.
 * registers,      cuda: the same arithmetic on SPILL_VALUES values a thread, with all registers, and with so few that
 * spilled         the values live in local memory. out: sum of the values' bits. */
#pragma once

#include "../table.h"

#ifdef __cplusplus
extern "C" {
#endif

#define AS_MEMORY_CPU(X)                                                                                               \
    X(memory, read, AS_DETERMINISTIC, "vector loads, summed")                                                          \
    X(memory, write, AS_DETERMINISTIC, "vector stores of one value")                                                   \
    X(memory, triad, AS_DETERMINISTIC, "a = b + 3 c in vectors")                                                       \
    X(memory, clock, AS_DETERMINISTIC, "dependent additions: one a cycle")

#define AS_MEMORY_CPU_STATE(X)                                                                                         \
    X(memory, chase, AS_DETERMINISTIC, "dependent loads along a random cycle of lines")                                \
    X(memory, counters, AS_DETERMINISTIC, "each thread increments its own counter, stride bytes apart")                \
    X(memory, atomic, AS_DETERMINISTIC, "all threads add to one counter, atomically")                                  \
    X(memory, handoff, AS_DETERMINISTIC, "two threads pass a flag to and fro")

#define AS_MEMORY_CUDA(X)                                                                                              \
    X(memory, read, AS_DETERMINISTIC, "16-byte loads, summed")                                                         \
    X(memory, write, AS_DETERMINISTIC, "16-byte stores of one value")                                                  \
    X(memory, triad, AS_DETERMINISTIC, "a = b + 3 c in 16-byte accesses")                                              \
    X(memory, atomic, AS_DETERMINISTIC, "atomic additions to `targets` counters")                                      \
    X(memory, strided, AS_DETERMINISTIC, "loads `stride` elements apart: what coalescing buys")

/* One multiprocessor is looked at; the series `cycles` is of its clock, for a whole operation. */
#define AS_MEMORY_CUDA_SERIES(X)                                                                                       \
    X(memory, shared, AS_DETERMINISTIC, "loads from shared memory by stride and width",                                \
      {"cycles", "cycles", false, true})                                                                               \
    X(memory, registers, AS_DETERMINISTIC, "arithmetic on values in registers", {"cycles", "cycles", false, true})     \
    X(memory, spilled, AS_DETERMINISTIC, "the same, the values spilled to local memory",                               \
      {"cycles", "cycles", false, true})

#define AS_MEMORY_CUDA_EXTRA(X)                                                                                        \
    X(memory, chase, AS_DETERMINISTIC, "dependent loads along a random cycle of lines",                                \
      {"cycles", "cycles", false, true})                                                                               \
    X(memory, constant, AS_DETERMINISTIC, "loads from constant memory by distinct addresses in a warp",                \
      {"cycles", "cycles", false, true})                                                                               \
    X(memory, l2_distance, AS_DETERMINISTIC | AS_HOST_CLOCK | AS_SINGLE,                                               \
      "latency of each line of a set in L2: near and far", {"near", "cycles", false}, {"far", "cycles", false})

AS_MEMORY_CPU(AS_PROTOTYPE_CPU)
AS_MEMORY_CPU_STATE(AS_PROTOTYPE_CPU_STATE)
AS_MEMORY_CUDA(AS_PROTOTYPE_CUDA)
AS_MEMORY_CUDA_SERIES(AS_PROTOTYPE_CUDA)
AS_MEMORY_CUDA_EXTRA(AS_PROTOTYPE_CUDA_STATE)

/* Keys of the input streams: they also tell the reference which operation it verifies. What else the
 * output depends on, such as the number of walkers, is added in units of 256. */
enum {
    AS_MEMORY_WALK = 0x60,
    AS_MEMORY_SUM,
    AS_MEMORY_STORE,
    AS_MEMORY_TRIAD, /* and the next one for c */
    AS_MEMORY_CLOCK = 0x68,
    AS_MEMORY_COUNT,
    AS_MEMORY_TARGETS,
    AS_MEMORY_SHARED,
    AS_MEMORY_CONSTANT,
    AS_MEMORY_STRIDED,
    AS_MEMORY_SPILL,
    AS_MEMORY_LINES,
};

enum {
    AS_MEMORY_LEAST_STEPS = 32768, /* of a walk */
    AS_MEMORY_CLOCK_STEPS = 1 << 16,
    AS_MEMORY_COUNT_STEPS = 1 << 14, /* increments of each thread, or passes of the flag */
    AS_MEMORY_ATOMIC_OPS = 1 << 22,  /* cuda */
    AS_MEMORY_SHARED_WORDS = 8192,   /* 32 KiB: static shared memory holds it on every device */
    AS_MEMORY_SHARED_WARPS = 8,
    AS_MEMORY_SHARED_STEPS = 4096, /* loads of each warp */
    AS_MEMORY_CONSTANT_WORDS = 8192,
    AS_MEMORY_SPILL_VALUES = 64,
    AS_MEMORY_SPILL_STEPS = 256,
    AS_MEMORY_SPILL_THREADS = 128,
    AS_MEMORY_LINE_BYTES = 128, /* l2_distance */
};

typedef struct as_memory_walk {
    int64_t lines, walkers;
    int64_t share; /* lines from one walker's start to the next one's */
    int64_t steps; /* of each walker */
} as_memory_walk;

static inline as_memory_walk as_memory_walk_by(int64_t lines, int64_t walkers) {
    as_memory_walk w;
    w.lines = lines;
    w.walkers = walkers;
    w.share = lines / walkers;
    /* A short cycle is walked several times over, since a kernel starts with its L1 cache empty. */
    w.steps = walkers > 1 || lines >= AS_MEMORY_LEAST_STEPS ? w.share : AS_MEMORY_LEAST_STEPS / lines * lines;
    return w;
}

/* On the cpu one walker. On a GPU one up to 32768 lines, then so many that each takes about as many steps, at most 64:
 * a thousandth of what it takes to fill the memory system. */
static inline as_memory_walk as_memory_walk_of(const as_params *p, bool cpu) {
    const int64_t lines = as_params_int(p, "bytes") / as_params_int(p, "stride"), many = lines / AS_MEMORY_LEAST_STEPS;
    return as_memory_walk_by(lines, cpu || many < 1 ? 1 : many > 64 ? 64 : many);
}

/* next[i] is the line after line i in one cycle through all `lines` (below 2^32): Sattolo's shuffle by `keys`. */
void as_memory_cycle(const uint32_t *keys, int64_t lines, uint32_t *next);
/* The line that each walker starts from: every `share` lines along the cycle from line 0. */
void as_memory_starts(const uint32_t *next, as_memory_walk w, uint32_t *start);

/* Word of shared memory that a load of lane `lane` starts at in step `step`. The address moves with the step by whole
 * rows of banks, so that the pattern of banks stays. Likewise for the constant table. */
static inline AS_HD int64_t as_memory_shared_word(int64_t lane, int64_t step, int64_t stride, int64_t words) {
    const int64_t at = lane * stride * words + step % 8 * 32 * words;
    return at % AS_MEMORY_SHARED_WORDS;
}
static inline AS_HD int64_t as_memory_constant_word(int64_t lane, int64_t step, int64_t distinct) {
    return (lane % distinct * 64 + step % 32) % AS_MEMORY_CONSTANT_WORDS;
}

/* Exact values of every output above, by plain loops over the inputs. */
as_status as_memory_reference(const as_reference *r, as_error *e);

#ifdef __cplusplus
}
#endif
