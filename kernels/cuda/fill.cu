/* Seeded inputs made on the device: element i is as_rng_element_bits(i), the text that the host runs too
 * (harness/rng.h), so that the bits cannot differ. Integer work and exact conversions only; about 100 integer
 * instructions an element, which is far cheaper than making the data on the host and copying it. */
#include "check.h"
#include "internal.h"

enum { FILL_THREADS = 256, FILL_BLOCKS_PER_SM = 16 };

template <typename T>
static __global__ void as_cuda_fill_kernel(T *out, as_dtype type, as_dist dist, uint64_t count, uint64_t seed,
                                           uint32_t key) {
    const uint64_t stride = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride)
        out[i] = (T)as_rng_element_bits(type, dist, i, seed, key);
}

template <typename T>
static as_status fill(const as_cuda_impl *c, void *dst, as_dtype type, as_dist dist, uint64_t count, uint64_t seed,
                      uint32_t key, as_error *e) {
    const uint64_t wanted = (count + FILL_THREADS - 1) / FILL_THREADS;
    const uint64_t most = (uint64_t)c->properties.multiProcessorCount * FILL_BLOCKS_PER_SM;
    as_cuda_fill_kernel<T>
        <<<(unsigned)(wanted < most ? wanted : most), FILL_THREADS>>>((T *)dst, type, dist, count, seed, key);
    AS_CUDA_LAUNCHED(e);
    AS_CUDA(e, cudaStreamSynchronize(cudaStreamLegacy));
    return AS_OK;
}

as_status as_cuda_fill(as_device *d, as_memory kind, void *dst, as_dtype type, as_dist dist, uint64_t count,
                       uint64_t seed, uint32_t key, as_error *e) {
    if (count == 0)
        return AS_OK;
    if (kind != AS_MEM_DEVICE && kind != AS_MEM_MANAGED) {
        as_rng_fill(dst, type, dist, 0, count, seed, key);
        return AS_OK;
    }
    const as_cuda_impl *c = as_cuda_of(d);
    switch (as_rng_type_bytes(type)) {
    case 1: return fill<uint8_t>(c, dst, type, dist, count, seed, key, e);
    case 2: return fill<uint16_t>(c, dst, type, dist, count, seed, key, e);
    case 4: return fill<uint32_t>(c, dst, type, dist, count, seed, key, e);
    default: return fill<uint64_t>(c, dst, type, dist, count, seed, key, e);
    }
}

as_status as_cuda_check_image(const as_cuda_impl *c, as_error *e) {
    struct cudaFuncAttributes attributes;
    if (cudaFuncGetAttributes(&attributes, as_cuda_fill_kernel<uint32_t>) == cudaSuccess)
        return AS_OK;
    const cudaError_t code = cudaGetLastError();
    return as_fail_code(e, AS_EENV, (int)code,
                        "no code in this binary for %.80s (compute capability %d.%d): %s; rebuild with "
                        "-DCMAKE_CUDA_ARCHITECTURES=native",
                        c->properties.name, c->properties.major, c->properties.minor, cudaGetErrorName(code));
}
