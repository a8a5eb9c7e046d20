/* as_cuda_driver: one CUDA device behind harness/device.h.
 *
 * The primary context is used, so that libraries share it. Streams are non-blocking: nothing waits for the legacy
 * default stream by accident; copies and sets of this file run there and are complete when they return. Modules load
 * eagerly: a lazy load inside a timed region, or while a spinning kernel runs, would spoil or hang it. */
#include "check.h"
#include "cuda.h"
#include "internal.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void load_eagerly(void) { setenv("CUDA_MODULE_LOADING", "EAGER", 1); }

static void reason_no_device(char reason[256]) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (!visible)
        snprintf(reason, 256, "the NVIDIA driver finds no device");
    else
        snprintf(reason, 256, "CUDA_VISIBLE_DEVICES=\"%.100s\" leaves no device visible", visible);
}

static as_status cuda_count(int *n, char reason[256], as_error *e) {
    *n = 0;
    reason[0] = '\0';
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *why = dlerror();
        if (why && !strstr(why, "No such file"))
            return as_fail(e, AS_EENV, "libcuda.so.1 does not load: %.300s; reinstall the NVIDIA driver", why);
        snprintf(reason, 256, "no NVIDIA driver library (libcuda.so.1)");
        return AS_OK;
    }
    dlclose(library);
    load_eagerly();
    int found = 0;
    cudaError_t code = cudaGetDeviceCount(&found);
    const bool hidden = code == cudaErrorInvalidDevice && getenv("CUDA_VISIBLE_DEVICES"); /* names none there is */
    if (code == cudaErrorNoDevice || hidden || (code == cudaSuccess && found == 0)) {
        (void)cudaGetLastError();
        reason_no_device(reason);
        return AS_OK;
    }
    if (code == cudaErrorStubLibrary) {
        (void)cudaGetLastError();
        snprintf(reason, 256, "no NVIDIA driver: libcuda.so.1 is the toolkit's stub");
        return AS_OK;
    }
    if (code != cudaSuccess) {
        int driver = 0, runtime = 0;
        (void)cudaDriverGetVersion(&driver);
        (void)cudaRuntimeGetVersion(&runtime);
        (void)cudaGetLastError();
        return as_fail_code(e, AS_EENV, (int)code,
                            "CUDA does not start: %s (%d, %s); driver supports CUDA %d.%d, this build needs %d.%d",
                            cudaGetErrorString(code), (int)code, cudaGetErrorName(code), driver / 1000,
                            driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    }
    *n = found;
    return AS_OK;
}

static as_status open_context(as_cuda_impl *c, as_error *e) {
    AS_CUDA(e, cudaGetDeviceProperties(&c->properties, c->ordinal));
    AS_CUDA(e, cudaSetDevice(c->ordinal));
    AS_CUDA(e, cudaFree(0)); /* older runtimes create the context only here */
    AS_CUDA(e, cudaDeviceGetPCIBusId(c->pci_bus_id, (int)sizeof c->pci_bus_id, c->ordinal));
    for (char *p = c->pci_bus_id; *p; p++) /* sysfs and hwloc write lower case */
        *p = (char)tolower((unsigned char)*p);
    return as_cuda_check_image(c, e);
}

static as_status cuda_open(int index, as_device *out, as_error *e) {
    int n;
    char reason[256];
    memset(out, 0, sizeof *out);
    AS_TRY(cuda_count(&n, reason, e));
    if (n == 0)
        return as_fail(e, AS_EABSENT, "no CUDA device: %s", reason);
    if (index < 0 || index >= n)
        return as_fail(e, AS_EABSENT, "no device cuda%d: %d visible, cuda0 to cuda%d", index, n, n - 1);
    as_cuda_impl *c = (as_cuda_impl *)calloc(1, sizeof *c);
    if (!c)
        return as_fail(e, AS_ENOMEM, "out of host memory while cuda%d is opened", index);
    c->ordinal = index;
    as_status s = open_context(c, e);
    if (s != AS_OK) {
        free(c);
        return s;
    }
    c->nvml = as_nvml_open(c->pci_bus_id);
    out->driver = &as_cuda_driver;
    out->index = index;
    snprintf(out->name, sizeof out->name, "cuda%d", index);
    out->last_level_cache_bytes = (size_t)c->properties.l2CacheSize;
    out->impl = c;
    return AS_OK;
}

