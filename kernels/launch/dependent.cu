/* What kernels spend on one another, on the device.
 *
 *   dependent  a chain of kernels in a stream, each launched with programmatic stream serialisation: it may start while
 *              the one before ends, and waits by itself (griddepcontrol) before it touches anything. Compare with eager.
 *              Compute capability 9.0 and above. The twin counts only where the kernel before had counted.
 *   grid_sync  one cooperative launch, a block of 128 threads on each multiprocessor, that synchronises the whole grid
 *              `chain` times. The cost of one comes from two chains: (t(512) - t(64)) / 448. Each block announces
 *              itself before a synchronisation; block 0 counts the synchronisations after which all had done so. */
#include "launch.cuh"

#include <cooperative_groups.h>
#include <stdlib.h>

/* ---- programmatic dependent launch ---- */

static __device__ __forceinline__ uint64_t global_ns() {
    uint64_t t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}

static __global__ void as_launch_dependent_kernel(uint64_t spin_ns, volatile uint64_t *counter, uint64_t chain,
                                                  uint64_t number) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    if (spin_ns) { /* the cycle counter bounds it, should the timer stand still */
        const uint64_t begin = global_ns();
        const long long limit = clock64() + 8 * (long long)spin_ns;
        while (global_ns() - begin < spin_ns && clock64() < limit) {
        }
    }
    if (counter && *counter % chain == number)
        *counter += 1;
}

as_status as_launch_dependent_available_cuda(as_device *device, as_error *e) {
    return as_cuda_of(device)->properties.major >= 9
               ? AS_OK
               : as_fail(e, AS_EABSENT, "programmatic dependent launch needs compute capability 9.0");
}

as_status as_launch_dependent_prepare_cuda(const as_call *, void **, as_error *) { return AS_OK; }
void as_launch_dependent_finish_cuda(void *) {}

as_status as_launch_dependent_cuda(const as_call *call, as_error *e) {
    const as_cuda_link link = as_launch_link_of(call);
    const uint64_t chain = (uint64_t)as_launch_chain_of(call->params);
    cudaLaunchAttribute attribute;
    cudaLaunchConfig_t config = {};
    memset(&attribute, 0, sizeof attribute);
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    config.gridDim = config.blockDim = dim3(1, 1, 1);
    config.stream = as_cuda_stream(call->stream);
    config.attrs = &attribute;
    config.numAttrs = 1;
    for (uint64_t i = 0; i < chain; i++)
        AS_CUDA(e, cudaLaunchKernelEx(&config, as_launch_dependent_kernel, (uint64_t)link.spin_ns,
                                      (volatile uint64_t *)link.counter, chain, i));
    return AS_OK;
}

/* ---- synchronisation of a whole grid ---- */

enum { SYNC_THREADS = 128 };

/* arrived: 0 before, and again afterwards. */
static __global__ void __launch_bounds__(SYNC_THREADS)
    as_launch_grid_sync_kernel(unsigned *arrived, uint64_t *counter, int64_t chain) {
    cooperative_groups::grid_group grid = cooperative_groups::this_grid();
    for (int64_t i = 0; i < chain; i++) {
        if (counter && threadIdx.x == 0)
            atomicAdd(arrived, 1u);
        grid.sync();
        if (counter && threadIdx.x == 0 && blockIdx.x == 0 &&
            *(volatile unsigned *)arrived >= (unsigned)(i + 1) * gridDim.x)
            *counter += 1;
    }
    if (!counter)
        return;
    grid.sync(); /* the twin's only: nobody is still to look */
    if (threadIdx.x == 0 && blockIdx.x == 0)
        *arrived = 0;
}

typedef struct sync_state {
    unsigned *arrived;
    uint64_t *counter;
    int64_t chain;
    int blocks;
} sync_state;

as_status as_launch_grid_sync_available_cuda(as_device *device, as_error *e) {
    int can = 0;
    AS_CUDA(e, cudaDeviceGetAttribute(&can, cudaDevAttrCooperativeLaunch, as_cuda_of(device)->ordinal));
    return can ? AS_OK : as_fail(e, AS_EABSENT, "this GPU has no cooperative launch");
}

as_status as_launch_grid_sync_prepare_cuda(const as_call *call, void **state, as_error *e) {
    sync_state *s = (sync_state *)calloc(1, sizeof *s);
    if (!s)
        return as_fail(e, AS_ENOMEM, "no memory for the state of launch/grid_sync");
    as_status status = AS_OK;
    s->counter = call->counter;
    s->chain = as_launch_chain_of(call->params);
    s->blocks = as_cuda_of(call->device)->properties.multiProcessorCount;
    AS_CUDA_GOTO(e, status, cudaMalloc((void **)&s->arrived, sizeof *s->arrived));
    AS_CUDA_GOTO(e, status, cudaMemset(s->arrived, 0, sizeof *s->arrived));
    AS_CUDA_GOTO(e, status, cudaDeviceSynchronize());
    *state = s;
    return AS_OK;
out:
    as_launch_grid_sync_finish_cuda(s);
    return status;
}

void as_launch_grid_sync_finish_cuda(void *state) {
    sync_state *s = (sync_state *)state;
    if (s && s->arrived)
        (void)cudaFree(s->arrived);
    free(s);
}

as_status as_launch_grid_sync_cuda(const as_call *call, as_error *e) {
    sync_state *s = (sync_state *)call->state;
    void *arguments[] = {&s->arrived, &s->counter, &s->chain};
    AS_CUDA(e, cudaLaunchCooperativeKernel((const void *)as_launch_grid_sync_kernel, dim3((unsigned)s->blocks),
                                           dim3(SYNC_THREADS), arguments, 0, as_cuda_stream(call->stream)));
    return AS_OK;
}
