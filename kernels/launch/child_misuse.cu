/* Misuse in a fresh process, which may die of it. first, second, third:
 *
 *   freed_memory    a kernel that writes to freed memory, with the wait; a second cudaFree; a call after both
 *   second_context  cuCtxCreate once the runtime has made its context; a call of the runtime in it; a kernel there
 *   shared_exec     launches of one instantiated graph by two threads at once, no lock: the first code that is not 0;
 *                   1: executions are missing; 1: two of them overlapped
 *   older_cubin     load of machine code for compute capability 7.5; load of PTX instead; 1: its kernel was wrong
 *   static_jit      cudaFree(0) in this program, whose runtime is linked statically; load of PTX; 1: its kernel was wrong
 *
 * Codes are those of the runtime, for cu... calls those of the driver; both have the same numbers. */
#include "child.h"
#include "driver_api.h"

#include "../cuda/check.h"
#include "../cuda/internal.h"

#include <pthread.h>
#include <string.h>

static as_status choose_device(const as_child_job *j, as_error *e) {
    int device = 0;
    AS_CUDA(e, cudaDeviceGetByPCIBusId(&device, j->bus));
    AS_CUDA(e, cudaSetDevice(device));
    AS_CUDA(e, cudaFree(NULL));
    return AS_OK;
}

static double seen(cudaError_t code) {
    (void)cudaGetLastError();
    return (double)(int)code;
}

static __global__ void as_launch_child_write_kernel(volatile unsigned *cell) { *cell = 1; }

static cudaError_t write_and_wait(unsigned *cell) {
    as_launch_child_write_kernel<<<1, 1>>>(cell);
    const cudaError_t code = cudaGetLastError();
    return code == cudaSuccess ? cudaDeviceSynchronize() : code;
}

/* 64 MiB: memory of that size goes back to the driver when it is freed, small pieces may stay mapped. */
as_status as_child_freed_memory(as_child_job *j, as_error *e) {
    unsigned *cell = NULL;
    AS_TRY(choose_device(j, e));
    AS_CUDA(e, cudaMalloc((void **)&cell, (size_t)64 << 20));
    AS_CUDA(e, cudaFree(cell));
    j->report->value[0] = seen(write_and_wait(cell));
    j->report->value[1] = seen(cudaFree(cell));
    j->report->value[2] = seen(cudaDeviceSynchronize());
    return AS_OK;
}

as_status as_child_second_context(as_child_job *j, as_error *e) {
    as_cu_context second;
    unsigned *cell = NULL;
    AS_TRY(choose_device(j, e));
    int code = j->api->device_by_bus(&j->device, j->bus);
    if (code == 0)
        code = j->api->context_create(&second, AS_CU_SCHED_AUTO, j->device);
    j->report->value[0] = code;
    j->report->value[1] = seen(cudaMalloc((void **)&cell, sizeof *cell));
    j->report->value[2] = cell ? seen(write_and_wait(cell)) : (double)(int)cudaErrorMemoryAllocation;
    return AS_OK;
}

/* ---- one instantiated graph, two threads, no lock ---- */

enum { THREADS = 2, LAUNCHES = 200, BUSY_CYCLES = 20000 };

typedef struct visits {
    unsigned inside, runs, overlaps;
} visits;

static __global__ void as_launch_visit_kernel(visits *v) {
    if (atomicAdd(&v->inside, 1u) != 0)
        atomicAdd(&v->overlaps, 1u);
    for (const long long end = clock64() + BUSY_CYCLES; clock64() < end;) {
    }
    atomicAdd(&v->runs, 1u);
    atomicSub(&v->inside, 1u);
}

typedef struct launcher {
    cudaGraphExec_t exec;
    cudaStream_t stream;
    pthread_barrier_t *start;
    int device;
    cudaError_t code; /* the first that is not success */
} launcher;

static void *launch_often(void *context) {
    launcher *l = (launcher *)context;
    (void)cudaSetDevice(l->device);
    pthread_barrier_wait(l->start);
    for (int i = 0; i < LAUNCHES; i++) {
        const cudaError_t code = cudaGraphLaunch(l->exec, l->stream);
        l->code = l->code == cudaSuccess ? code : l->code;
    }
    return NULL;
}

