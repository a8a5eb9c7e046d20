/* Suite launch: what starting work costs: calls, tasks, wake-ups, kernels, graphs, contexts, processes. */
#include "launch_traits.h"
#include "suites.h"

static const as_axis axes[] = {
    {"chain", "1", true, false, "", "kernels or tasks in one operation"},
    {"kernel", "empty", false, false, "", "empty: does nothing; 10us: keeps busy for 10 us by the clock"},
    AS_AXIS_THREADS,
    AS_AXIS_CACHE,
    {"shape", "chain", false, false, "", "of a graph: chain, fan_out, copies (before each kernel)"},
    {"schedule", "auto", false, false, "", "how the runtime waits: auto, spin, yield, blocking"},
    {"workers", "1", true, false, "threads", "cuda only: host threads that launch, or contexts of one process"},
    {"priority", "low", false, false, "", "of the small kernel's stream: low, high"},
    {"block", "auto", false, false, "threads", "32 to 1024; auto: the occupancy API's; rule1024: min(1024, n)"},
    {"n", "524288", true, false, "elements", "of config_memory and config_compute"},
    {"image", "cubin", false, false, "", "what a module is made from: cubin, ptx, ptx_cached"},
    {"misuse", "none", false, false, "", "which; kernels/launch/misuse.cu says what is seen"},
};

static const as_variant variants[] = {
    AS_LAUNCH_CPU(AS_ROW_CPU)             //
    AS_LAUNCH_CPU_STATE(AS_ROW_CPU_STATE) //
    AS_LAUNCH_CPU_EXTRA(AS_ROW_CPU_EXTRA) //
#ifdef ASSAY_CUDA
    AS_LAUNCH_CUDA(AS_ROW_CUDA)                 //
    AS_LAUNCH_CUDA_STATE(AS_ROW_CUDA_STATE)     //
    AS_LAUNCH_CUDA_LIBRARY(AS_ROW_CUDA_LIBRARY) //
    AS_LAUNCH_CUDA_CONFIG(AS_ROW_CUDA)          //
    AS_LAUNCH_CUDA_EXTRA(AS_ROW_CUDA_EXTRA)     //
#endif
    {.name = NULL},
};

#define BLOCKS "block=32,64,128,256,512,1024,auto,rule1024"
#define CALLS "call_static,call_pointer,call_plt,call_library,call_syscall"
#define WAKES "wake_spin,wake_yield,wake_futex,wake_condition,wake_eventfd,wake_pipe"
#define WAITS "wait_stream,wait_event,wait_poll_stream,wait_poll_event,wait_callback"
#define WORKERS "workers_stream,workers_streams,workers_graph"

