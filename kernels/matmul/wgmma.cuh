/* matmul/wgmma: the tensor cores of Hopper at their own rate.
 *
 * What this rung adds to mma: products of a whole warpgroup (wgmma) take A and B from shared memory, so that neither
 * ldmatrix nor registers for operands stand in the way; the copy engine (TMA) loads whole tiles by one instruction of
 * one thread, which swizzles, pads edges with zeros and counts the bytes on a barrier; warps specialise: one warp loads,
 * two warpgroups multiply, and nobody waits for all the others; blocks of a cluster load common tiles once (multicast);
 * the grid is persistent, so that the loads of the next tile run during the end of this one.
 *
 * What bounds it, for 128 x 256 x 128 bytes: an SM multiplies 64 x 256 x 32 bytes in 128 cycles. In that time it reads
 * (64 + 256) x 32 bytes of shared memory, 80 of the 128 bytes that a cycle gives. A slab takes 1024 cycles (512 for
 * 8-bit types) and 48 KiB from L2, 48 (96) bytes a cycle and SM; L2 gives about 24 to 30. Hence clusters: 2 x 1 blocks
 * share the tile of B, 32 KiB a slab. At 700 TFLOP/s in bf16 that is 5.3 TB/s instead of 8.
 *
 * Predicted before the first run: bf16 at 4096 and 8192 0.95 to 1.05 of cublaslt; both are held by power, not by
 * issue. e4m3 at least 0.9: its products take half the time and the end of a tile the same, so that a tile of 4096
 * (32 slabs, 16,000 cycles) would lose some 2,000 cycles to the store of C, 12%: `deferred` hides them. tf32 and s8
 * store 4-byte elements: 128 sums and 128 stored values do not fit the registers, so no deferring; predicted 0.9.
 * Clusters of 2 give 5 to 10% over none; 256 x 128 a little less than 128 x 256, as its shared-memory reads are (2 x
 * (64 + 128)) x 32 bytes for the same products, 96 of 128 bytes a cycle.
 *
 * Measured on an H200 (CUDA 13.0), TFLOP/s beside cublaslt in the same run. n = 4096, six interleaved rounds: bf16 798 to
 * 795, tf32 423 to 419, e4m3 1477 to 1480, s8 1411 to 1510 (0.93). n = 8192, three rounds: bf16 693 to 729 (0.95), tf32
 * 369 to 360, e4m3 1320 to 1303, s8 1349 to 1337. So the prediction held for bf16 and was too low for the others. Both
 * are held by power: the SM clock stood at 1935 to 1980 MHz after a round, and the same kernel gave 670 in bf16 in a run
 * with nothing but products. Clusters gave less than predicted: 628 with and 578 without for 128 x 128, and nothing that
 * two rounds could show for 128 x 256 (653 and 662). Deferring the store is worth 8% in e4m3 (1331 to 1227), nothing in
 * bf16; 256 x 128 is not behind 128 x 256; C from registers is the slowest way (1108 in e4m3).
 *
 * Roles. 384 threads: warpgroup 0 gives its registers away (40 a thread) and one thread of it issues all loads;
 * warpgroups 1 and 2 (232 registers) take the upper and lower half of the tile. full[stage]: the bytes have arrived.
 * empty[stage]: every warpgroup of every block of the cluster has done with it, since a multicast writes to all.
 *
 * Products of slab s are in flight while slab s + 1 is awaited and issued; then those of s have finished and its stage is
 * released. The sums of narrow types are packed to C's type at the end of a tile; that frees 128 registers, the next
 * tile's products start at once, and each of the first slabs is accompanied by the store of one box of 64 columns.
 *
 * C leaves through shared memory in boxes of 64 rows x 128 bytes, swizzled against bank conflicts, two buffers a
 * warpgroup, by the copy engine; it clips at the edges of C. Where rows of C are no whole 16 bytes, threads store.
 *
 * Edges. Rows and columns outside the matrices arrive as zeros. Rows of A and B must be whole 16 bytes (k a multiple of
 * 8, 4, 16 by type): the copy engine takes no others. */
#pragma once

#include "../tensor/hopper.cuh"
#include "types.h"

/* What a launch needs beside the three maps. */
struct as_wgmma_args {
    void *c;
    int m, n, slabs;          /* slabs of 128 bytes along k */
    int down, across, height; /* clusters of tiles of C; rows of them in a group of the walk */
    bool by_copy_engine;      /* C leaves in boxes: its rows are whole 16 bytes */
};

