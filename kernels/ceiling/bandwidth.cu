/* Bandwidth of a CUDA device by memory level and by what moves; ceiling.h states operands and amounts.
 *
 *   read    level=hbm, l2: a grid that stays resident, eight independent 16-byte loads in flight for each thread:
 *           2 blocks of 512 threads an SM hold 128 KiB in flight there, several times what latency x bandwidth asks.
 *           Loads go around L1. The words are summed, so that every byte must arrive. bytes * passes read.
 *   write, copy, triad
 *           level=hbm, l2: one block for each 16 KiB of an operand, four 16-byte accesses a thread of each, all loads
 *           before the first store. Passes follow one another in the grid's second dimension; in l2 loads go around L1.
 *   all     level=shared, and read at level=l1: AS_CEILING_CORE_BYTES that two blocks of 256 threads an SM hold, each
 *           thread always the same places of them, pass after pass: passes are dealt out over the blocks. Accesses are
 *           volatile; those of l1, which cannot be, take their places in another order with each pass, so that none of
 *           them can be taken out of the loop. What shared memory holds at the end is the output, written by every
 *           block. (L1 has no ceiling of stores: it passes them on to L2.) */
#include "ceiling.h"

#include "../cuda/check.h"
#include "../cuda/internal.h"
#include "sums.cuh"

enum { READ_THREADS = 512, READ_BLOCKS_PER_SM = 2, READ_IN_FLIGHT = 8 };
enum { TILE_THREADS = 256, TILE_IN_FLIGHT = 4, TILE = TILE_THREADS * TILE_IN_FLIGHT };
enum { CORE_THREADS = 256, CORE_BLOCKS_PER_SM = 2, CORE_VECTORS = AS_CEILING_CORE_BYTES / 16 / CORE_THREADS };

/* Cached in L2 alone; volatile, so that no pass is merged with another. */
static __device__ __forceinline__ uint4 load_l2(const uint4 *p) {
    uint4 v;
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    return v;
}

static __global__ void __launch_bounds__(READ_THREADS, READ_BLOCKS_PER_SM)
    as_ceiling_read_kernel(const uint4 *__restrict__ words, uint64_t count, int64_t passes, uint32_t *out) {
    const uint64_t stride = (uint64_t)gridDim.x * READ_THREADS;
    const uint64_t first = (uint64_t)blockIdx.x * READ_THREADS + threadIdx.x;
    uint32_t sum = 0;
    for (int64_t pass = 0; pass < passes; pass++) {
        for (uint64_t i = first; i < count; i += READ_IN_FLIGHT * stride) {
            uint4 v[READ_IN_FLIGHT];
#pragma unroll
            for (int j = 0; j < READ_IN_FLIGHT; j++)
                v[j] = i + j * stride < count ? load_l2(words + i + j * stride) : make_uint4(0, 0, 0, 0);
#pragma unroll
            for (int j = 0; j < READ_IN_FLIGHT; j++)
                sum += v[j].x + v[j].y + v[j].z + v[j].w;
        }
    }
    const unsigned long long block = block_sum<READ_THREADS>(sum);
    unsigned long long total;
    if (threadIdx.x == 0 && grid_sum(block, &total))
        *out = (uint32_t)total;
}

/* ---- write, copy, triad of hbm and l2 ---- */

/* In hbm as the compiler loads, in l2 around L1. */
template <bool L2> static __device__ __forceinline__ uint4 load(const uint4 *p) {
    if constexpr (L2)
        return load_l2(p);
    else
        return *p;
}

static __device__ __forceinline__ float triad(uint32_t b, uint32_t c) {
    return __uint_as_float(b) + 3 * __uint_as_float(c);
}
static __device__ __forceinline__ uint4 triad(uint4 b, uint4 c) {
    return make_uint4(__float_as_uint(triad(b.x, c.x)), __float_as_uint(triad(b.y, c.y)),
                      __float_as_uint(triad(b.z, c.z)), __float_as_uint(triad(b.w, c.w)));
}

