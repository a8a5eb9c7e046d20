/* Copies of n bytes with a CUDA device.
 *
 *   sync    cudaMemcpy, complete on return; host clock. Small copies show the call's latency, large ones the link.
 *           Pageable memory goes through the driver's pinned staging buffers: predicted well under half of pinned.
 *   async   cudaMemcpyAsync on a stream, device clock: the copy engine without the call's latency.
 *           node:far puts the host side on the farthest NUMA node, page-locked there.
 *   kernel  a copy by the multiprocessors: 16-byte loads, four in flight for each thread. Inside the device predicted
 *           as fast as async for large sizes, faster for small ones in a graph. Over the link it reads or writes mapped
 *           host memory in place, in requests smaller than the copy engine's: predicted 5 to 10% slower.
 *
 * Bytes: over the link n ("copied once"); inside device memory n read and n written, 2 n. No flops. */
#include "memcpy.h"

#include "../cuda/check.h"
#include "../cuda/internal.h"
#include "copy.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>

enum { COPY_THREADS = 256, COPY_IN_FLIGHT = 4 };

static cudaMemcpyKind kind_of(as_memcpy_dir dir) {
    switch (dir) {
    case AS_H2D: return cudaMemcpyHostToDevice;
    case AS_D2H: return cudaMemcpyDeviceToHost;
    case AS_D2D: return cudaMemcpyDeviceToDevice;
    default: return cudaMemcpyDefault;
    }
}

as_status as_memcpy_sync_cuda(const as_call *call, as_error *e) {
    const as_memcpy_dir dir = as_memcpy_dir_of(call->params);
    AS_CUDA(e,
            cudaMemcpy(call->operand[1], call->operand[0], (size_t)as_params_int(call->params, "bytes"), kind_of(dir)));
    /* cudaMemcpy may return early between device buffers, and from pageable memory once the bytes are staged. */
    if (dir != AS_D2H)
        AS_CUDA(e, cudaStreamSynchronize(cudaStreamLegacy));
    return AS_OK;
}

/* Pages of the host side that were moved to another node and locked there; undone in the end. */
typedef struct far_side {
    void *pages;
} far_side;

as_status as_memcpy_async_prepare_cuda(const as_call *call, void **state, as_error *e) {
    *state = NULL;
    if (strcmp(as_params_text(call->params, "node"), "far") != 0)
        return AS_OK;
    const size_t bytes = (size_t)as_params_int(call->params, "bytes");
    void *host = call->operand[as_memcpy_dir_of(call->params) == AS_H2D ? 0 : 1];
    AS_TRY(as_memcpy_move_far(host, bytes, call->place, e));
    far_side *s = (far_side *)calloc(1, sizeof *s);
    if (!s)
        return as_fail(e, AS_ENOMEM, "no memory for the state of memcpy/async");
    const cudaError_t code = cudaHostRegister(host, bytes, cudaHostRegisterDefault);
    if (code != cudaSuccess) {
        free(s);
        return as_cuda_fail_at(e, __FILE__, __LINE__, code, "cudaHostRegister");
    }
    s->pages = host;
    *state = s;
    return AS_OK;
}

void as_memcpy_async_finish_cuda(void *state) {
    far_side *s = (far_side *)state;
    if (s)
        (void)cudaHostUnregister(s->pages);
    free(s);
}

as_status as_memcpy_async_cuda(const as_call *call, as_error *e) {
    AS_CUDA(e, cudaMemcpyAsync(call->operand[1], call->operand[0], (size_t)as_params_int(call->params, "bytes"),
                               kind_of(as_memcpy_dir_of(call->params)), as_cuda_stream(call->stream)));
    return AS_OK;
}

/* Copies `words` words of type T; block 0 also copies the head and tail bytes that fill no word (under sizeof(T)
 * each). Every block moves COPY_IN_FLIGHT * COPY_THREADS neighbouring words. Whole blocks take a path without guards:
 * there the compiler issues all loads before the first store, which the guarded one does not. */
template <typename T>
static __global__ void __launch_bounds__(COPY_THREADS)
    as_memcpy_kernel(const unsigned char *__restrict__ src, unsigned char *__restrict__ dst, uint64_t bytes,
                     uint64_t head, uint64_t words) {
    const uint64_t begin = (uint64_t)blockIdx.x * (COPY_THREADS * COPY_IN_FLIGHT), first = begin + threadIdx.x;
    const T *from = (const T *)(src + head) + first;
    T *to = (T *)(dst + head) + first;
    if (begin + COPY_THREADS * COPY_IN_FLIGHT <= words) {
        T word[COPY_IN_FLIGHT];
#pragma unroll
        for (int j = 0; j < COPY_IN_FLIGHT; j++)
            word[j] = from[j * COPY_THREADS];
#pragma unroll
        for (int j = 0; j < COPY_IN_FLIGHT; j++)
            to[j * COPY_THREADS] = word[j];
    } else {
        for (uint64_t i = first; i < words; i += COPY_THREADS, from += COPY_THREADS, to += COPY_THREADS)
            *to = *from;
    }
    if (blockIdx.x == 0) {
        const uint64_t tail = head + words * sizeof(T);
        if (threadIdx.x < head)
            dst[threadIdx.x] = src[threadIdx.x];
        if (tail + threadIdx.x < bytes)
            dst[tail + threadIdx.x] = src[tail + threadIdx.x];
    }
}

