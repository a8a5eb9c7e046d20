/* Synthetic work on a CUDA device; synthetic.h states operands, amounts and the injection.
 *
 *   spin      one thread, one chain: the latency of a multiply-add at the SM clock. An empty asm statement a step keeps
 *             the compiler from joining steps.
 *   spin_all  AS_SYNTHETIC_CHAINS threads, a chain each: the integer pipes of all multiprocessors.
 *   stream    a block for each piece read: four independent 16-byte loads a thread around L1, then a sum over the
 *             block. Blocks start in order, so that the words are passed over as the pieces say. */
#include "synthetic.h"

#include "../cuda/check.h"
#include "../cuda/internal.h"

#include <limits.h>
#include <stdlib.h>

enum { CHAIN_THREADS = 128, READ_THREADS = 256 };
enum { READ_IN_FLIGHT = AS_SYNTHETIC_PIECE_BYTES / 16 / READ_THREADS };

/* The factors are arguments, so that no step is folded. */
static __global__ void __launch_bounds__(CHAIN_THREADS)
    as_synthetic_chain_kernel(const uint32_t *start, uint32_t a, uint32_t c, int64_t steps, uint32_t *end) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t x = *start + i;
#pragma unroll 8
    for (int64_t k = 0; k < steps; k++) {
        x = x * a + c;
        asm volatile("" : "+r"(x));
    }
    end[i] = x;
}

static as_status chains_prepare(const as_call *call, int64_t steps_of_us, void **state, as_error *e) {
    int64_t nominal, *steps = (int64_t *)malloc(sizeof *steps);
    if (!steps)
        return as_fail(e, AS_ENOMEM, "no memory for the state of a synthetic case");
    const as_status s = as_synthetic_steps(call->params, steps_of_us, &nominal, steps, e);
    if (s == AS_OK)
        *state = steps;
    else
        free(steps);
    return s;
}

static as_status chains(const as_call *call, unsigned blocks, unsigned threads, as_error *e) {
    as_synthetic_chain_kernel<<<blocks, threads, 0, as_cuda_stream(call->stream)>>>(
        (const uint32_t *)call->operand[0], AS_SYNTHETIC_A, AS_SYNTHETIC_C, *(const int64_t *)call->state,
        (uint32_t *)call->operand[1]);
    AS_CUDA_LAUNCHED(e);
    return AS_OK;
}

as_status as_synthetic_spin_prepare_cuda(const as_call *call, void **state, as_error *e) {
    return chains_prepare(call, AS_SYNTHETIC_CUDA_STEPS, state, e);
}
as_status as_synthetic_spin_cuda(const as_call *call, as_error *e) { return chains(call, 1, 1, e); }
void as_synthetic_spin_finish_cuda(void *state) { free(state); }

as_status as_synthetic_spin_all_prepare_cuda(const as_call *call, void **state, as_error *e) {
    return chains_prepare(call, AS_SYNTHETIC_CUDA_ALL_STEPS, state, e);
}
as_status as_synthetic_spin_all_cuda(const as_call *call, as_error *e) {
    static_assert(AS_SYNTHETIC_CHAINS % CHAIN_THREADS == 0, "every chain has a thread");
    return chains(call, AS_SYNTHETIC_CHAINS / CHAIN_THREADS, CHAIN_THREADS, e);
}
void as_synthetic_spin_all_finish_cuda(void *state) { free(state); }

static __device__ __forceinline__ uint4 load_around_l1(const uint4 *p) {
    uint4 v;
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    return v;
}

static __global__ void __launch_bounds__(READ_THREADS)
    as_synthetic_stream_kernel(const uint4 *__restrict__ words, as_synthetic_pieces pieces, uint32_t *sums) {
    __shared__ uint32_t warp_sum[READ_THREADS / 32];
    const uint4 *from = words + as_synthetic_piece(pieces, blockIdx.x) * (AS_SYNTHETIC_PIECE_BYTES / 16) + threadIdx.x;
    uint4 v[READ_IN_FLIGHT];
#pragma unroll
    for (int j = 0; j < READ_IN_FLIGHT; j++)
        v[j] = load_around_l1(from + j * READ_THREADS);
    uint32_t sum = 0;
#pragma unroll
    for (int j = 0; j < READ_IN_FLIGHT; j++)
        sum += v[j].x + v[j].y + v[j].z + v[j].w;
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_down_sync(0xFFFFFFFFu, sum, step);
    if (threadIdx.x % 32 == 0)
        warp_sum[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < READ_THREADS / 32; warp++)
            sum += warp_sum[warp];
        sums[blockIdx.x] = sum;
    }
}

as_status as_synthetic_stream_prepare_cuda(const as_call *call, void **state, as_error *e) {
    as_synthetic_pieces pieces;
    AS_TRY(as_synthetic_pieces_of(call->params, &pieces, e));
    if (pieces.reads > INT_MAX)
        return as_fail(e, AS_EUSAGE, "synthetic/stream: more than 2^31 pieces; use fewer bytes");
    as_synthetic_pieces *s = (as_synthetic_pieces *)malloc(sizeof *s);
    if (!s)
        return as_fail(e, AS_ENOMEM, "no memory for the state of a synthetic case");
    *s = pieces;
    *state = s;
    return AS_OK;
}
void as_synthetic_stream_finish_cuda(void *state) { free(state); }

as_status as_synthetic_stream_cuda(const as_call *call, as_error *e) {
    static_assert(AS_SYNTHETIC_PIECE_BYTES == READ_IN_FLIGHT * READ_THREADS * 16, "a block reads one piece");
    const as_synthetic_pieces pieces = *(const as_synthetic_pieces *)call->state;
    as_synthetic_stream_kernel<<<(unsigned)pieces.reads, READ_THREADS, 0, as_cuda_stream(call->stream)>>>(
        (const uint4 *)call->operand[0], pieces, (uint32_t *)call->operand[1]);
    AS_CUDA_LAUNCHED(e);
    return AS_OK;
}