/* The last block of a pass may be ragged: its places beyond `count` stay as they are. */
template <bool L2, int LOADS>
static __global__ void __launch_bounds__(TILE_THREADS)
    as_ceiling_tile_kernel(const uint4 *__restrict__ b, const uint4 *__restrict__ c, uint4 *__restrict__ out,
                           uint64_t count) {
    const uint64_t first = (uint64_t)blockIdx.x * TILE + threadIdx.x;
    uint4 x[TILE_IN_FLIGHT], y[TILE_IN_FLIGHT];
    if (LOADS == 0) {
        const uint32_t word = *(const uint32_t *)b;
        x[0] = make_uint4(word, word, word, word);
    }
#pragma unroll
    for (int j = 0; j < TILE_IN_FLIGHT; j++) {
        const uint64_t at = first + j * TILE_THREADS;
        if (LOADS > 0 && at < count)
            x[j] = load<L2>(b + at);
        if (LOADS > 1 && at < count)
            y[j] = load<L2>(c + at);
    }
#pragma unroll
    for (int j = 0; j < TILE_IN_FLIGHT; j++) {
        const uint64_t at = first + j * TILE_THREADS;
        if (at < count)
            out[at] = LOADS == 0 ? x[0] : LOADS == 1 ? x[j] : triad(x[j], y[j]);
    }
}

/* ---- shared memory and L1 ---- */

