/* The kernel of matmul/warptiled: a block tile in shared memory, a warp tile in it, a thread's tile in registers.
 *
 * For one step of k a thread of 16 x 8 elements does 128 multiply-adds (FFMA) on 24 operands, read in 6 LDS.128. An SM
 * starts one instruction of a warp in each of its four parts in a cycle and FFMA needs every one of those cycles, so
 * what counts is the share of FFMA among all instructions, and cycles that FFMA loses on registers.
 *
 * Shared memory: 2 (16 + 8) / (16 8) = 0.375 bytes a flop, global memory at 128 x 256: 2 (128 + 256) / (128 256) =
 * 3/128 bytes a flop, 1.2 TB/s from L2 at 51 TFLOP/s. For 128 x 256 x 32 on sm_90a, 4096
 * of the 4472 instructions of a slab are FFMA: 92%; with cycles lost on registers 84 to 90%, and 97% of that where the
 * last wave of tiles does not fill the chip (4096: 512 tiles on 132 SMs). Predicted at 4096: 0.82 to 0.87 of the peak,
 * 1.2 to 1.4 x double_buffered. Measured on an H200: 0.79 of the peak for that shape at 8192; 0.80 (4096) and 0.83
 * (8192) for the best, 64 x 128 x 16 with four blocks an SM, 1.12 x double_buffered. The model leaves barriers out;
 * more blocks an SM hide them.
 *
 * Registers. Registers lie in two banks, even and odd, each read once in a cycle; FFMA has three operands. It keeps
 * its rate if one of them is the same as in the instruction before (it stays in the operand cache) and the other two
 * lie in different banks. So the products go in a snake: down the 16 rows with b fixed, then up with the next b; and
 * c[i][j] must lie in the bank that a[i] does not. a comes from LDS.128, which fixes row i to bank i mod 2. The
 * compiler gives c no such bank by itself: a 16-byte store at the end even puts it into the wrong one. Here
 *   - c begins as zeros read from shared memory in pairs (c[i + 1][j], c[i][j]), which gives row i the bank (i + 1)
 *     mod 2;
 *   - the stored value is one * c with one = 1 from the arguments: exact, and in registers of its own.
 * Counted in the code for sm_90a (128 x 256 x 16), were every clash to cost a cycle: 200 cycles for 2048 FFMA, and 548
 * in the order PLAIN, which 128x256x16t16x8s3plain measures. Two banks and a cache of operands: Jia et al., Dissecting
 * the NVIDIA Volta GPU Architecture via Microbenchmarking, 2018; that it is so on later chips is our reading of what
 * the compiler does.
 *
 * Shared memory. A's slab is transposed, k rows of tile_m values, so that a thread reads quads of consecutive rows.
 * Copies of 4 bytes transpose it on the way: 8 lanes take 8 values of k from one row (a whole 32-byte sector), 4 rows
 * a warp. Rows of tile_m + 4 floats spread the 8 x 4 words over all 32 banks. A thread's quads lie lanes_m * 4 rows
 * apart, its columns likewise: the lanes of a warp read one contiguous piece, 16 to 128 bytes, most of it by broadcast.
 *
 * Loop. The inner loop makes two steps of k a pass, 256 FFMA in 273 instructions, 4 KiB. Unrolled over a whole slab it
 * would save the 5 instructions that are neither FFMA nor LDS, but then the compiler mixes the steps, which breaks up
 * the snake. It begins and ends in the middle of a step: the compiler moves a read down to the end of the loop where
 * nothing in the same pass waits for it, and half a step is then left to hide its latency.
 *
 * Pipeline. While slab s is multiplied, slab s + stages - 1 is on its way by cp.async; operands of step k + 1 are read
 * into registers while those of step k are multiplied. One barrier a slab. Before compute capability 8.0 there is no
 * cp.async: the copy is a load and a store, right but exposed to memory latency. */
#pragma once

#include "tile.cuh"

/* FULL: m, n, k are whole tiles and rows of B are aligned to 16 bytes. Else every copy and store is guarded. */
struct as_warptiled_args {
    const float *a, *b;
    float *c;
    int64_t m, n, k;
    int height; /* rows of tiles in a group, see as_tile_in_group */
    float one;
};

