/* The driver's cuTensorMapEncodeTiled, found through the runtime: no link to libcuda. */
#include "tensor_map.h"

#include "../cuda/check.h"
#include "../cuda/internal.h"
#include "hopper.cuh"

/* 1 in the code for sm_90a, 0 in any other that the binary may hold. */
static __device__ int as_tensor_built = AS_HAVE_WGMMA;

as_status as_wgmma_available(const as_device *device, as_error *e) {
    const cudaDeviceProp &d = as_cuda_of(device)->properties;
    int built = 0;
    if (d.major != 9 || d.minor != 0)
        return as_fail(e, AS_EABSENT, "wgmma is for compute capability 9.0; %.80s has %d.%d", d.name, d.major, d.minor);
    AS_CUDA(e, cudaMemcpyFromSymbol(&built, as_tensor_built, sizeof built));
    if (!built)
        return as_fail(e, AS_EABSENT,
                       "this binary holds no code for sm_90a; rebuild with "
                       "-DASSAY_CUDA_ARCHITECTURES=90a-real");
    return AS_OK;
}

typedef CUresult (*encode_fn)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                              const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave,
                              CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

static as_status find_encode(encode_fn *out, as_error *e) {
    static encode_fn kept;
    if (!kept) {
        void *found = NULL;
        cudaDriverEntryPointQueryResult how;
#if CUDART_VERSION >= 12050
        AS_CUDA(e, cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &how));
#else
        AS_CUDA(e, cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &found, cudaEnableDefault, &how));
#endif
        if (how != cudaDriverEntryPointSuccess || !found)
            return as_fail(e, AS_EENV, "the driver has no cuTensorMapEncodeTiled; install one for CUDA 12 or later");
        kept = (encode_fn)found;
    }
    *out = kept;
    return AS_OK;
}

as_status as_tensor_map(CUtensorMap *out, CUtensorMapDataType type, int element_bytes, const void *matrix, int64_t rows,
                        int64_t columns, int box_rows, as_error *e) {
    encode_fn encode = NULL;
    AS_TRY(find_encode(&encode, e));
    const cuuint64_t size[2] = {(cuuint64_t)columns, (cuuint64_t)rows},
                     pitch[1] = {(cuuint64_t)columns * element_bytes};
    const cuuint32_t box[2] = {(cuuint32_t)(128 / element_bytes), (cuuint32_t)box_rows}, step[2] = {1, 1};
    const CUresult code =
        encode(out, type, 2, (void *)matrix, size, pitch, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
               CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (code != CUDA_SUCCESS)
        return as_fail_code(e, AS_EENV, (int)code,
                            "cuTensorMapEncodeTiled refuses %lld x %lld elements of %d bytes (%d)", (long long)rows,
                            (long long)columns, element_bytes, (int)code);
    return AS_OK;
}