static __device__ __forceinline__ uint4 load_shared(const uint4 *p) {
    uint4 v;
    asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"((uint32_t)__cvta_generic_to_shared(p)));
    return v;
}
static __device__ __forceinline__ void store_shared(uint4 *p, uint4 v) {
    asm volatile("st.volatile.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"((uint32_t)__cvta_generic_to_shared(p)),
                 "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w));
}
static __device__ __forceinline__ uint4 load_l1(const uint4 *p) {
    uint4 v;
    asm volatile("ld.global.ca.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    return v;
}

template <bool SHARED>
static __global__ void __launch_bounds__(CORE_THREADS)
    as_ceiling_core_read_kernel(const uint4 *__restrict__ words, uint32_t *out) {
    __shared__ uint4 held[SHARED ? CORE_VECTORS * CORE_THREADS : 1];
    for (int j = 0; SHARED && j < CORE_VECTORS; j++)
        held[j * CORE_THREADS + threadIdx.x] = words[j * CORE_THREADS + threadIdx.x];
    __syncthreads();
    uint32_t sum = 0;
    int turn = 0;
    for (int pass = (int)blockIdx.x; pass < AS_CEILING_CORE_PASSES; pass += (int)gridDim.x) {
        uint4 v[CORE_VECTORS];
#pragma unroll
        for (int j = 0; j < CORE_VECTORS; j++) {
            const int moved = j + turn < CORE_VECTORS ? j + turn : j + turn - CORE_VECTORS;
            v[j] = SHARED ? load_shared(held + j * CORE_THREADS + threadIdx.x)
                          : load_l1(words + moved * CORE_THREADS + threadIdx.x);
        }
#pragma unroll
        for (int j = 0; j < CORE_VECTORS; j++)
            sum += v[j].x + v[j].y + v[j].z + v[j].w;
        turn = turn + 1 < CORE_VECTORS ? turn + 1 : 0;
    }
    const unsigned long long block = block_sum<CORE_THREADS>(sum);
    unsigned long long total;
    if (threadIdx.x == 0 && grid_sum(block, &total))
        *out = (uint32_t)total;
}

/* LOADS 0: write, 1: copy, 2: triad; LOADS + 1 operands share the bytes. */
template <int LOADS>
static __global__ void __launch_bounds__(CORE_THREADS)
    as_ceiling_core_store_kernel(const uint4 *__restrict__ b, const uint4 *__restrict__ c, uint4 *__restrict__ out) {
    enum { EACH = CORE_VECTORS / (LOADS + 1) };
    __shared__ uint4 held[LOADS + 1][EACH * CORE_THREADS]; /* the output, then b and c */
    uint4 value = make_uint4(0, 0, 0, 0);
    if (LOADS == 0) {
        const uint32_t word = *(const uint32_t *)b;
        value = make_uint4(word, word, word, word);
    }
    for (int at = (int)threadIdx.x; at < EACH * CORE_THREADS; at += CORE_THREADS) {
        held[0][at] = make_uint4(0, 0, 0, 0);
        if (LOADS > 0)
            held[LOADS > 0 ? 1 : 0][at] = b[at];
        if (LOADS > 1)
            held[LOADS > 1 ? 2 : 0][at] = c[at];
    }
    __syncthreads();
    for (int pass = (int)blockIdx.x; pass < AS_CEILING_CORE_PASSES; pass += (int)gridDim.x) {
        uint4 x[EACH], y[EACH];
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            const int at = j * CORE_THREADS + (int)threadIdx.x;
            x[j] = LOADS > 0 ? load_shared(&held[LOADS > 0 ? 1 : 0][at]) : value;
            y[j] = LOADS > 1 ? load_shared(&held[LOADS > 1 ? 2 : 0][at]) : value;
        }
#pragma unroll
        for (int j = 0; j < EACH; j++)
            store_shared(&held[0][j * CORE_THREADS + threadIdx.x], LOADS > 1 ? triad(x[j], y[j]) : x[j]);
    }
    for (int at = (int)threadIdx.x; at < EACH * CORE_THREADS; at += CORE_THREADS)
        out[at] = load_shared(&held[0][at]);
}

/* ---- hooks ---- */

static bool is_level(const as_call *call, const char *level) {
    return strcmp(as_params_text(call->params, "level"), level) == 0;
}

static unsigned per_sm(const as_call *call, int blocks) {
    return (unsigned)(as_cuda_of(call->device)->properties.multiProcessorCount * blocks);
}

as_status as_ceiling_read_cuda(const as_call *call, as_error *e) {
    const as_ceiling_size size = as_ceiling_size_cuda(call->params, call->device, 1);
    const cudaStream_t stream = as_cuda_stream(call->stream);
    const uint4 *words = (const uint4 *)call->operand[0];
    uint32_t *out = (uint32_t *)call->operand[1];
    if (is_level(call, "l1"))
        as_ceiling_core_read_kernel<false><<<per_sm(call, CORE_BLOCKS_PER_SM), CORE_THREADS, 0, stream>>>(words, out);
    else if (is_level(call, "shared"))
        as_ceiling_core_read_kernel<true><<<per_sm(call, CORE_BLOCKS_PER_SM), CORE_THREADS, 0, stream>>>(words, out);
    else
        as_ceiling_read_kernel<<<per_sm(call, READ_BLOCKS_PER_SM), READ_THREADS, 0, stream>>>(
            words, (uint64_t)size.bytes / sizeof(uint4), size.passes, out);
    AS_CUDA_LAUNCHED(e);
    return AS_OK;
}

template <int LOADS> static as_status store(const as_call *call, const void *b, const void *c, void *out, as_error *e) {
    static_assert(CORE_VECTORS % (LOADS + 1) == 0, "every vector is moved");
    const as_ceiling_size size = as_ceiling_size_cuda(call->params, call->device, LOADS + 1);
    const cudaStream_t stream = as_cuda_stream(call->stream);
    const uint64_t count = (uint64_t)size.bytes / sizeof(uint4);
    const dim3 grid((unsigned)((count + TILE - 1) / TILE), (unsigned)size.passes);
    if (is_level(call, "shared"))
        as_ceiling_core_store_kernel<LOADS><<<per_sm(call, CORE_BLOCKS_PER_SM), CORE_THREADS, 0, stream>>>(
            (const uint4 *)b, (const uint4 *)c, (uint4 *)out);
    else if (is_level(call, "l2"))
        as_ceiling_tile_kernel<true, LOADS>
            <<<grid, TILE_THREADS, 0, stream>>>((const uint4 *)b, (const uint4 *)c, (uint4 *)out, count);
    else
        as_ceiling_tile_kernel<false, LOADS>
            <<<grid, TILE_THREADS, 0, stream>>>((const uint4 *)b, (const uint4 *)c, (uint4 *)out, count);
    AS_CUDA_LAUNCHED(e);
    return AS_OK;
}

as_status as_ceiling_write_cuda(const as_call *call, as_error *e) {
    return store<0>(call, call->operand[0], NULL, call->operand[1], e);
}

as_status as_ceiling_copy_cuda(const as_call *call, as_error *e) {
    return store<1>(call, call->operand[0], NULL, call->operand[1], e);
}

as_status as_ceiling_triad_cuda(const as_call *call, as_error *e) {
    return store<2>(call, call->operand[0], call->operand[1], call->operand[2], e);
}
