/* A libcuda.so.1 for the fresh processes of suite launch: one GPU whose memory is the host's and whose only kernel is
 * as_cold_kernel. It takes the image as it is given. FAKE_CUDA_WRONG makes the kernel's output wrong; FAKE_CUDA_DIES
 * kills the process in the launch. A context costs 16 MiB of its memory. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 64, CONTEXT_BYTES = 16 << 20, INVALID_DEVICE = 101, INVALID_CONTEXT = 201, OUT_OF_MEMORY = 2 };
static const size_t whole_bytes = (size_t)1 << 30;
static size_t used_bytes;
static void *current;
static char primary, module, kernel;

int cuInit(unsigned flags);
int cuDeviceGetByPCIBusId(int *device, const char *bus);
int cuDevicePrimaryCtxRetain(void **out, int device);
int cuCtxCreate_v2(void **out, unsigned flags, int device);
int cuCtxDestroy_v2(void *c);
int cuCtxSetCurrent(void *c);
int cuCtxGetCurrent(void **out);
int cuCtxSynchronize(void);
int cuModuleLoadData(void **out, const void *image);
int cuModuleUnload(void *m);
int cuModuleGetFunction(void **out, void *m, const char *name);
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared_bytes, void *stream, void **arguments, void **extra);
int cuMemAlloc_v2(unsigned long long *out, size_t bytes);
int cuMemFree_v2(unsigned long long p);
int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes);
int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t bytes);

int cuInit(unsigned flags) { return (int)flags; }

int cuDeviceGetByPCIBusId(int *device, const char *bus) {
    *device = 0;
    return strcmp(bus, "0000:01:00.0") == 0 ? 0 : INVALID_DEVICE;
}

int cuDevicePrimaryCtxRetain(void **out, int device) {
    *out = &primary;
    return device;
}

int cuCtxCreate_v2(void **out, unsigned flags, int device) {
    used_bytes += CONTEXT_BYTES;
    *out = current = malloc(1);
    return (int)flags + device;
}

int cuCtxDestroy_v2(void *c) {
    free(c);
    return 0;
}

int cuCtxSetCurrent(void *c) {
    current = c;
    return 0;
}

int cuCtxGetCurrent(void **out) {
    *out = current;
    return 0;
}

int cuCtxSynchronize(void) { return 0; }

int cuModuleLoadData(void **out, const void *image) {
    *out = &module;
    return !current ? INVALID_CONTEXT : image ? 0 : 1;
}

int cuModuleUnload(void *m) { return m != &module; }

int cuModuleGetFunction(void **out, void *m, const char *name) {
    *out = &kernel;
    return m == &module && strcmp(name, "as_cold_kernel") == 0 ? 0 : 500;
}

int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared_bytes, void *stream, void **arguments, void **extra) {
    unsigned *out = (unsigned *)(size_t) * (unsigned long long *)arguments[0];
    if (getenv("FAKE_CUDA_DIES"))
        raise(SIGKILL);
    if (f != &kernel || gx * gy * gz != 1 || bx != THREADS || by * bz != 1 || shared_bytes || stream || extra)
        return 1;
    for (unsigned i = 0; i < THREADS; i++)
        out[i] = 3 * i + 1 + (getenv("FAKE_CUDA_WRONG") != NULL && i == THREADS - 1);
    return 0;
}

int cuMemAlloc_v2(unsigned long long *out, size_t bytes) {
    *out = (unsigned long long)(size_t)calloc(1, bytes);
    return *out ? 0 : OUT_OF_MEMORY;
}

int cuMemFree_v2(unsigned long long p) {
    free((void *)(size_t)p);
    return 0;
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    *free_bytes = whole_bytes - used_bytes;
    *total_bytes = whole_bytes;
    return 0;
}

int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t bytes) {
    memcpy(to, (const void *)(size_t)from, bytes);
    return 0;
}