/* Copies 4 or 16 bytes from global to shared memory; zeros where !valid (then src is not read). */
template <int FLOATS> static __device__ __forceinline__ void as_copy_async(float *dst, const float *src, bool valid) {
    static_assert(FLOATS == 1 || FLOATS == 4, "4 or 16 bytes");
#if __CUDA_ARCH__ >= 800
    const unsigned to = (unsigned)__cvta_generic_to_shared(dst);
    if (FLOATS == 4)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(src), "r"(valid ? 16 : 0));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(src), "r"(valid ? 4 : 0));
#else
    if (FLOATS == 4)
        *(float4 *)dst = valid ? *(const float4 *)src : make_float4(0, 0, 0, 0);
    else
        *dst = valid ? *src : 0.0f;
#endif
}

static __device__ __forceinline__ void as_copies_commit() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* All but the newest PENDING groups of this thread have arrived. */
template <int PENDING> static __device__ __forceinline__ void as_copies_wait() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}

template <int TILE_M, int TILE_N, int TILE_K, int THREAD_M, int THREAD_N, int LANES_M, int STAGES, int BLOCKS,
          int UNROLL, int ORDER>
struct as_warptiled_config {
    static constexpr int tile_m = TILE_M, tile_n = TILE_N, tile_k = TILE_K, thread_m = THREAD_M, thread_n = THREAD_N,
                         lanes_m = LANES_M, lanes_n = 32 / LANES_M, stages = STAGES, blocks = BLOCKS, unroll = UNROLL,
                         order = ORDER;
    static constexpr int warp_m = thread_m * lanes_m, warp_n = thread_n * lanes_n, warps_n = tile_n / warp_n;
    static constexpr int threads = tile_m / warp_m * warps_n * 32;
    /* Guards take registers: room for them at the price of resident blocks. */
    static constexpr int guarded_blocks = (blocks + 1) / 2;
    static constexpr int pitch_a = tile_m + 4; /* floats; a multiple of 4, so that quads stay aligned */
    static constexpr int stage = tile_k * (pitch_a + tile_n);
    static constexpr int shared_bytes = stages * stage * 4;
    static constexpr int rows_a = threads / 8, rows_b = threads * 4 / tile_n; /* of one pass of all threads */
    static_assert(tile_m % warp_m == 0 && tile_n % warp_n == 0, "whole warps");
    static_assert(thread_m % 4 == 0 && thread_n % 4 == 0, "quads");
    static_assert(tile_k % 8 == 0 && tile_m % rows_a == 0 && tile_k % rows_b == 0, "whole passes of the copies");
    static_assert(threads % tile_n == 0 || tile_n % threads == 0, "whole passes of the guarded copies");
    static_assert(stages >= 2, "a slab is copied while another is read");
};

