/* Suite launch: what starting work costs, one kernel or task at a time against a plan made beforehand. */
#include "../kernels/launch/launch.h"
#include "suites.h"

static const as_axis axes[] = {
    {"chain", "1", true, false, "", "kernels or tasks in one operation"},
    {"kernel", "empty", false, false, "", "empty: does nothing; 10us: keeps busy for 10 us by the clock"},
    AS_AXIS_THREADS,
    AS_AXIS_CACHE,
};

static const as_variant variants[] = {
    AS_LAUNCH_CPU(AS_ROW_CPU)             //
    AS_LAUNCH_CPU_STATE(AS_ROW_CPU_STATE) //
#ifdef ASSAY_CUDA
    AS_LAUNCH_CUDA(AS_ROW_CUDA)             //
    AS_LAUNCH_CUDA_STATE(AS_ROW_CUDA_STATE) //
    AS_LAUNCH_CUDA_EXTRA(AS_ROW_CUDA_EXTRA) //
#endif
    {.name = NULL},
};

static const as_point points[] = {
    {AS_QUICK, "cpu", "direct", "chain=1,8,512", 0},
    {AS_QUICK, "cpu", "pool,openmp,static_plan", "chain=1,8,512;threads=all", 0},
    {AS_QUICK, "cpu", "direct", "chain=8;kernel=10us", 1},
    {AS_QUICK, "cpu", "pool,openmp,static_plan", "chain=8;kernel=10us;threads=all", 1},
    {AS_QUICK, "cuda", "eager,eager_sync,graph", "chain=1,64,512", 0},
    {AS_QUICK, "cuda", "eager,eager_sync,graph", "chain=8;kernel=10us", 1},
    {AS_QUICK, "cuda", "graph_instantiate,graph_first_launch", "chain=512", 1},
    {AS_STANDARD, "cpu", "direct", "chain=2,32,64,256", 2},
    {AS_STANDARD, "cpu", "pool,openmp,static_plan", "chain=2,32,64,256;threads=all", 2},
    {AS_STANDARD, "cpu", "pool,openmp,static_plan", "chain=64", 3},
    {AS_STANDARD, "cpu", "direct", "chain=64;kernel=10us", 3},
    {AS_STANDARD, "cpu", "pool,openmp,static_plan", "chain=64;kernel=10us;threads=all", 3},
    {AS_STANDARD, "cuda", "eager,eager_sync,graph", "chain=2,8,32,256", 2},
    {AS_STANDARD, "cuda", "eager,eager_sync,graph", "chain=1,64;kernel=10us", 2},
    {AS_STANDARD, "cuda", "graph_instantiate,graph_first_launch", "chain=1,8,64", 2},
    {AS_PUBLISH, "cuda", "eager,eager_sync,graph", "chain=512;kernel=10us", 4},
    {AS_PUBLISH, "cpu", "pool,openmp,static_plan", "chain=512", 4},
    {.variants = NULL},
};

static as_status check(const as_params *p, const as_variant *v, const as_device *d, as_error *e) {
    AS_TRY(as_suite_check_common(p, d, e));
    const char *kernel = as_params_text(p, "kernel");
    int64_t chain = as_params_int(p, "chain");
    enum { LONGEST = 100000 };
    if (chain < 1 || chain > LONGEST)
        return as_fail(e, AS_EUSAGE, "launch: chain is 1 to %d", LONGEST);
    if (strcmp(kernel, "empty") != 0 && strcmp(kernel, "10us") != 0)
        return as_fail(e, AS_EUSAGE, "launch: kernel is empty or 10us, not '%s'", kernel);
    if (strcmp(as_params_text(p, "cache"), "warm") != 0)
        return as_fail(e, AS_EUSAGE, "launch moves no data: leave cache at warm");
    if (strcmp(v->name, "direct") == 0 && as_params_int(p, "threads") != 1)
        return as_fail(e, AS_EUSAGE, "launch/direct runs on one thread: leave threads at 1");
    return AS_OK;
}

/* Rough nanoseconds of one kernel or task and of one operation; for the planner only. */
typedef struct guess {
    const char *variant;
    double each_ns, whole_ns;
} guess;
static const guess guesses[] = {
    {"direct", 2, 0},
    {"pool", 2000, 0},
    {"openmp", 2000, 0},
    {"static_plan", 3, 2000},
    {"eager", 4000, 0},
    {"eager_sync", 9000, 0},
    {"graph", 800, 8000},
    {"graph_instantiate", 800, 30000},
    {"graph_first_launch", 3000, 60000},
};

static double predict(const as_variant *v, double chain, bool spins) {
    for (int i = 0; i < AS_COUNT(guesses); i++)
        if (strcmp(guesses[i].variant, v->name) == 0)
            return guesses[i].whole_ns + chain * (guesses[i].each_ns + (spins ? AS_LAUNCH_SPIN_NS : 0));
    return 0;
}

static as_status describe(const as_params *p, const as_variant *v, const as_device *d, as_work *w, as_error *e) {
    AS_TRY(check(p, v, d, e));
    bool cuda = strcmp(v->on, "cuda") == 0, spins = as_launch_spins(p);
    bool builds = strcmp(v->name, "graph_instantiate") == 0 || strcmp(v->name, "graph_first_launch") == 0;
    int64_t chain = as_launch_chain_of(p);
    *w = (as_work){0};
    w->convention = "no data moved";
    w->items = (double)chain;
    w->item = cuda ? "kernel" : "task";
    /* Kernels of 10 us hide the cost of starting the next one: only the time that they spend by construction is a
     * strict floor. */
    if (builds)
        w->no_ceiling = "building a graph has no measured limit";
    else if (spins)
        w->fixed_ns = (double)chain * AS_LAUNCH_SPIN_NS;
    else if (cuda)
        w->bound[w->bounds++] = (as_bound){"launch", (double)chain};
    else
        w->no_ceiling = "starting a task on the host has no measured limit";
    w->check = AS_CHECK_EFFECT;
    w->expected_count = as_launch_expected(v->name, chain);
    w->predicted_ns = predict(v, (double)chain, spins);
    return AS_OK;
}

const as_suite as_launch_suite = {
    .name = "launch",
    .summary = "cost of starting kernels and tasks",
    .axes = axes,
    .n_axes = AS_COUNT(axes),
    .variants = variants,
    .points = points,
    .describe = describe,
};
