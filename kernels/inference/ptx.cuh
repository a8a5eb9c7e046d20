/* What the decoder's kernels need beyond CUDA C, as thin functions over PTX (PTX ISA 8.x): streaming loads, prefetch to
 * L2, dependent launches, ordered counters, the clock of the whole GPU. Where an architecture lacks one, it does
 * nothing or the plain equivalent; the tensor cores of a warp stand in ../tensor/mma.cuh. */
#pragma once

#include "../tensor/mma.cuh"

#include <cuda_runtime.h>
#include <stdint.h>

/* 16 bytes that nobody will read again: not kept in L1. Only of memory that no kernel in flight writes. */
static __device__ __forceinline__ uint4 as_load_once(const void *p) {
    uint4 v;
    asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
        : "l"(p));
    return v;
}

/* The same of memory that this kernel or the one before it may have written. */
static __device__ __forceinline__ uint4 as_load_fresh(const void *p) {
    uint4 v;
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}

/* Asks for `bytes` (a multiple of 16, 16-byte aligned) to be brought to L2. One thread is enough. */
static __device__ __forceinline__ void as_prefetch_l2(const void *p, unsigned bytes) {
#if __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(p), "r"(bytes) : "memory");
#else
    (void)p, (void)bytes;
#endif
}

/* Everything that the kernels before this one in the stream wrote is visible from here on. */
static __device__ __forceinline__ void as_wait_for_predecessor() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
/* The next kernel may be started as soon as all blocks have said so. */
static __device__ __forceinline__ void as_let_successor_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* Adds to a counter of the GPU and returns its old value: what this thread, and before a barrier its block, wrote
 * before is visible to whoever finds the addition done and, after a barrier, to that one's block. */
static __device__ __forceinline__ unsigned as_counter_add(unsigned *counter, unsigned amount) {
    __threadfence();
    const unsigned before = atomicAdd(counter, amount);
    __threadfence();
    return before;
}
/* Waits until the counter has reached `target`. */
static __device__ __forceinline__ void as_counter_wait(const unsigned *counter, unsigned target) {
    while (*(const volatile unsigned *)counter < target)
        ;
    __threadfence();
}

/* Nanoseconds on one clock for all multiprocessors; coarse (up to a microsecond a tick). */
static __device__ __forceinline__ uint64_t as_global_ns() {
    uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)::"memory");
    return ns;
}

/* 2^x, relative error 2^-22. */
static __device__ __forceinline__ float as_exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Two floats as bf16, `low` in the low half. */
static __device__ __forceinline__ uint32_t as_pack_bf16(float low, float high) {
#if __CUDA_ARCH__ >= 800
    uint32_t both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
#else
    return as_bf16_round(as_f32_bits(low)) | as_bf16_round(as_f32_bits(high)) << 16;
#endif
}

/* f16, widened exactly, and rounded to nearest even. */
static __device__ __forceinline__ float as_widen_f16(uint16_t bits) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}
static __device__ __forceinline__ uint16_t as_narrow_f16(float x) {
    uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}

#if __CUDA_ARCH__ >= 800
/* As as_ldmatrix4, each 8 x 8 matrix of 16-bit elements transposed. */
static __device__ __forceinline__ void as_ldmatrix4_transposed(uint32_t (&r)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}
static __device__ __forceinline__ void as_copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/* All but the newest PENDING groups of this thread's copies have arrived. */
template <int PENDING> static __device__ __forceinline__ void as_copies_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}
#endif

static __device__ __forceinline__ uint32_t as_shared_offset(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* The block's dynamic shared memory. */
static __device__ __forceinline__ unsigned char *as_shared() {
    extern __shared__ __align__(128) unsigned char as_dynamic_shared[];
    return as_dynamic_shared;
}
