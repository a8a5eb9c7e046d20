/* Tensor maps for the bulk tensor copy engine, and whether this binary and device have it. */
#pragma once

#include "../../harness/device.h"

#include <cuda.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A row-major matrix of rows x columns of `element_bytes` each, copied in boxes of box_rows x 128 bytes with the 128-byte
 * swizzle; elements outside read as zero and are not written. Rows must be whole 16 bytes, `matrix` aligned to 16.
 * `type` is the map's element type. AS_EENV where the driver lacks the call or refuses. */
as_status as_tensor_map(CUtensorMap *out, CUtensorMapDataType type, int element_bytes, const void *matrix, int64_t rows,
                        int64_t columns, int box_rows, as_error *e) AS_MUST_CHECK;

/* AS_EABSENT with the reason where the device is no Hopper, or the binary holds no code for sm_90a. */
as_status as_wgmma_available(const as_device *device, as_error *e) AS_MUST_CHECK;

#ifdef __cplusplus
}
#endif