static void cuda_close(as_device *d) {
    as_cuda_impl *c = (as_cuda_impl *)d->impl;
    if (c) {
        as_nvml_close(c->nvml);
        (void)cudaDeviceReset();
        free(c);
    }
    memset(d, 0, sizeof *d);
}

static as_status cuda_memory(as_device *, size_t *free_bytes, size_t *total_bytes, as_error *e) {
    AS_CUDA(e, cudaMemGetInfo(free_bytes, total_bytes));
    return AS_OK;
}

static as_status alloc_registered(size_t size, void **out, as_error *e) {
    void *p = NULL;
    if (posix_memalign(&p, (size_t)sysconf(_SC_PAGESIZE), size) != 0)
        return as_fail(e, AS_ENOMEM, "out of host memory for %zu bytes; use smaller sizes", size);
    const cudaError_t code = cudaHostRegister(p, size, cudaHostRegisterDefault);
    if (code != cudaSuccess) {
        free(p);
        return as_cuda_fail_at(e, __FILE__, __LINE__, code, "cudaHostRegister");
    }
    *out = p;
    return AS_OK;
}

static as_status cuda_alloc(as_device *, as_memory kind, size_t bytes, void **out, as_error *e) {
    *out = NULL;
    size_t size = bytes ? bytes : 1; /* an empty operand still has an address */
    switch (kind) {
    case AS_MEM_DEVICE: AS_CUDA(e, cudaMalloc(out, size)); return AS_OK;
    case AS_MEM_PINNED: AS_CUDA(e, cudaMallocHost(out, size)); return AS_OK;
    case AS_MEM_MANAGED: AS_CUDA(e, cudaMallocManaged(out, size, cudaMemAttachGlobal)); return AS_OK;
    case AS_MEM_WRITE_COMBINED: AS_CUDA(e, cudaHostAlloc(out, size, cudaHostAllocWriteCombined)); return AS_OK;
    case AS_MEM_REGISTERED: return alloc_registered(size, out, e);
    case AS_MEM_HUGE:
    case AS_MEM_PAGEABLE:
        if (posix_memalign(out, (size_t)sysconf(_SC_PAGESIZE), size) == 0)
            return AS_OK;
        *out = NULL;
        return as_fail(e, AS_ENOMEM, "out of host memory for %zu bytes; use smaller sizes", bytes);
    }
    return as_fail(e, AS_EUSAGE, "unknown kind of memory %d", (int)kind);
}

static void cuda_release(as_device *, as_memory kind, void *p) {
    switch (kind) {
    case AS_MEM_DEVICE:
    case AS_MEM_MANAGED: (void)cudaFree(p); break;
    case AS_MEM_PINNED:
    case AS_MEM_WRITE_COMBINED: (void)cudaFreeHost(p); break;
    case AS_MEM_REGISTERED:
        if (p)
            (void)cudaHostUnregister(p);
        free(p);
        break;
    case AS_MEM_HUGE:
    case AS_MEM_PAGEABLE: free(p); break;
    }
}

static as_status cuda_copy(as_device *, void *dst, const void *src, size_t bytes, as_error *e) {
    if (bytes == 0)
        return AS_OK;
    AS_CUDA(e, cudaMemcpy(dst, src, bytes, cudaMemcpyDefault));
    /* Device-to-device and small pageable copies may return before the bytes have arrived. */
    AS_CUDA(e, cudaStreamSynchronize(cudaStreamLegacy));
    return AS_OK;
}

static as_status cuda_set(as_device *, void *dst, int byte, size_t bytes, as_error *e) {
    if (bytes == 0)
        return AS_OK;
    struct cudaPointerAttributes where;
    AS_CUDA(e, cudaPointerGetAttributes(&where, dst));
    if (where.type == cudaMemoryTypeUnregistered || where.type == cudaMemoryTypeHost) {
        memset(dst, byte, bytes);
        return AS_OK;
    }
    AS_CUDA(e, cudaMemset(dst, byte, bytes));
    AS_CUDA(e, cudaStreamSynchronize(cudaStreamLegacy));
    return AS_OK;
}

