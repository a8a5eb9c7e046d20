/* Elements of the two types of weights, and sums over warps and blocks. */
#pragma once

#include "ptx.cuh"

struct as_bf16 {
    uint16_t bits;
};

/* 16 bytes hold VECTOR elements. */
template <typename T> struct as_number;
template <> struct as_number<float> {
    static constexpr int vector = 4;
    static __device__ __forceinline__ float load(const float *p) { return *p; }
    static __device__ __forceinline__ void store(float *p, float x) { *p = x; }
    static __device__ __forceinline__ void unpack(const uint4 &v, float (&x)[4]) {
        x[0] = __uint_as_float(v.x), x[1] = __uint_as_float(v.y);
        x[2] = __uint_as_float(v.z), x[3] = __uint_as_float(v.w);
    }
    static __device__ __forceinline__ uint4 pack(const float (&x)[4]) {
        return make_uint4(__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]), __float_as_uint(x[3]));
    }
};
template <> struct as_number<as_bf16> {
    static constexpr int vector = 8;
    static __device__ __forceinline__ float load(const as_bf16 *p) { return as_bf16_to_f32(p->bits); }
    static __device__ __forceinline__ void store(as_bf16 *p, float x) { p->bits = (uint16_t)as_pack_bf16(x, 0); }
    static __device__ __forceinline__ void unpack(const uint4 &v, float (&x)[8]) {
        const uint32_t word[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            x[2 * i] = __uint_as_float(word[i] << 16);
            x[2 * i + 1] = __uint_as_float(word[i] & 0xFFFF0000u);
        }
    }
    static __device__ __forceinline__ uint4 pack(const float (&x)[8]) {
        return make_uint4(as_pack_bf16(x[0], x[1]), as_pack_bf16(x[2], x[3]), as_pack_bf16(x[4], x[5]),
                          as_pack_bf16(x[6], x[7]));
    }
};

static __device__ __forceinline__ float as_warp_sum(float x) {
#pragma unroll
    for (int mask = 16; mask; mask /= 2)
        x += __shfl_xor_sync(~0u, x, mask);
    return x;
}

static __device__ __forceinline__ float as_warp_max(float x) {
#pragma unroll
    for (int mask = 16; mask; mask /= 2)
        x = fmaxf(x, __shfl_xor_sync(~0u, x, mask));
    return x;
}

/* Sum over all threads, for every thread; `scratch` holds 33 floats of shared memory. Starts and ends in a barrier. */
static __device__ __forceinline__ float as_block_sum(float x, float *scratch) {
    const int warps = (int)blockDim.x / 32, warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    x = as_warp_sum(x);
    __syncthreads();
    if (lane == 0)
        scratch[warp] = x;
    __syncthreads();
    if (warp == 0) {
        const float all = as_warp_sum(lane < warps ? scratch[lane] : 0);
        if (lane == 0)
            scratch[32] = all;
    }
    __syncthreads();
    return scratch[32];
}

static __device__ __forceinline__ float as_silu(float x) { return x / (1 + as_exp2(-1.44269504f * x)); }

/* Rotates the pair by position * 2 pi turns; turns are reduced in double, so that long contexts lose no digits. */
static __device__ __forceinline__ void as_rotate(float &first, float &second, double turns, int position) {
    const double angle = turns * position;
    float sine, cosine;
    sincospif((float)(2 * (angle - floor(angle))), &sine, &cosine);
    const float a = first, b = second;
    first = a * cosine - b * sine;
    second = b * cosine + a * sine;
}