template <typename T>
static as_status launch(unsigned char *dst, const unsigned char *src, uint64_t bytes, cudaStream_t stream,
                        as_error *e) {
    const uint64_t to_boundary = (sizeof(T) - (uintptr_t)dst % sizeof(T)) % sizeof(T);
    const uint64_t head = to_boundary < bytes ? to_boundary : bytes;
    const uint64_t words = (bytes - head) / sizeof(T);
    const uint64_t per_block = COPY_THREADS * COPY_IN_FLIGHT;
    const uint64_t blocks = words ? (words + per_block - 1) / per_block : 1;
    if (blocks > INT_MAX)
        return as_fail(e, AS_EUSAGE, "a copy of %llu bytes at this alignment needs over 2^31 blocks; use fewer bytes",
                       (unsigned long long)bytes);
    as_memcpy_kernel<T><<<(unsigned)blocks, COPY_THREADS, 0, stream>>>(src, dst, bytes, head, words);
    AS_CUDA_LAUNCHED(e);
    return AS_OK;
}

/* The widest word to which source and destination are misaligned alike: both are aligned after the same head. */
as_status as_memcpy_launch_copy(void *dst, const void *src, uint64_t bytes, cudaStream_t stream, as_error *e) {
    const uintptr_t apart = (uintptr_t)src ^ (uintptr_t)dst;
    unsigned char *to = (unsigned char *)dst;
    const unsigned char *from = (const unsigned char *)src;
    if (bytes == 0)
        return AS_OK;
    if (apart % 16 == 0)
        return launch<uint4>(to, from, bytes, stream, e);
    if (apart % 8 == 0)
        return launch<uint2>(to, from, bytes, stream, e);
    if (apart % 4 == 0)
        return launch<uint32_t>(to, from, bytes, stream, e);
    if (apart % 2 == 0)
        return launch<uint16_t>(to, from, bytes, stream, e);
    return launch<uint8_t>(to, from, bytes, stream, e);
}

as_status as_memcpy_kernel_cuda(const as_call *call, as_error *e) {
    return as_memcpy_launch_copy(call->operand[1], call->operand[0], (uint64_t)as_params_int(call->params, "bytes"),
                                 as_cuda_stream(call->stream), e);
}

/* Even warps copy there, odd warps back, each the same share of the words: both directions are under way from the first
 * block to the last. */
static __global__ void __launch_bounds__(COPY_THREADS)
    as_memcpy_both_kernel(const uint4 *__restrict__ src, uint4 *__restrict__ dst, const uint4 *__restrict__ back_src,
                          uint4 *__restrict__ back_dst, uint64_t words) {
    enum { LANES = COPY_THREADS / 2, SHARE = LANES * COPY_IN_FLIGHT };
    const unsigned warp = threadIdx.x / 32, lane = warp / 2 * 32 + threadIdx.x % 32;
    const uint4 *from = warp % 2 ? back_src : src;
    uint4 *to = warp % 2 ? back_dst : dst;
    const uint64_t begin = (uint64_t)blockIdx.x * SHARE;
    if (begin + SHARE <= words) {
        uint4 word[COPY_IN_FLIGHT];
#pragma unroll
        for (int j = 0; j < COPY_IN_FLIGHT; j++)
            word[j] = from[begin + lane + j * LANES];
#pragma unroll
        for (int j = 0; j < COPY_IN_FLIGHT; j++)
            to[begin + lane + j * LANES] = word[j];
    } else {
        for (uint64_t i = begin + lane; i < words; i += LANES)
            to[i] = from[i];
    }
}

as_status as_memcpy_launch_both(void *dst, const void *src, void *back_dst, const void *back_src, uint64_t bytes,
                                cudaStream_t stream, as_error *e) {
    const uint64_t words = bytes / 16, share = COPY_THREADS / 2 * COPY_IN_FLIGHT, blocks = (words + share - 1) / share;
    if (blocks == 0)
        return AS_OK;
    as_memcpy_both_kernel<<<(unsigned)blocks, COPY_THREADS, 0, stream>>>(
        (const uint4 *)src, (uint4 *)dst, (const uint4 *)back_src, (uint4 *)back_dst, words);
    AS_CUDA_LAUNCHED(e);
    return AS_OK;
}
