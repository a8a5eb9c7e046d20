/* Ceilings: what the machine can do at best, measured by kernels made for nothing else.
 *
 * read    sums 32-bit words, wrapping. Operands: words (input), sum (output, one u32).
 *         The sum is that of all passes: passes * (sum of the words) mod 2^32, so that every byte counted was read.
 * write   stores one word everywhere. Operands: word (input, one u32), out; every word of out must equal it.
 * copy    Operands: source, destination; the destination must equal the source. Counts read + written.
 * triad   a = b + 3 c in f32. Operands: b, c (inputs), a. Counts read + written.
 * fma     chains of x = x * a + b from 0 with a = b = 1, passed at run time so that the compiler does not know them.
 *         One operand: steps (output, one f64): the number of multiply-adds done, recovered from the chains' last
 *         values (each equals its length, exact below 2^24 in f32). Two floating-point operations each. In bf16 on the
 *         host: x = x + a a' + b b' by AVX512-BF16 with the ones in bf16; an instruction is two for each sum.
 * tensor  products of the tensor cores, or of AMX, on operands that stay where they are: tensor.cu, tiles.c. Operand and
 *         count as fma.
 * atomic  atomic additions that no two threads direct at one place at a time. On the host and in shared memory one
 *         operand: steps (output, one f64), the sum of the counters. In a device's l2: counters (output, u32).
 * link    one copy between pinned host memory and the device. Operands: source, destination.
 * launch  a graph of AS_CEILING_LAUNCHES empty kernels; no operands; counter as in launch.h.
 */
#pragma once

#include "../table.h"

#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AS_CEILING_CPU_STATE(X)                                                                                        \
    X(ceiling, read, AS_DETERMINISTIC, "vector loads of one memory level")                                             \
    X(ceiling, write, AS_DETERMINISTIC, "vector stores inside one memory level (non-temporal for dram)")               \
    X(ceiling, copy, AS_DETERMINISTIC, "vector copy inside one memory level (non-temporal stores for dram)")           \
    X(ceiling, triad, AS_DETERMINISTIC, "a = b + 3 c inside one memory level (non-temporal stores for dram)")          \
    X(ceiling, fma, AS_DETERMINISTIC, "independent multiply-add chains in registers")                                  \
    X(ceiling, atomic, AS_DETERMINISTIC, "atomic additions, each thread to a line of its own")

#define AS_CEILING_CPU_LIBRARY(X)                                                                                      \
    X(ceiling, tensor, AS_DETERMINISTIC, "products of AMX tiles that stay in their registers")

/* read at level=l2 must bypass the L1 caches (ld.global.cg): the slice of one multiprocessor may fit there. */
#define AS_CEILING_CUDA(X)                                                                                             \
    X(ceiling, read, AS_DETERMINISTIC, "16-byte loads of one memory level")                                            \
    X(ceiling, write, AS_DETERMINISTIC, "16-byte stores inside one memory level")                                      \
    X(ceiling, copy, AS_DETERMINISTIC, "16-byte loads and stores inside one memory level")                             \
    X(ceiling, triad, AS_DETERMINISTIC, "a = b + 3 c by 16-byte accesses inside one memory level")                     \
    X(ceiling, fma, AS_DETERMINISTIC, "independent multiply-add chains in registers")                                  \
    X(ceiling, atomic, AS_DETERMINISTIC, "atomic additions to counters in L2, or in shared memory")

#define AS_CEILING_CUDA_STATE(X)                                                                                       \
    X(ceiling, link, AS_DETERMINISTIC, "copy engine, pinned host memory; one way or both at once")                     \
    X(ceiling, launch, 0, "a graph of empty kernels")

#define AS_CEILING_CUDA_LIBRARY(X)                                                                                     \
    X(ceiling, tensor, AS_DETERMINISTIC, "tensor cores on operands in shared memory or registers")

AS_CEILING_CPU_STATE(AS_PROTOTYPE_CPU_STATE)
AS_CEILING_CPU_LIBRARY(AS_PROTOTYPE_CPU_LIBRARY)
AS_CEILING_CUDA(AS_PROTOTYPE_CUDA)
AS_CEILING_CUDA_STATE(AS_PROTOTYPE_CUDA_STATE)
AS_CEILING_CUDA_LIBRARY(AS_PROTOTYPE_CUDA_LIBRARY)

