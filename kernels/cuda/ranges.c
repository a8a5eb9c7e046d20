/* Ranges on the time line of Nsight Systems and Nsight Compute, through NVTX. The library is headers alone: without a
 * profiler the first call finds nothing to load, and each further one tests a pointer. */
#include "cuda.h"

#include <nvtx3/nvToolsExt.h>

void as_cuda_range_push(const char *name) { (void)nvtxRangePushA(name); }

void as_cuda_range_pop(void) { (void)nvtxRangePop(); }
