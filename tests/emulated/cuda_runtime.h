/* Enough of CUDA C and its runtime to run kernels on the host, slowly: a block's threads are fibers on one thread of the
 * machine, blocks run one after another, "device memory" is the host's. For tests of index arithmetic where there is no
 * GPU; found before the toolkit's header of this name. Copies that are asynchronous on a GPU are done at once, so a
 * missing wait is not seen. */
#pragma once

#include <math.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <vector>

/* ---- words of the language ---- */

#define __CUDA_ARCH__ 900
#define __device__
#define __global__
#define __host__
#define __shared__ /* dynamic: one array. A test defines it as `static` before kernels that declare arrays. */
#define __forceinline__ inline
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned width = 1, unsigned height = 1, unsigned depth = 1) : x(width), y(height), z(depth) {}
};
struct int2 {
    int x, y;
};
struct float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};
static inline int2 make_int2(int x, int y) { return {x, y}; }
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }
static inline uint32_t __float_as_uint(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline float __uint_as_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint3 threadIdx, blockIdx, blockDim;
alignas(1024) unsigned char as_dynamic_shared[224 << 10];
static inline size_t __cvta_generic_to_shared(const void *p) {
    return (size_t)((unsigned char *)p - as_dynamic_shared);
}

/* Of headers that come along, in functions that nobody calls here. */
static inline void __threadfence() {}
static inline unsigned atomicAdd(unsigned *to, unsigned amount) { return *to += amount, *to - amount; }
static inline void sincospif(float, float *, float *) { abort(); }

/* ---- a block of fibers ---- */

struct as_fiber {
    ucontext_t context; /* of its beginning; then jumps, which are no system calls */
    jmp_buf jump;
    std::vector<char> stack;
    bool begun, done;
};
struct as_meeting {
    int arrived;
    unsigned generation;
};
static jmp_buf as_scheduler;
static std::vector<as_fiber> as_fibers;
static as_meeting as_block_meeting, as_warp_meeting[32];
static void (*as_body)(void *);
static void *as_body_context;

static inline void as_yield() {
    if (_setjmp(as_fibers[threadIdx.x].jump) == 0)
        _longjmp(as_scheduler, 1);
}
/* All of `size` threads. */
static inline void as_meet(as_meeting *m, int size) {
    const unsigned generation = m->generation;
    if (++m->arrived == size) {
        m->arrived = 0;
        m->generation++;
    }
    while (m->generation == generation)
        as_yield();
}
static inline void __syncthreads() { as_meet(&as_block_meeting, (int)blockDim.x); }
static inline void as_meet_warp() { as_meet(&as_warp_meeting[threadIdx.x / 32], 32); }

/* Of all lanes. */
static inline float __shfl_xor_sync(unsigned, float x, int mask) {
    static float lane[1024];
    lane[threadIdx.x] = x;
    as_meet_warp();
    const float got = lane[threadIdx.x ^ (unsigned)mask];
    as_meet_warp();
    return got;
}

static inline void as_fiber_main() {
    as_body(as_body_context);
    as_fibers[threadIdx.x].done = true;
    as_yield();
}

/* Until it yields. */
static inline void as_resume(as_fiber *f) {
    if (_setjmp(as_scheduler) != 0)
        return;
    if (f->begun)
        _longjmp(f->jump, 1);
    f->begun = true;
    setcontext(&f->context);
}

static inline void as_run_block(unsigned threads) {
    if (as_fibers.size() < threads)
        as_fibers.resize(threads);
    for (unsigned t = 0; t < threads; t++) {
        as_fiber *f = &as_fibers[t];
        f->stack.resize(64 << 10);
        f->begun = f->done = false;
        getcontext(&f->context);
        f->context.uc_stack.ss_sp = f->stack.data();
        f->context.uc_stack.ss_size = f->stack.size();
        f->context.uc_link = NULL;
        makecontext(&f->context, as_fiber_main, 0);
    }
    for (unsigned left = threads; left > 0;)
        for (unsigned t = 0; t < threads; t++) {
            if (as_fibers[t].done)
                continue;
            threadIdx = {t, 0, 0};
            as_resume(&as_fibers[t]);
            left -= as_fibers[t].done;
        }
}

/* ---- the runtime ---- */

typedef int cudaError_t;
enum { cudaSuccess = 0, cudaErrorNotSupported = 801, cudaErrorMemoryAllocation = 2 };
typedef struct as_no_stream *cudaStream_t;
typedef struct as_no_event *cudaEvent_t;
typedef struct as_no_graph *cudaGraph_t;
typedef struct as_no_exec *cudaGraphExec_t;
enum { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
enum { cudaStreamCaptureModeThreadLocal, cudaEventRecordDefault = 0, cudaEventRecordExternal = 1 };
enum { cudaFuncAttributeMaxDynamicSharedMemorySize };
enum { cudaLaunchAttributeProgrammaticStreamSerialization, cudaLaunchAttributeCooperative };
struct cudaDeviceProp {
    char name[80];
    int major, minor, multiProcessorCount;
};
struct cudaLaunchAttribute {
    int id;
    struct {
        int programmaticStreamSerializationAllowed, cooperative;
    } val;
};
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute *attrs;
    unsigned numAttrs;
};

static inline cudaError_t cudaMalloc(void **p, size_t bytes) {
    *p = aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (*p)
        memset(*p, 0xFF, bytes); /* NaN in every float type */
    return *p ? cudaSuccess : cudaErrorMemoryAllocation;
}
static inline cudaError_t cudaFree(void *p) { return free(p), cudaSuccess; }
static inline cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t) {
    return memset(p, value, bytes), cudaSuccess;
}
static inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, int, cudaStream_t) {
    return memcpy(to, from, bytes), cudaSuccess;
}
static inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
static inline cudaError_t cudaFuncSetAttribute(const void *, int, int) { return cudaSuccess; }
static inline cudaError_t cudaEventCreate(cudaEvent_t *e) { return *e = (cudaEvent_t)malloc(1), cudaSuccess; }
static inline cudaError_t cudaEventDestroy(cudaEvent_t e) { return free(e), cudaSuccess; }
static inline cudaError_t cudaEventRecordWithFlags(cudaEvent_t, cudaStream_t, unsigned) { return cudaSuccess; }
static inline cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t, cudaEvent_t) { return *ms = 1, cudaSuccess; }
/* No graphs. */
static inline cudaError_t cudaStreamBeginCapture(cudaStream_t, int) { return cudaErrorNotSupported; }
static inline cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t *) { return cudaErrorNotSupported; }
static inline cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) { return cudaErrorNotSupported; }
static inline cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaErrorNotSupported; }
static inline cudaError_t cudaGraphDestroy(cudaGraph_t) { return cudaSuccess; }
static inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) { return cudaSuccess; }

template <typename... P, typename... A>
static cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *c, void (*kernel)(P...), A... args) {
    auto body = [&]() { kernel(args...); };
    as_body = [](void *context) { (*(decltype(body) *)context)(); };
    as_body_context = &body;
    if (c->dynamicSmemBytes > sizeof as_dynamic_shared)
        abort();
    blockDim = {c->blockDim.x, 1, 1};
    for (unsigned y = 0; y < c->gridDim.y; y++)
        for (unsigned x = 0; x < c->gridDim.x; x++) {
            blockIdx = {x, y, 0};
            memset(as_dynamic_shared, 0xFF, sizeof as_dynamic_shared);
            as_run_block(c->blockDim.x);
        }
    return cudaSuccess;
}
