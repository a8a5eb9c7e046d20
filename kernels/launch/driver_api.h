/* The few calls of the CUDA driver that the runtime has no equal for: contexts of one's own, modules from memory. They
 * are looked up in libcuda.so.1 when first needed, so that no binary links to it. A row is X(name, exported symbol,
 * parameters); each returns CUresult as an int, 0 if well. Symbols are of the versions that every driver since CUDA 11
 * exports. */
#pragma once

#include "../../harness/status.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct CUctx_st *as_cu_context;
typedef struct CUmod_st *as_cu_module;
typedef struct CUfunc_st *as_cu_function;
typedef unsigned long long as_cu_pointer;

/* Flags of context_create: how the context's host threads wait. */
enum { AS_CU_SCHED_AUTO = 0, AS_CU_SCHED_SPIN = 1, AS_CU_SCHED_YIELD = 2, AS_CU_SCHED_BLOCKING = 4 };

#define AS_CU_CALLS(X)                                                                                                 \
    X(init, "cuInit", (unsigned flags))                                                                                \
    X(device_by_bus, "cuDeviceGetByPCIBusId", (int *device, const char *bus))                                          \
    X(primary_retain, "cuDevicePrimaryCtxRetain", (as_cu_context * out, int device))                                   \
    X(context_create, "cuCtxCreate_v2", (as_cu_context * out, unsigned flags, int device))                             \
    X(context_destroy, "cuCtxDestroy_v2", (as_cu_context c))                                                           \
    X(context_set, "cuCtxSetCurrent", (as_cu_context c))                                                               \
    X(context_get, "cuCtxGetCurrent", (as_cu_context * out))                                                           \
    X(synchronize, "cuCtxSynchronize", (void))                                                                         \
    X(module_load, "cuModuleLoadData", (as_cu_module * out, const void *image))                                        \
    X(module_unload, "cuModuleUnload", (as_cu_module m))                                                               \
    X(module_function, "cuModuleGetFunction", (as_cu_function * out, as_cu_module m, const char *name))                \
    X(launch, "cuLaunchKernel",                                                                                        \
      (as_cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,                 \
       unsigned shared_bytes, void *stream, void **arguments, void **extra))                                           \
    X(memory_alloc, "cuMemAlloc_v2", (as_cu_pointer * out, size_t bytes))                                              \
    X(memory_free, "cuMemFree_v2", (as_cu_pointer p))                                                                  \
    X(memory_info, "cuMemGetInfo_v2", (size_t * free_bytes, size_t * total_bytes))                                     \
    X(copy_to_host, "cuMemcpyDtoH_v2", (void *to, as_cu_pointer from, size_t bytes))

#define AS_CU_MEMBER(name, symbol, parameters) int(*name) parameters;
typedef struct as_cu_api {
    AS_CU_CALLS(AS_CU_MEMBER)
} as_cu_api;

/* The table, filled at the first call. AS_EABSENT with the missing library or symbol. */
as_status as_cu_open(const as_cu_api **out, as_error *e) AS_MUST_CHECK;

#ifdef __cplusplus
}
#endif