template <int ELEMENT> struct as_wgmma_element;
template <> struct as_wgmma_element<AS_MM_TF32> {
    typedef float sum_t;
    static constexpr int bytes = 4, out_bytes = 4;
};
template <> struct as_wgmma_element<AS_MM_BF16> {
    typedef float sum_t;
    static constexpr int bytes = 2, out_bytes = 2;
};
template <> struct as_wgmma_element<AS_MM_F16> {
    typedef float sum_t;
    static constexpr int bytes = 2, out_bytes = 2;
};
template <> struct as_wgmma_element<AS_MM_E4M3> {
    typedef float sum_t;
    static constexpr int bytes = 1, out_bytes = 2;
};
template <> struct as_wgmma_element<AS_MM_S8> {
    typedef int sum_t;
    static constexpr int bytes = 1, out_bytes = 4;
};

template <int ELEMENT, int TILE_M, int TILE_N, int STAGES, int CLUSTER_M, int CLUSTER_N, bool DEFERRED>
struct as_wgmma_config : as_wgmma_element<ELEMENT> {
    typedef as_wgmma_element<ELEMENT> base;
    static constexpr int element = ELEMENT, tile_m = TILE_M, tile_n = TILE_N, stages = STAGES, cluster_m = CLUSTER_M,
                         cluster_n = CLUSTER_N, cluster = CLUSTER_M * CLUSTER_N;
    static constexpr bool narrow = base::out_bytes == 2, deferred = DEFERRED;
    static constexpr int consumers = 2, threads = 128 * (1 + consumers);
    static constexpr int slab_bytes = 128, slab = slab_bytes / base::bytes;
    static constexpr int a_bytes = tile_m * slab_bytes, b_bytes = tile_n * slab_bytes;
    static constexpr int blocks_m = tile_m / (64 * consumers); /* of 64 rows, in a warpgroup */
    static constexpr int sums = tile_n / 2;                    /* a thread, of one block of 64 rows */
    static constexpr int box_columns = slab_bytes / base::out_bytes, box_bytes = 64 * slab_bytes;
    static constexpr int boxes_n = tile_n / box_columns, boxes = blocks_m * boxes_n;
    static constexpr int packed = narrow ? blocks_m * sums / 2 : 1;
    static constexpr int shared_bytes =
        1024 + stages * (a_bytes + b_bytes) + consumers * 2 * box_bytes + stages * 2 * (int)sizeof(uint64_t);
    static_assert(tile_m % (64 * consumers) == 0 && (tile_n == 128 || tile_n == 256), "shapes of wgmma");
    static_assert(!deferred || narrow, "only packed sums leave registers for the next tile's");
    static_assert(blocks_m * sums <= 128, "sums of a thread");
};

#if AS_HAVE_WGMMA

template <class C, int N>
static __device__ __forceinline__ void as_wgmma(typename C::sum_t (&d)[N], uint64_t a, uint64_t b, int more) {
    if constexpr (C::element == AS_MM_TF32)
        as_wgmma_tf32(d, a, b, more);
    else if constexpr (C::element == AS_MM_BF16)
        as_wgmma_bf16(d, a, b, more);
    else if constexpr (C::element == AS_MM_F16)
        as_wgmma_f16(d, a, b, more);
    else if constexpr (C::element == AS_MM_E4M3)
        as_wgmma_e4m3(d, a, b, more);
    else
        as_wgmma_s8(d, a, b, more);
}

/* The compiler must not move reads of the sums before the wait that precedes this. */
template <int N> static __device__ __forceinline__ void as_pin(float (&d)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}
template <int N> static __device__ __forceinline__ void as_pin(int (&d)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+r"(d[i])::"memory");
}

