/* Ceilings: what the machine can do at best, measured by kernels made for nothing else.
 *
 * read    sums 32-bit words, wrapping. Operands: words (input), sum (output, one u32).
 *         The sum is that of all passes: passes * (sum of the words) mod 2^32, so that every byte counted was read.
 * copy    Operands: source, destination; the destination must equal the source. Counts read + written.
 * fma     chains of x = x * a + b from 0 with a = b = 1, passed at run time so that the compiler does not know them.
 *         One operand: steps (output, one f64): the number of multiply-adds done, recovered from the chains' last
 *         values (each equals its length, exact below 2^24 in f32). Two floating-point operations each.
 * tensor  products of the tensor cores on operands that stay where they are: tensor.cu. Operand and count as fma.
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
    X(ceiling, copy, AS_DETERMINISTIC, "vector copy inside one memory level (non-temporal stores for dram)")           \
    X(ceiling, fma, AS_DETERMINISTIC, "independent multiply-add chains in registers")

/* read at level=l2 must bypass the L1 caches (ld.global.cg): the slice of one multiprocessor may fit there. */
#define AS_CEILING_CUDA(X)                                                                                             \
    X(ceiling, read, AS_DETERMINISTIC, "16-byte loads of one memory level")                                            \
    X(ceiling, copy, AS_DETERMINISTIC, "16-byte loads and stores in device memory")                                    \
    X(ceiling, fma, AS_DETERMINISTIC, "independent multiply-add chains in registers")                                  \
    X(ceiling, link, AS_DETERMINISTIC, "copy engine, pinned host memory")

#define AS_CEILING_CUDA_STATE(X) X(ceiling, launch, 0, "a graph of empty kernels")

#define AS_CEILING_CUDA_LIBRARY(X)                                                                                     \
    X(ceiling, tensor, AS_DETERMINISTIC, "tensor cores on operands in shared memory or registers")

AS_CEILING_CPU_STATE(AS_PROTOTYPE_CPU_STATE)
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

/* On a device, by its last-level cache: level l2: a quarter of it (some GPUs keep a copy of a line in each half),
 * many passes; hbm: at least 2 GiB, so that start and tail of a launch stay under 1%, and 4 times the cache. */
static inline as_ceiling_size as_ceiling_size_cuda(const as_params *p, const as_device *d) {
    as_ceiling_size s;
    int64_t cache = d->last_level_cache_bytes ? (int64_t)d->last_level_cache_bytes : (int64_t)32 << 20;
    if (strcmp(as_params_text(p, "level"), "l2") == 0) {
        s.bytes = cache / 4 / 65536 * 65536;
        s.passes = 64;
    } else {
        s.bytes = (int64_t)2 << 30;
        if (s.bytes < 4 * cache)
            s.bytes = 4 * cache;
        s.passes = 1;
    }
    return s;
}

/* link: bytes of one copy. */
enum { AS_CEILING_LINK_BYTES = 512 << 20 };

/* Per level on the CPU, from the topology: docs/method.md. `bytes` in all, in `chunks` private pieces for l1 and l2
 * (each covered `passes` times in a row); chunks = 0 where one range is shared out in one pass. */
typedef struct as_ceiling_cpu_size {
    int64_t bytes, passes, chunks;
} as_ceiling_cpu_size;
as_status as_ceiling_size_cpu(const as_params *p, as_ceiling_cpu_size *out, as_error *e) AS_MUST_CHECK;
/* Of these, each operand of a copy takes half: 4 KiB pieces, the same for every chunk. */
static inline int64_t as_ceiling_copy_bytes(as_ceiling_cpu_size s) {
    int64_t chunks = s.chunks ? s.chunks : 1, piece = s.bytes / chunks / 2 / 4096 * 4096;
    return (piece ? piece : 4096) * chunks;
}
/* Multiply-adds of one fma operation on the CPU. */
int64_t as_ceiling_fma_steps_cpu(const as_params *p);

/* Sum of the words (wrapping) times passes, by plain loop; multiply-adds by formula. */
as_status as_ceiling_reference(const as_reference *r, as_error *e);

#ifdef __cplusplus
}
#endif
