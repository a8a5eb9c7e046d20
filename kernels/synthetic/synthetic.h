/* Work of a size that the caller sets, and that can be made larger by a known share: with it `assay calibrate` finds
 * how small a slow-down a comparison can see on this machine (docs/calibrate.md).
 *
 * spin    chains of dependent steps x = A x + C (mod 2^32) in registers: bound by the core's clock, no memory touched.
 *         Operands: start (input, one u32), end (output, one u32 for each chain; chain i starts at start + i).
 *         Axis us: `us` times a fixed number of steps, chosen so that a usual core takes about `us` microseconds.
 *         The work is fixed; the time is what it takes.
 * stream  sums the 32-bit words of pieces of AS_SYNTHETIC_PIECE_BYTES, wrapping: bound by the memory that holds them.
 *         `passes` times over: a buffer that a cache holds can be read for long enough.
 *         Operands: words (input, `bytes` bytes), sums (output, one u32 for each piece read, in order).
 *
 * Injection. Axis inject = k > 0 names the k-th entry of ASSAY_INJECT, a list of shares such as "0.05,0.20": an
 * operation then does that much more of the same work, to the nearest step or piece. Without the variable, or with
 * inject = 0, it does none. The stated work stays that without the injection, as that of a regressed kernel would.
 * The output depends on every step and every piece and is checked: an injection is never only claimed. */
#pragma once

#include "../table.h"

#ifdef __cplusplus
extern "C" {
#endif

#define AS_SYNTHETIC_CPU_STATE(X)                                                                                      \
    X(synthetic, spin, AS_DETERMINISTIC, "a chain of dependent integer steps in registers; one thread")                \
    X(synthetic, stream, AS_DETERMINISTIC, "vector loads of `bytes` bytes, summed; split over threads")

#define AS_SYNTHETIC_CUDA_STATE(X)                                                                                     \
    X(synthetic, spin, AS_DETERMINISTIC | AS_CAPTURE, "a chain of dependent integer steps, one thread")                \
    X(synthetic, spin_all, AS_DETERMINISTIC | AS_CAPTURE, "such chains on all multiprocessors")                        \
    X(synthetic, stream, AS_DETERMINISTIC | AS_CAPTURE, "16-byte loads of `bytes` bytes, summed")

AS_SYNTHETIC_CPU_STATE(AS_PROTOTYPE_CPU_STATE)
AS_SYNTHETIC_CUDA_STATE(AS_PROTOTYPE_CUDA_STATE)

/* x -> A x + C has the full period 2^32 (C odd, A - 1 a multiple of 4; constants of Numerical Recipes): the value
 * after n steps tells n mod 2^32. */
#define AS_SYNTHETIC_A 1664525u
#define AS_SYNTHETIC_C 1013904223u

enum {
    /* Steps of one chain in a nominal microsecond, at 4 cycles a step: a host at 3.2 GHz, one thread of a GPU at
     * 1.6 GHz, and a quarter of that where 8 warps share a scheduler that starts such a step every other cycle. */
    AS_SYNTHETIC_CPU_STEPS = 800,
    AS_SYNTHETIC_CUDA_STEPS = 400,
    AS_SYNTHETIC_CUDA_ALL_STEPS = 100,
    AS_SYNTHETIC_CHAINS = 1 << 17, /* of spin_all: fixed, so that the work depends on no device */
    /* Ranges that keep the rounding of a share below 0.05% of the whole. */
    AS_SYNTHETIC_LEAST_US = 20,
    AS_SYNTHETIC_MOST_US = 1000000,
    AS_SYNTHETIC_LEAST_READS = 1024, /* of pieces */
    AS_SYNTHETIC_PIECE_BYTES = 16384,
};

/* The k-th (from 1) of comma-separated shares, each a decimal from 0 to 10. AS_EUSAGE for anything else. */
as_status as_synthetic_share(const char *list, int64_t k, double *out, as_error *e) AS_MUST_CHECK;

/* Steps of one chain, from axes us and inject and from ASSAY_INJECT; *nominal without the injection. */
as_status as_synthetic_steps(const as_params *p, int64_t steps_of_us, int64_t *nominal, int64_t *steps,
                             as_error *e) AS_MUST_CHECK;

/* Which pieces of the words one operation of stream reads. */
typedef struct as_synthetic_pieces {
    int64_t whole;   /* pieces of the words */
    int64_t nominal; /* readings of a piece without the injection */
    int64_t reads;   /* with it: outputs */
    int64_t from;    /* first piece of those that the last, partial pass reads */
} as_synthetic_pieces;
as_status as_synthetic_pieces_of(const as_params *p, as_synthetic_pieces *out, as_error *e) AS_MUST_CHECK;

#ifdef __CUDACC__
#define AS_SYNTHETIC_HD __host__ __device__
#else
#define AS_SYNTHETIC_HD
#endif

/* Piece that read number `i` takes. The partial pass lies in the middle of the words: each of its bytes was last read
 * half the words ago, and is read again after as much, so that no cache below that size serves the injection. */
static inline AS_SYNTHETIC_HD int64_t as_synthetic_piece(as_synthetic_pieces s, int64_t i) {
    return i / s.whole < s.reads / s.whole ? i % s.whole : s.from + i % s.whole;
}

/* Exact; the key of a chain's output holds its steps mod 2^32. spin: the closed form in log2(n) multiplications; stream: a plain sum of each piece. */
as_status as_synthetic_reference(const as_reference *r, as_error *e);

#ifdef __cplusplus
}
#endif