/* Two sums as two elements of C, the first in the low half. */
template <class C> static __device__ __forceinline__ uint32_t as_pack(float low, float high) {
    uint32_t both;
    if constexpr (C::element == AS_MM_F16)
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    else
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

/* Shared addresses of a block. */
struct as_wgmma_memory {
    uint32_t a, b, c, full, empty;
};
template <class C> static __device__ __forceinline__ as_wgmma_memory as_wgmma_layout(uint32_t base) {
    as_wgmma_memory s;
    s.a = (base + 1023u) & ~1023u;
    s.b = s.a + C::stages * C::a_bytes;
    s.c = s.b + C::stages * C::b_bytes;
    s.full = s.c + C::consumers * 2 * C::box_bytes;
    s.empty = s.full + C::stages * 8;
    return s;
}

/* First row and column of this block's tile in cluster number `at` of the walk: down columns of `height` clusters, group
 * after group, so that what runs at one time covers a compact piece of C and shares rows of A and B in L2. */
template <class C>
static __device__ __forceinline__ void as_wgmma_tile(const as_wgmma_args &p, int at, int rank, int *row, int *column) {
    const int first = at / (p.height * p.across) * p.height;
    const int rows = min(p.down - first, p.height), in_group = at - first * p.across;
    *row = ((first + in_group % rows) * C::cluster_m + rank % C::cluster_m) * C::tile_m;
    *column = (in_group / rows * C::cluster_n + rank / C::cluster_m) * C::tile_n;
}

/* The one thread that loads. */
template <class C>
static __device__ __forceinline__ void as_wgmma_produce(const as_wgmma_memory s, const CUtensorMap *map_a,
                                                        const CUtensorMap *map_b, const as_wgmma_args &p, int rank) {
    const int clusters = (int)gridDim.x / C::cluster, rank_m = rank % C::cluster_m, rank_n = rank / C::cluster_m;
    /* This block's share of the tiles that its cluster has in common. */
    constexpr int rows_a = C::tile_m / C::cluster_n, rows_b = C::tile_n / C::cluster_m;
    uint16_t same_row = 0;
#pragma unroll
    for (int i = 0; i < C::cluster_n; i++)
        same_row |= (uint16_t)(1u << (rank_m + i * C::cluster_m));
    const uint16_t same_column = (uint16_t)(((1u << C::cluster_m) - 1) << (rank_n * C::cluster_m));
    int stage = 0;
    uint32_t parity = 1; /* the first pass finds every stage empty */
    for (int at = (int)blockIdx.x / C::cluster; at < p.down * p.across; at += clusters) {
        int row, column;
        as_wgmma_tile<C>(p, at, rank, &row, &column);
        for (int slab = 0; slab < p.slabs; slab++) {
            const uint32_t full = s.full + stage * 8;
            const uint32_t a = s.a + stage * C::a_bytes + rank_n * rows_a * C::slab_bytes;
            const uint32_t b = s.b + stage * C::b_bytes + rank_m * rows_b * C::slab_bytes;
            as_barrier_wait(s.empty + stage * 8, parity);
            as_barrier_expect(full, C::a_bytes + C::b_bytes);
            if constexpr (C::cluster_n == 1)
                as_tensor_load(a, map_a, full, slab * C::slab, row);
            else
                as_tensor_load_multicast(a, map_a, full, slab * C::slab, row + rank_n * rows_a, same_row);
            if constexpr (C::cluster_m == 1)
                as_tensor_load(b, map_b, full, slab * C::slab, column);
            else
                as_tensor_load_multicast(b, map_b, full, slab * C::slab, column + rank_m * rows_b, same_column);
            if (++stage == C::stages) {
                stage = 0;
                parity ^= 1;
            }
        }
    }
}

/* A warpgroup that multiplies and stores. */
template <class C> struct as_wgmma_consumer {
    typedef typename C::sum_t sum_t;
    const as_wgmma_args &p;
    const CUtensorMap *map_c;
    const as_wgmma_memory s;
    const int group, thread; /* 0 or 1; 0 to 127 */
    int stage, used;         /* next to be multiplied; the one in flight */
    uint32_t parity;
    sum_t d[C::blocks_m][C::sums];
    uint32_t packed[C::packed];

    __device__ __forceinline__ as_wgmma_consumer(const as_wgmma_args &args, const CUtensorMap *map,
                                                 const as_wgmma_memory memory)
        : p(args), map_c(map), s(memory), group((int)threadIdx.x / 128 - 1), thread((int)threadIdx.x % 128), stage(0),
          used(0), parity(0) {}

    /* This warpgroup has done with the stage: told to every block whose loads write to it. */
    __device__ __forceinline__ void release(int which) {
        if constexpr (C::cluster == 1) {
            if (thread == 0)
                as_barrier_arrive(s.empty + which * 8);
        } else {
            if (thread < C::cluster)
                as_barrier_arrive_at(s.empty + which * 8, (uint32_t)thread);
        }
    }

    /* Issues the products of one slab. */
    __device__ __forceinline__ void multiply(bool first) {
        as_barrier_wait(s.full + stage * 8, parity);
        const uint64_t a = as_tile_descriptor(s.a + stage * C::a_bytes + group * C::blocks_m * C::box_bytes);
        const uint64_t b = as_tile_descriptor(s.b + stage * C::b_bytes);
        as_wgmma_fence();
#pragma unroll
        for (int step = 0; step < C::slab_bytes / 32; step++)
#pragma unroll
            for (int block = 0; block < C::blocks_m; block++)
                as_wgmma<C>(d[block], a + block * (C::box_bytes / 16) + 2 * step, b + 2 * step, !first || step > 0);
        as_wgmma_commit();
    }
    /* The slab before the newest has been multiplied. */
    __device__ __forceinline__ void advance(bool first) {
        as_wgmma_wait<1>();
        if (!first)
            release(used);
        used = stage;
        if (++stage == C::stages) {
            stage = 0;
            parity ^= 1;
        }
    }
    __device__ __forceinline__ void drain() {
        as_wgmma_wait<0>();
#pragma unroll
        for (int block = 0; block < C::blocks_m; block++)
            as_pin(d[block]);
        release(used);
    }

    __device__ __forceinline__ void pack() {
#pragma unroll
        for (int block = 0; block < C::blocks_m; block++)
#pragma unroll
            for (int i = 0; i < C::sums / 2; i++)
                packed[block * C::sums / 2 + i] = as_pack<C>(d[block][2 * i], d[block][2 * i + 1]);
    }

    /* 64 rows x 128 bytes of the tile at (row, column), from `packed` or `d`. */
    template <int BOX> __device__ __forceinline__ void store_box(int row, int column) {
        constexpr int block = BOX / C::boxes_n, x = BOX % C::boxes_n;
        const uint32_t to = s.c + (group * 2 + BOX % 2) * C::box_bytes;
        const int lane = thread % 32, warp = thread / 32;
        if (thread == 0)
            as_stores_wait_read<1>(); /* the copy out of this buffer, the last but one, has read it */
        as_named_sync(1 + group, 128);
        if constexpr (C::narrow) {
            const int y = warp * 16 + lane % 16;
            const uint32_t *from = packed + block * C::sums / 2 + x * 16;
#pragma unroll
            for (int j = 0; j < 8; j += 2) /* 16 columns */
                asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                                 to + y * 128 + (((j + lane / 16) ^ (y % 8)) << 4)),
                             "r"(from[2 * j]), "r"(from[2 * j + 1]), "r"(from[2 * j + 2]), "r"(from[2 * j + 3])
                             : "memory");
        } else {
#pragma unroll
            for (int j = 0; j < 4; j++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const int y = warp * 16 + lane / 4 + 8 * h;
                    const uint32_t at = to + y * 128 + (((j * 2 + lane % 4 / 2) ^ (y % 8)) << 4) + lane % 2 * 8;
                    const int i = (x * 4 + j) * 4 + 2 * h;
                    if constexpr (C::element == AS_MM_S8)
                        asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(at), "r"(d[block][i]),
                                     "r"(d[block][i + 1])
                                     : "memory");
                    else
                        asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(at), "f"(d[block][i]),
                                     "f"(d[block][i + 1])
                                     : "memory");
                }
        }
        as_fence_async();
        as_named_sync(1 + group, 128);
        if (thread == 0) {
            as_tensor_store(map_c, to, column + x * C::box_columns, row + (group * C::blocks_m + block) * 64);
            as_stores_commit();
        }
    }
    template <int BOX> __device__ __forceinline__ void store_boxes(int row, int column) {
        if constexpr (BOX < C::boxes) {
            store_box<BOX>(row, column);
            store_boxes<BOX + 1>(row, column);
        }
    }

    /* From registers: pairs where rows of C hold whole pairs, else element by element. */
    __device__ __forceinline__ void store_directly(int row, int column) {
        const int lane = thread % 32, warp = thread / 32;
        const bool pairs = p.n % 2 == 0;
#pragma unroll
        for (int block = 0; block < C::blocks_m; block++)
#pragma unroll
            for (int i = 0; i < C::sums; i += 2) {
                const int y = row + (group * C::blocks_m + block) * 64 + warp * 16 + lane / 4 + i / 2 % 2 * 8;
                const int x = column + i / 4 * 8 + lane % 4 * 2;
                if (y < p.m && x < p.n)
                    store_pair(block, i, (int64_t)y * p.n + x, pairs, x + 1 < p.n);
            }
    }
    __device__ __forceinline__ void store_pair(int block, int i, int64_t at, bool pairs, bool second) {
        if constexpr (C::narrow) {
            const uint32_t both = packed[block * C::sums / 2 + i / 2];
            uint16_t *const to = (uint16_t *)p.c + at;
            if (pairs) {
                *(uint32_t *)to = both;
            } else {
                to[0] = (uint16_t)both;
                if (second)
                    to[1] = (uint16_t)(both >> 16);
            }
        } else {
            struct alignas(8) pair {
                sum_t first, second;
            };
            sum_t *const to = (sum_t *)p.c + at;
            if (pairs) {
                *(pair *)to = {d[block][i], d[block][i + 1]};
            } else {
                to[0] = d[block][i];
                if (second)
                    to[1] = d[block][i + 1];
            }
        }
    }
    __device__ __forceinline__ void store(int row, int column) {
        if (p.by_copy_engine)
            store_boxes<0>(row, column);
        else
            store_directly(row, column);
    }

    /* The first slabs of a tile, each with the store of one box of the tile before. */
    template <int BOX> __device__ __forceinline__ void multiply_and_store(bool pending, int row, int column) {
        if constexpr (BOX < C::boxes) {
            multiply(BOX == 0);
            if (pending)
                store_box<BOX>(row, column);
            advance(BOX == 0);
            multiply_and_store<BOX + 1>(pending, row, column);
        }
    }

    __device__ __forceinline__ void run(int rank) {
        const int clusters = (int)gridDim.x / C::cluster;
        const bool defer = C::deferred && p.by_copy_engine && p.slabs >= C::boxes;
        bool pending = false;
        int last_row = 0, last_column = 0;
        for (int at = (int)blockIdx.x / C::cluster; at < p.down * p.across; at += clusters) {
            int row, column, slab = 0;
            as_wgmma_tile<C>(p, at, rank, &row, &column);
            if constexpr (C::deferred)
                if (defer) {
                    multiply_and_store<0>(pending, last_row, last_column);
                    slab = C::boxes;
                }
            for (; slab < p.slabs; slab++) {
                multiply(slab == 0);
                advance(slab == 0);
            }
            drain();
            if constexpr (C::narrow)
                pack();
            if (!defer)
                store(row, column);
            pending = defer;
            last_row = row;
            last_column = column;
        }
        if constexpr (C::deferred)
            if (pending)
                store_boxes<0>(last_row, last_column);
        if (thread == 0)
            as_stores_wait<0>(); /* shared memory must outlive the copies out of it */
    }
};

