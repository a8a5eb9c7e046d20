/* Copies of n bytes with a CUDA device.
 *
 *   sync    cudaMemcpy, complete on return; host clock. Small copies show the call's latency, large ones the link.
 *           Pageable memory goes through the driver's pinned staging buffers: predicted well under half of pinned.
 *   async   cudaMemcpyAsync on a stream, device clock: the copy engine without the call's latency.
 *   kernel  a copy by the multiprocessors, device to device: 16-byte loads, four in flight for each thread.
 *           Predicted as fast as async for large sizes, faster for small ones in a graph.
 *
 * Bytes: over the link n ("copied once"); inside device memory n read and n written, 2 n. No flops. */
#include "memcpy.h"

#include "../cuda/check.h"
#include "../cuda/internal.h"

#include <limits.h>
#include <stdint.h>

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

template <typename T> static as_status copy(const as_call *call, uint64_t bytes, as_error *e) {
    const unsigned char *src = (const unsigned char *)call->operand[0];
    unsigned char *dst = (unsigned char *)call->operand[1];
    const uint64_t to_boundary = (sizeof(T) - (uintptr_t)dst % sizeof(T)) % sizeof(T);
    const uint64_t head = to_boundary < bytes ? to_boundary : bytes;
    const uint64_t words = (bytes - head) / sizeof(T);
    const uint64_t per_block = COPY_THREADS * COPY_IN_FLIGHT;
    const uint64_t blocks = words ? (words + per_block - 1) / per_block : 1;
    if (blocks > INT_MAX)
        return as_fail(e, AS_EUSAGE, "a copy of %llu bytes at this alignment needs over 2^31 blocks; use fewer bytes",
                       (unsigned long long)bytes);
    as_memcpy_kernel<T>
        <<<(unsigned)blocks, COPY_THREADS, 0, as_cuda_stream(call->stream)>>>(src, dst, bytes, head, words);
    AS_CUDA_LAUNCHED(e);
    return AS_OK;
}

/* The widest word to which source and destination are misaligned alike: both are aligned after the same head. */
as_status as_memcpy_kernel_cuda(const as_call *call, as_error *e) {
    const uint64_t bytes = (uint64_t)as_params_int(call->params, "bytes");
    const uintptr_t apart = (uintptr_t)call->operand[0] ^ (uintptr_t)call->operand[1];
    if (bytes == 0)
        return AS_OK;
    if (apart % 16 == 0)
        return copy<uint4>(call, bytes, e);
    if (apart % 8 == 0)
        return copy<uint2>(call, bytes, e);
    if (apart % 4 == 0)
        return copy<uint32_t>(call, bytes, e);
    if (apart % 2 == 0)
        return copy<uint16_t>(call, bytes, e);
    return copy<uint8_t>(call, bytes, e);
}