/* Where this thread copies slabs from, and to. */
template <class C, bool FULL> struct as_slab_copier {
    const float *a, *b;        /* this thread's first element of the next slab */
    unsigned pitch_a, pitch_b; /* 32 bits: one multiply-add makes an address */
    int k_to_copy;             /* of the next slab and all after it */
    int rows, columns;         /* of the tile that lie in the matrices, from this thread's first on */
    int row_b;                 /* of this thread's first element of B in a slab */
    int to_a, to_b;            /* offsets in a stage */

    __device__ __forceinline__ as_slab_copier(const as_warptiled_args &p, int64_t row, int64_t column) {
        const int tid = (int)threadIdx.x;
        a = p.a + (row + tid / 8) * p.k + tid % 8;
        k_to_copy = (int)p.k;
        pitch_a = (unsigned)p.k;
        pitch_b = (unsigned)p.n;
        const int width = FULL ? C::tile_n / 4 : C::tile_n; /* copies in a row of B */
        row_b = tid / width;
        const int x = tid % width * (FULL ? 4 : 1);
        b = p.b + row_b * p.n + column + x;
        rows = (int)(p.m - row < C::tile_m ? p.m - row : C::tile_m) - tid / 8;
        columns = (int)(p.n - column < C::tile_n ? p.n - column : C::tile_n) - x;
        to_a = tid % 8 * C::pitch_a + tid / 8;
        to_b = C::tile_k * C::pitch_a + row_b * C::tile_n + x;
    }

    /* The next slab into `stage`; nothing where no slab is left. */
    __device__ __forceinline__ void copy(float *stage) {
        if (k_to_copy <= 0)
            return;
        const int k_of_thread = k_to_copy - (int)threadIdx.x % 8;
#pragma unroll
        for (int kk = 0; kk < C::tile_k; kk += 8)
#pragma unroll
            for (int r = 0; r < C::tile_m; r += C::rows_a)
                as_copy_async<1>(stage + to_a + kk * C::pitch_a + r, a + kk + (uint64_t)pitch_a * r,
                                 FULL || (r < rows && kk < k_of_thread));
        if constexpr (FULL) {
#pragma unroll
            for (int r = 0; r < C::tile_k; r += C::rows_b)
                as_copy_async<4>(stage + to_b + r * C::tile_n, b + (uint64_t)pitch_b * r, true);
        } else {
            /* Threads take whole rows or equal parts of one. */
#pragma unroll
            for (int i = 0; i < C::tile_k * C::tile_n; i += C::threads) {
                const int r = i / C::tile_n, x = i % C::tile_n;
                as_copy_async<1>(stage + to_b + i, b + (uint64_t)pitch_b * r + x, r < k_to_copy - row_b && x < columns);
            }
        }
        a += C::tile_k;
        b += (uint64_t)pitch_b * C::tile_k;
        k_to_copy -= C::tile_k;
    }
};

/* c begins as zeros. PAIRED: by way of shared memory, in register pairs; see above. */
template <class C>
static __device__ __forceinline__ void as_clear(float (&c)[C::thread_m][C::thread_n], float *shared) {
    if constexpr (C::order == AS_WARPTILED_PLAIN) {
#pragma unroll
        for (int i = 0; i < C::thread_m; i++)
#pragma unroll
            for (int j = 0; j < C::thread_n; j++)
                c[i][j] = 0.0f;
    } else {
        if (threadIdx.x == 0)
            shared[0] = shared[1] = 0.0f;
        __syncthreads();
        const unsigned at = (unsigned)__cvta_generic_to_shared(shared);
#pragma unroll
        for (int i = 0; i < C::thread_m; i += 2)
#pragma unroll
            for (int j = 0; j < C::thread_n; j++)
                asm volatile("ld.volatile.shared.v2.f32 {%0, %1}, [%2];" : "=f"(c[i + 1][j]), "=f"(c[i][j]) : "r"(at));
        __syncthreads(); /* the first copies overwrite the zeros */
    }
}

/* c += a b^T for one step of k, columns [FROM, TO), in a snake: neighbours in time share an operand. */
template <class C, int FROM, int TO>
static __device__ __forceinline__ void as_multiply(float (&c)[C::thread_m][C::thread_n], const float *a,
                                                   const float *b) {
#pragma unroll
    for (int j = FROM; j < TO; j++)
#pragma unroll
        for (int x = 0; x < C::thread_m; x++) {
            const int i = C::order == AS_WARPTILED_PAIRED && j % 2 ? C::thread_m - 1 - x : x;
            c[i][j] += a[i] * b[j];
        }
}

/* `a` and `b`: this thread's first row and column in one row of a stage. */
template <class C>
static __device__ __forceinline__ void as_read_operands(float *to_a, float *to_b, const float *a, const float *b) {
#pragma unroll
    for (int q = 0; q < C::thread_m; q += 4)
        *(float4 *)(to_a + q) = *(const float4 *)(a + q * C::lanes_m);
#pragma unroll
    for (int q = 0; q < C::thread_n; q += 4)
        *(float4 *)(to_b + q) = *(const float4 *)(b + q * C::lanes_n);
}

