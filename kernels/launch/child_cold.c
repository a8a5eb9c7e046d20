/* Modes of the fresh process that time what happens once a process. All but `runtime` use the driver alone, so that no
 * kernel of this binary is loaded with the context. */
#include "child.h"
#include "driver_api.h"

#include "../cuda/check.h"

#include <stdlib.h>
#include <string.h>

#define DRIVER(e, what, call)                                                                                          \
    do {                                                                                                               \
        const int code_ = (call);                                                                                      \
        if (code_ != 0)                                                                                                \
            return as_fail_code((e), AS_EFAIL, code_, "%s: error %d of the driver", what, code_);                      \
    } while (0)

int as_cold_load(const as_cu_api *api, const void *image, as_cu_module *module, as_cu_function *kernel) {
    const int code = api->module_load(module, image);
    return code != 0 ? code : api->module_function(kernel, *module, "as_cold_kernel");
}

int as_cold_launch(const as_cu_api *api, as_cu_function kernel, as_cu_pointer out) {
    void *arguments[] = {&out};
    const int code = api->launch(kernel, 1, 1, 1, AS_COLD_THREADS, 1, 1, 0, NULL, arguments, NULL);
    return code != 0 ? code : api->synchronize();
}

bool as_cold_correct(const as_cu_api *api, as_cu_pointer out) {
    unsigned got[AS_COLD_THREADS];
    if (api->copy_to_host(got, out, sizeof got) != 0)
        return false;
    for (unsigned i = 0; i < AS_COLD_THREADS; i++)
        if (got[i] != 3 * i + 1)
            return false;
    return true;
}

/* init: cuInit. create: the primary context. again: the same call once it exists. */
as_status as_child_context(as_child_job *j, as_error *e) {
    double *value = j->report->value;
    as_cu_context c;
    as_cu_module module;
    as_cu_function kernel;
    as_cu_pointer out;
    double t = as_cold_now_ns();
    DRIVER(e, "cuInit", j->api->init(0));
    value[0] = as_cold_now_ns() - t;
    DRIVER(e, "cuDeviceGetByPCIBusId", j->api->device_by_bus(&j->device, j->bus));
    t = as_cold_now_ns();
    DRIVER(e, "cuDevicePrimaryCtxRetain", j->api->primary_retain(&c, j->device));
    value[1] = as_cold_now_ns() - t;
    t = as_cold_now_ns();
    DRIVER(e, "cuDevicePrimaryCtxRetain", j->api->primary_retain(&c, j->device));
    value[2] = as_cold_now_ns() - t;
    DRIVER(e, "cuCtxSetCurrent", j->api->context_set(c));
    DRIVER(e, "cuMemAlloc", j->api->memory_alloc(&out, AS_COLD_THREADS * sizeof(unsigned)));
    DRIVER(e, "cuModuleLoadData", as_cold_load(j->api, as_cold_cubin, &module, &kernel));
    DRIVER(e, "cuLaunchKernel", as_cold_launch(j->api, kernel, out));
    return as_cold_correct(j->api, out) ? AS_OK : as_fail(e, AS_EFAIL, "the kernel's output is wrong");
}

/* load: the module and its function. first_kernel, second_kernel: launch and wait. The environment that the parent set
 * decides on the driver's cache of compiled PTX and on loading at once. */
as_status as_child_module(as_child_job *j, as_error *e) {
    const void *image = strncmp(j->argument, "ptx", 3) == 0 ? as_cold_ptx : as_cold_cubin;
    double *value = j->report->value;
    as_cu_context c;
    as_cu_module module;
    as_cu_function kernel;
    as_cu_pointer out;
    DRIVER(e, "cuDevicePrimaryCtxRetain", j->api->primary_retain(&c, j->device));
    DRIVER(e, "cuCtxSetCurrent", j->api->context_set(c));
    DRIVER(e, "cuMemAlloc", j->api->memory_alloc(&out, AS_COLD_THREADS * sizeof(unsigned)));
    double t = as_cold_now_ns();
    DRIVER(e, "cuModuleLoadData", as_cold_load(j->api, image, &module, &kernel));
    value[0] = as_cold_now_ns() - t;
    for (int i = 1; i < 3; i++) {
        t = as_cold_now_ns();
        DRIVER(e, "cuLaunchKernel", as_cold_launch(j->api, kernel, out));
        value[i] = as_cold_now_ns() - t;
    }
    return as_cold_correct(j->api, out) ? AS_OK : as_fail(e, AS_EFAIL, "the kernel's output is wrong");
}