static const as_point points[] = {
    {AS_QUICK, "cpu", "direct", "chain=1,8,64,512", 0},
    {AS_QUICK, "cpu", "pool,openmp,static_plan", "chain=1,8,512;threads=all", 0},
    {AS_QUICK, "cpu", "direct", "chain=8;kernel=10us", 1},
    {AS_QUICK, "cpu", "pool,openmp,static_plan", "chain=8;kernel=10us;threads=all", 1},
    {AS_QUICK, "cuda", "eager,eager_sync,graph", "chain=1,64,512", 0},
    {AS_QUICK, "cuda", "eager,eager_sync,graph", "chain=8;kernel=10us", 1},
    {AS_QUICK, "cuda", "graph_instantiate,graph_first_launch", "chain=512", 1},
    {AS_STANDARD, "cpu", "direct", "chain=2,32,256", 2},
    {AS_STANDARD, "cpu", "pool,openmp,static_plan", "chain=2,32,64,256;threads=all", 2},
    {AS_STANDARD, "cpu", "pool,openmp,static_plan", "chain=64", 3},
    {AS_STANDARD, "cpu", "direct", "chain=64;kernel=10us", 3},
    {AS_STANDARD, "cpu", "pool,openmp,static_plan", "chain=64;kernel=10us;threads=all", 3},
    {AS_STANDARD, "cpu", CALLS, "chain=512", 2},
    {AS_STANDARD, "cpu", WAKES, "chain=64;threads=all", 2},
    {AS_STANDARD, "cpu", "queue_fresh", "chain=64;threads=all", 2},
    {AS_STANDARD, "cpu", "queue_idle", "chain=4;threads=all", 2},
    {AS_STANDARD, "cpu", "process_fork,process_spawn", "", 2},
    {AS_STANDARD, "cuda", "eager,eager_sync,graph", "chain=2,8,32,256", 2},
    {AS_STANDARD, "cuda", "eager,eager_sync,graph", "chain=1,64;kernel=10us", 2},
    {AS_STANDARD, "cuda", "graph_instantiate,graph_first_launch", "chain=1,8,64", 2},
    {AS_STANDARD, "cuda", "graph", "chain=64,512;shape=fan_out,copies", 2},
    {AS_STANDARD, "cuda", "graph_instantiate,graph_first_launch", "chain=512;shape=fan_out,copies", 3},
    {AS_STANDARD, "cuda", "graph_set_params,graph_update,graph_upload", "chain=64,512", 2},
    {AS_STANDARD, "cuda", WAITS, "chain=64;kernel=empty,10us", 2},
    {AS_STANDARD, "cuda", "wait_stream", "chain=64;kernel=empty,10us;schedule=spin,yield,blocking", 2},
    {AS_STANDARD, "cuda", "wait_event", "chain=64;kernel=empty,10us;schedule=blocking", 2},
    {AS_STANDARD, "cuda", WORKERS, "chain=64;workers=1,2,4", 2},
    {AS_STANDARD, "cuda", "dependent,grid_sync", "chain=1,64,512", 2},
    {AS_STANDARD, "cuda", "dependent", "chain=64;kernel=10us", 2},
    {AS_STANDARD, "cuda", "priority_idle,priority_loaded", "priority=low,high", 2},
    {AS_STANDARD, "cuda", "config_memory,config_compute", BLOCKS, 2},
    {AS_STANDARD, "cuda", "config_memory,config_compute", "n=67108864;" BLOCKS, 3},
    {AS_STANDARD, "cuda", "cold_context,cold_runtime", "", 3},
    {AS_STANDARD, "cuda", "cold_module", "image=cubin,ptx,ptx_cached", 3},
    {AS_STANDARD, "cuda", "misuse", "misuse=" AS_LAUNCH_MISUSE_LIST, 3},
    {AS_PUBLISH, "cuda", "eager,eager_sync,graph", "chain=512;kernel=10us", 4},
    {AS_PUBLISH, "cuda", WORKERS, "chain=64;workers=8", 4},
    {AS_PUBLISH, "cuda", "contexts", "workers=1,2,4,8", 4},
    {AS_PUBLISH, "cpu", "pool,openmp,static_plan", "chain=512", 4},
    {AS_PUBLISH, "cpu", CALLS, "chain=1", 4},
    {AS_PUBLISH, "cpu", WAKES, "threads=all", 4},
    {.variants = NULL},
};

static as_status describe(const as_params *p, const as_variant *v, const as_device *d, as_work *w, as_error *e) {
    AS_TRY(as_suite_check_common(p, d, e));
    return as_launch_describe(p, v, axes, w, e);
}

/* config_*: exact, by plain host code. */
static as_status reference(const as_reference *r, as_error *e) {
    (void)e;
    const uint32_t *x = r->input[0];
    const bool compute = r->work->operand[0].key == AS_LAUNCH_KEY_COMPUTE;
    for (int64_t i = 0; i < r->n_rows; i++)
        for (int64_t c = 0; c < r->work->columns; c++) {
            uint32_t y = x[r->rows[i] * r->work->columns + c];
            for (int step = 0; compute && step < AS_LAUNCH_CONFIG_STEPS; step++)
                y = y * 1664525u + 1013904223u;
            r->expected[i * r->work->columns + c] = compute ? y : y + 1;
            r->scale[i * r->work->columns + c] = 1;
        }
    return AS_OK;
}

const as_suite as_launch_suite = {
    .name = "launch",
    .summary = "cost of starting calls, tasks, kernels, graphs, contexts and processes",
    .axes = axes,
    .n_axes = AS_COUNT(axes),
    .variants = variants,
    .points = points,
    .describe = describe,
    .reference = reference,
};