/* row, column: of this thread's first element in C. */
template <class C, bool FULL>
static __device__ __forceinline__ void as_store(const float (&c)[C::thread_m][C::thread_n], const as_warptiled_args &p,
                                                int64_t row, int64_t column) {
    const float one = C::order == AS_WARPTILED_PAIRED ? p.one : 1.0f;
#pragma unroll
    for (int i = 0; i < C::thread_m; i++) {
        const int64_t y = row + i / 4 * 4 * C::lanes_m + i % 4;
#pragma unroll
        for (int q = 0; q < C::thread_n; q += 4) {
            const int64_t x = column + q * C::lanes_n;
            if constexpr (FULL) {
                *(float4 *)(p.c + y * p.n + x) =
                    make_float4(one * c[i][q], one * c[i][q + 1], one * c[i][q + 2], one * c[i][q + 3]);
            } else {
#pragma unroll
                for (int j = 0; j < 4; j++)
                    if (y < p.m && x + j < p.n)
                        p.c[y * p.n + x + j] = one * c[i][q + j];
            }
        }
    }
}

template <class C, bool FULL>
static __global__ void __launch_bounds__(C::threads, FULL ? C::blocks : C::guarded_blocks)
    as_matmul_warptiled_kernel(const as_warptiled_args p) {
    extern __shared__ float4 shared4[];
    float *shared = (float *)shared4;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const as_tile t = as_tile_in_group(p.m, p.n, C::tile_m, C::tile_n, p.height);
    const int row = warp / C::warps_n * C::warp_m + lane / C::lanes_n * 4;
    const int column = warp % C::warps_n * C::warp_n + lane % C::lanes_n * 4;
    float c[C::thread_m][C::thread_n], a[2][C::thread_m], b[2][C::thread_n];
    as_clear<C>(c, shared);

    as_slab_copier<C, FULL> copier(p, t.row, t.column);
#pragma unroll
    for (int s = 0; s < C::stages - 1; s++) {
        copier.copy(shared + s * C::stage);
        as_copies_commit();
    }
    as_copies_wait<C::stages - 2>();
    __syncthreads();
    as_read_operands<C>(a[0], b[0], shared + row, shared + C::tile_k * C::pitch_a + column);

    constexpr int half = C::thread_n / 2;
    int reading = 0, writing = C::stages - 1; /* stages */
#pragma unroll 1
    for (int left = (int)p.k; left > 0; left -= C::tile_k) {
        const float *next_a = shared + reading * C::stage + C::pitch_a + row;
        const float *next_b = shared + reading * C::stage + C::tile_k * C::pitch_a + C::tile_n + column;
        copier.copy(shared + writing * C::stage);
        as_copies_commit(); /* an empty group at the end keeps the count */
        writing = writing + 1 == C::stages ? 0 : writing + 1;
        reading = reading + 1 == C::stages ? 0 : reading + 1;
        as_read_operands<C>(a[1], b[1], next_a, next_b);
        as_multiply<C, 0, half>(c, a[0], b[0]);
#pragma unroll C::unroll
        for (int kk = 0; kk < C::tile_k - 2; kk += 2) {
            as_multiply<C, half, C::thread_n>(c, a[0], b[0]);
            as_read_operands<C>(a[0], b[0], next_a + C::pitch_a, next_b + C::tile_n);
            as_multiply<C, 0, C::thread_n>(c, a[1], b[1]);
            next_a += 2 * C::pitch_a;
            next_b += 2 * C::tile_n;
            as_read_operands<C>(a[1], b[1], next_a, next_b);
            as_multiply<C, 0, half>(c, a[0], b[0]);
        }
        as_multiply<C, half, C::thread_n>(c, a[0], b[0]);
        /* The next slab has arrived for all threads, and all have read the last operands of this one: its stage is
         * free for the copy that follows the barrier. After the last slab what is read below is stale and unused. */
        as_copies_wait<C::stages - 2>();
        __syncthreads();
        as_read_operands<C>(a[0], b[0], shared + reading * C::stage + row,
                            shared + reading * C::stage + C::tile_k * C::pitch_a + column);
        as_multiply<C, 0, C::thread_n>(c, a[1], b[1]);
    }
    as_store<C, FULL>(c, p, t.row + row, t.column + column);
}