enum {
    AS_CEILING_LAUNCHES = 512,
    /* cuda fma: AS_CEILING_FMA_THREADS threads, AS_CEILING_FMA_CHAINS chains each, every chain
     * AS_CEILING_FMA_STEPS long. 2^20 threads fill any device evenly; a chain stays below 2^24, exact in f32. */
    AS_CEILING_FMA_THREADS = 1 << 20,
    AS_CEILING_FMA_CHAINS = 8,
    AS_CEILING_FMA_STEPS = 4096, /* about 1 ms at 60 TFLOP/s */
    /* cuda tensor: units of AS_CEILING_TENSOR_PAIRS pairs of slabs of 128 bytes along k, for 128 x 256 sums. So many
     * units that the last ones fill any device to within 1%; about 5 ms at 800 TFLOP/s of 2-byte elements. */
    AS_CEILING_TENSOR_UNITS = 1 << 15,
    AS_CEILING_TENSOR_PAIRS = 16,
};

/* Multiply-adds of one tensor operation on elements of so many bytes. */
static inline double as_ceiling_tensor_steps(int element_bytes) {
    return (double)AS_CEILING_TENSOR_UNITS * AS_CEILING_TENSOR_PAIRS * 2 * (128 / element_bytes) * 128 * 256;
}

/* Bytes and passes of a bandwidth ceiling. One operation covers the `bytes` of each operand `passes` times. */
typedef struct as_ceiling_size {
    int64_t bytes, passes;
} as_ceiling_size;

enum {
    /* cuda, level l1 and shared: bytes that each multiprocessor holds, shared out to the operands, and the passes over
     * them that all multiprocessors do together: so many that the last ones fill any device to within 1%. */
    AS_CEILING_CORE_BYTES = 24 << 10,
    AS_CEILING_CORE_PASSES = 1 << 18, /* 6.4 GB: 0.2 ms at 128 bytes a clock of 132 multiprocessors */
};

/* On a device, by its last-level cache: level l2: a quarter of it (some GPUs keep a copy of a line in each half), shared
 * out to the operands, many passes; hbm: at least 2 GiB an operand, so that start and tail of a launch stay under 1%, and
 * 4 times the cache. */
static inline as_ceiling_size as_ceiling_size_cuda(const as_params *p, const as_device *d, int operands) {
    as_ceiling_size s;
    const char *level = as_params_text(p, "level");
    int64_t cache = d->last_level_cache_bytes ? (int64_t)d->last_level_cache_bytes : (int64_t)32 << 20;
    if (strcmp(level, "l1") == 0 || strcmp(level, "shared") == 0) {
        s.bytes = AS_CEILING_CORE_BYTES / operands;
        s.passes = AS_CEILING_CORE_PASSES;
    } else if (strcmp(level, "l2") == 0) {
        s.bytes = cache / 4 / operands / 65536 * 65536;
        s.passes = 64;
    } else {
        s.bytes = (int64_t)2 << 30;
        if (s.bytes < 4 * cache)
            s.bytes = 4 * cache;
        s.passes = 1;
    }
    return s;
}

/* cuda atomic: additions of one operation; in level l2 to so many counters in turn. */
enum { AS_CEILING_ADDITIONS = 1 << 28, AS_CEILING_COUNTERS = 1 << 20 };

/* link: bytes of one copy. */
enum { AS_CEILING_LINK_BYTES = 512 << 20 };

/* Per level on the CPU, from the topology: docs/method.md. `bytes` in all, in `chunks` private pieces for l1 and l2
 * (each covered `passes` times in a row); chunks = 0 where one range is shared out in one pass. */
typedef struct as_ceiling_cpu_size {
    int64_t bytes, passes, chunks;
} as_ceiling_cpu_size;
as_status as_ceiling_size_cpu(const as_params *p, as_ceiling_cpu_size *out, as_error *e) AS_MUST_CHECK;
/* Of these, what each of so many operands takes: 4 KiB pieces, the same for every chunk. */
static inline int64_t as_ceiling_operand_bytes(as_ceiling_cpu_size s, int operands) {
    int64_t chunks = s.chunks ? s.chunks : 1, piece = s.bytes / chunks / operands / 4096 * 4096;
    return (piece ? piece : 4096) * chunks;
}
/* Multiply-adds of one operation on the CPU: fma, and tensor by the bytes of an element. */
int64_t as_ceiling_fma_steps_cpu(const as_params *p);
int64_t as_ceiling_tensor_steps_cpu(const as_params *p, int element_bytes);
enum { AS_CEILING_ADDITIONS_CPU = 1 << 20 }; /* of one operation of atomic on the CPU */

/* Keys of the input streams: they also tell the reference which operation it verifies. */
enum { AS_CEILING_WORDS = 1, AS_CEILING_WORD, AS_CEILING_TRIAD /* and the next one for c */ };

/* What an output must be, by plain loop or formula. */
as_status as_ceiling_reference(const as_reference *r, as_error *e);

#ifdef __cplusplus
}
#endif