static as_status visit_graph(visits *v, cudaGraphExec_t *exec, as_error *e) {
    void *arguments[] = {&v};
    cudaGraph_t graph;
    cudaGraphNode_t node;
    cudaKernelNodeParams params = {};
    params.func = (void *)as_launch_visit_kernel;
    params.gridDim = params.blockDim = dim3(1, 1, 1);
    params.kernelParams = arguments;
    AS_CUDA(e, cudaMemset(v, 0, sizeof *v));
    AS_CUDA(e, cudaGraphCreate(&graph, 0));
    AS_CUDA(e, cudaGraphAddKernelNode(&node, graph, NULL, 0, &params));
    AS_CUDA(e, as_cuda_instantiate(exec, graph));
    AS_CUDA(e, cudaGraphDestroy(graph));
    return AS_OK;
}

as_status as_child_shared_exec(as_child_job *j, as_error *e) {
    visits *v = NULL, result;
    launcher l[THREADS];
    pthread_t thread[THREADS];
    pthread_barrier_t start;
    int device = 0;
    memset(l, 0, sizeof l);
    AS_TRY(choose_device(j, e));
    AS_CUDA(e, cudaGetDevice(&device));
    AS_CUDA(e, cudaMalloc((void **)&v, sizeof *v));
    AS_TRY(visit_graph(v, &l[0].exec, e));
    for (int i = 0; i < THREADS; i++) {
        l[i].exec = l[0].exec;
        l[i].start = &start;
        l[i].device = device;
        AS_CUDA(e, cudaStreamCreateWithFlags(&l[i].stream, cudaStreamNonBlocking));
    }
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, launch_often, &l[i]) != 0)
            return as_fail(e, AS_EENV, "cannot start a thread (a limit on processes?)");
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    const cudaError_t ended = cudaDeviceSynchronize();
    AS_CUDA(e, cudaMemcpy(&result, v, sizeof result, cudaMemcpyDeviceToHost));
    const cudaError_t first = l[0].code != cudaSuccess ? l[0].code : l[1].code;
    j->report->value[0] = seen(first != cudaSuccess ? first : ended);
    j->report->value[1] = result.runs != THREADS * LAUNCHES;
    j->report->value[2] = result.overlaps != 0;
    return AS_OK;
}

/* ---- machine code of another generation, PTX ---- */

/* Loads `image`, runs its kernel. *code: of the load. *wrong: 1 unless the kernel gave the right output. */
static as_status try_image(const as_child_job *j, const void *image, double *code, double *wrong, as_error *e) {
    as_cu_module module;
    as_cu_function kernel;
    as_cu_pointer out = 0;
    const int allocated = j->api->memory_alloc(&out, AS_COLD_THREADS * sizeof(unsigned));
    if (allocated != 0)
        return as_fail_code(e, AS_ENOMEM, allocated, "cuMemAlloc: error %d of the driver", allocated);
    const int loaded = as_cold_load(j->api, image, &module, &kernel);
    *code = loaded;
    *wrong = loaded != 0 || as_cold_launch(j->api, kernel, out) != 0 || !as_cold_correct(j->api, out);
    return AS_OK;
}

as_status as_child_older_cubin(as_child_job *j, as_error *e) {
    as_cu_context c;
    double unused;
    int code = j->api->primary_retain(&c, j->device);
    if (code == 0)
        code = j->api->context_set(c);
    if (code != 0)
        return as_fail_code(e, AS_EENV, code, "no context: error %d of the driver", code);
    AS_TRY(try_image(j, as_cold_older, &j->report->value[0], &unused, e));
    return try_image(j, as_cold_ptx, &j->report->value[1], &j->report->value[2], e);
}

as_status as_child_static_jit(as_child_job *j, as_error *e) {
    AS_TRY(choose_device(j, e));
    j->report->value[0] = seen(cudaFree(NULL));
    return try_image(j, as_cold_ptx, &j->report->value[1], &j->report->value[2], e);
}