static as_status stream_create(as_device *, as_stream *out, as_error *e) {
    cudaStream_t s;
    *out = NULL;
    AS_CUDA(e, cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    *out = s;
    return AS_OK;
}

static void stream_destroy(as_device *, as_stream s) {
    if (s)
        (void)cudaStreamDestroy(as_cuda_stream(s));
}

static as_status stream_sync(as_device *, as_stream s, as_error *e) {
    AS_CUDA(e, cudaStreamSynchronize(as_cuda_stream(s)));
    return AS_OK;
}

static as_status event_create(as_device *, as_event *out, as_error *e) {
    cudaEvent_t ev;
    *out = NULL;
    AS_CUDA(e, cudaEventCreateWithFlags(&ev, cudaEventDefault));
    *out = ev;
    return AS_OK;
}

static void event_destroy(as_device *, as_event ev) {
    if (ev)
        (void)cudaEventDestroy((cudaEvent_t)ev);
}

static as_status event_record(as_device *, as_event ev, as_stream s, as_error *e) {
    AS_CUDA(e, cudaEventRecord((cudaEvent_t)ev, as_cuda_stream(s)));
    return AS_OK;
}

static as_status event_elapsed(as_device *, as_event from, as_event to, double *ns, as_error *e) {
    float ms = 0;
    AS_CUDA(e, cudaEventElapsedTime(&ms, (cudaEvent_t)from, (cudaEvent_t)to));
    *ns = (double)ms * 1e6;
    return AS_OK;
}

static as_status capture_begin(as_device *, as_stream s, as_error *e) {
    AS_CUDA(e, cudaStreamBeginCapture(as_cuda_stream(s), cudaStreamCaptureModeThreadLocal));
    return AS_OK;
}

cudaError_t as_cuda_instantiate(cudaGraphExec_t *out, cudaGraph_t graph) {
#if CUDART_VERSION >= 12000
    return cudaGraphInstantiate(out, graph, 0);
#else
    return cudaGraphInstantiateWithFlags(out, graph, 0);
#endif
}

static as_status capture_end(as_device *, as_stream s, as_graph *out, as_error *e) {
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    as_status status = AS_OK;
    *out = NULL;
    AS_CUDA(e, cudaStreamEndCapture(as_cuda_stream(s), &graph));
    AS_CUDA_GOTO(e, status, as_cuda_instantiate(&exec, graph));
    AS_CUDA_GOTO(e, status, cudaGraphUpload(exec, as_cuda_stream(s)));
    AS_CUDA_GOTO(e, status, cudaStreamSynchronize(as_cuda_stream(s)));
    *out = exec;
    exec = NULL;
out:
    if (exec)
        (void)cudaGraphExecDestroy(exec);
    (void)cudaGraphDestroy(graph);
    return status;
}

static as_status graph_launch(as_device *, as_graph g, as_stream s, as_error *e) {
    AS_CUDA(e, cudaGraphLaunch((cudaGraphExec_t)g, as_cuda_stream(s)));
    return AS_OK;
}

static void graph_destroy(as_device *, as_graph g) {
    if (g)
        (void)cudaGraphExecDestroy((cudaGraphExec_t)g);
}

extern "C" const as_device_driver as_cuda_driver = {
    "cuda",         cuda_count,         cuda_open,          cuda_close,        as_cuda_describe, cuda_memory,
    cuda_alloc,     cuda_release,       cuda_copy,          cuda_set,          as_cuda_fill,     stream_create,
    stream_destroy, stream_sync,        event_create,       event_destroy,     event_record,     event_elapsed,
    capture_begin,  capture_end,        graph_launch,       graph_destroy,     as_cuda_counters, as_cuda_judge,
    as_cuda_health, &as_cuda_telemetry, as_cuda_range_push, as_cuda_range_pop,
};