/* first_call: choosing the device and cudaFree(0), the customary first call, which makes the context; cuInit is in it.
 * second_call: cudaFree(0) again. */
as_status as_child_runtime(as_child_job *j, as_error *e) {
    int device = 0;
    double t = as_cold_now_ns();
    AS_CUDA(e, cudaDeviceGetByPCIBusId(&device, j->bus));
    AS_CUDA(e, cudaSetDevice(device));
    AS_CUDA(e, cudaFree(NULL));
    j->report->value[0] = as_cold_now_ns() - t;
    t = as_cold_now_ns();
    AS_CUDA(e, cudaFree(NULL));
    j->report->value[1] = as_cold_now_ns() - t;
    return AS_OK;
}

enum { MOST_CONTEXTS = 64, LAUNCHES = 32 };

typedef struct crowd {
    as_cu_context context[MOST_CONTEXTS];
    as_cu_function kernel[MOST_CONTEXTS];
    as_cu_pointer out[MOST_CONTEXTS];
} crowd;

static as_status add_context(const as_child_job *j, crowd *all, int i, double *create_ns, as_error *e) {
    as_cu_module module;
    const double t = as_cold_now_ns();
    DRIVER(e, "cuCtxCreate", j->api->context_create(&all->context[i], AS_CU_SCHED_AUTO, j->device));
    *create_ns += as_cold_now_ns() - t;
    DRIVER(e, "cuMemAlloc", j->api->memory_alloc(&all->out[i], AS_COLD_THREADS * sizeof(unsigned)));
    DRIVER(e, "cuModuleLoadData", as_cold_load(j->api, as_cold_cubin, &module, &all->kernel[i]));
    DRIVER(e, "cuLaunchKernel", as_cold_launch(j->api, all->kernel[i], all->out[i])); /* the first one loads */
    return AS_OK;
}

/* create: mean time of a context. memory: what the device has less of, a context, with a module and a first kernel
 * each, beside the primary context that looks at it. launch: mean of choosing a context, launching and waiting, in
 * turns over all of them. */
as_status as_child_contexts(as_child_job *j, as_error *e) {
    static crowd all;
    const int n = atoi(j->argument);
    double *value = j->report->value;
    size_t before = 0, after = 0, total;
    as_cu_context primary;
    if (n < 1 || n > MOST_CONTEXTS)
        return as_fail(e, AS_EUSAGE, "1 to %d contexts, not '%s'", MOST_CONTEXTS, j->argument);
    DRIVER(e, "cuDevicePrimaryCtxRetain", j->api->primary_retain(&primary, j->device));
    DRIVER(e, "cuCtxSetCurrent", j->api->context_set(primary));
    DRIVER(e, "cuMemGetInfo", j->api->memory_info(&before, &total));
    for (int i = 0; i < n; i++)
        AS_TRY(add_context(j, &all, i, &value[0], e));
    DRIVER(e, "cuCtxSetCurrent", j->api->context_set(primary));
    DRIVER(e, "cuMemGetInfo", j->api->memory_info(&after, &total));
    const double t = as_cold_now_ns();
    for (int k = 0; k < LAUNCHES; k++)
        for (int i = 0; i < n; i++) {
            DRIVER(e, "cuCtxSetCurrent", j->api->context_set(all.context[i]));
            DRIVER(e, "cuLaunchKernel", as_cold_launch(j->api, all.kernel[i], all.out[i]));
        }
    value[2] = (as_cold_now_ns() - t) / (LAUNCHES * n);
    value[0] /= n;
    value[1] = before > after ? (double)(before - after) / n : 0;
    for (int i = 0; i < n; i++) {
        DRIVER(e, "cuCtxSetCurrent", j->api->context_set(all.context[i]));
        if (!as_cold_correct(j->api, all.out[i]))
            return as_fail(e, AS_EFAIL, "the kernel's output is wrong in context %d", i);
    }
    return AS_OK;
}