#endif /* AS_HAVE_WGMMA */

template <class C>
static __global__ void __launch_bounds__(C::threads, 1)
    as_matmul_wgmma_kernel(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                           const __grid_constant__ CUtensorMap map_c, const __grid_constant__ as_wgmma_args p) {
#if AS_HAVE_WGMMA
    extern __shared__ unsigned char shared[];
    const as_wgmma_memory s = as_wgmma_layout<C>(as_shared_address(shared));
    const int rank = C::cluster > 1 ? (int)as_cluster_rank() : 0;
    if (threadIdx.x == 0) {
        for (int i = 0; i < C::stages; i++) {
            as_barrier_init(s.full + i * 8, 1);
            as_barrier_init(s.empty + i * 8, C::consumers * C::cluster);
        }
        as_barrier_init_fence();
        as_tensor_prefetch_map(&map_a);
        as_tensor_prefetch_map(&map_b);
        as_tensor_prefetch_map(&map_c);
    }
    as_cluster_sync(); /* a block without a cluster is a cluster of one */
    if (threadIdx.x < 128) {
        as_registers_shrink<40>();
        if (threadIdx.x == 0)
            as_wgmma_produce<C>(s, &map_a, &map_b, p, rank);
    } else {
        as_registers_grow<232>();
        as_wgmma_consumer<C> consumer(p, &map_c, s);
        consumer.run(rank);
    }
    __syncwarp();
    as_cluster_sync(); /* no block leaves while another may still write to its memory or arrive at its barriers */
#endif
}
