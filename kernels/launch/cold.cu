/* What a fresh process pays before its first kernel; the harness's own process paid it long ago. Each operation starts
 * one (child.h), so its own time holds the start of a process as well; the series are timed inside it.
 *
 *   cold_context  cuInit; the primary context; the same call again. The driver alone: no kernel of ours is loaded
 *   cold_module   a module of one small kernel, all of it loaded at once; the first and the second launch. Axis image:
 *                 cubin, machine code for this GPU; ptx, compiled by the driver, its cache off; ptx_cached, with the
 *                 cache on and filled by a first process beforehand, in a folder of its own
 *   cold_runtime  cudaFree(0), and once more: what a program that knows only the runtime sees. The runtime registers the
 *                 kernels of this binary; they load lazily, as is the default
 *   contexts      `workers` contexts in one process: time of making one, memory of each, a launch in each by turns
 *
 * The child checks the kernel's output and that counts. The environment of the child: CUDA_MODULE_LOADING is what the
 * case says, CUDA_CACHE_DISABLE and CUDA_CACHE_PATH too; all else is inherited. */
#include "launch.cuh"

#include "child.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct cold_state {
    const char *mode;
    char argument[24];
    as_child_setting settings[4];
    char cache[200]; /* folder of the driver's cache; empty: none of ours */
} cold_state;

static int remove_one(const char *path, const struct stat *, int, struct FTW *) { return remove(path); }

static void finish(void *state) {
    cold_state *s = (cold_state *)state;
    if (s && s->cache[0])
        (void)nftw(s->cache, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    free(s);
}

static as_status start(const as_call *call, const cold_state *s, as_child_report *report, as_error *e) {
    AS_TRY(as_child_run(as_cuda_of(call->device)->pci_bus_id, s->mode, s->argument, s->settings, report, e));
    if (report->done)
        return AS_OK;
    if (report->signal)
        return as_fail(e, AS_EFAIL, "the fresh process was killed by signal %d", report->signal);
    return as_fail(e, AS_EFAIL, "in a fresh process: %.180s", report->message);
}

static as_status own_cache(cold_state *s, as_error *e) {
    const char *folder = getenv("TMPDIR");
    snprintf(s->cache, sizeof s->cache, "%.150s/assay-ptx-XXXXXX", folder && *folder ? folder : "/tmp");
    if (!mkdtemp(s->cache)) {
        s->cache[0] = '\0';
        return as_fail_code(e, AS_EENV, errno, "cannot make a folder for the driver's cache: %s; set TMPDIR",
                            strerror(errno));
    }
    return AS_OK;
}

static as_status make(const as_call *call, cold_state *s, as_error *e) {
    as_child_report report;
    as_child_setting *next = s->settings;
    const bool module = strcmp(s->mode, "module") == 0;
    const char *image = as_params_text(call->params, "image");
    *next++ = {"CUDA_MODULE_LOADING", module ? "EAGER" : NULL};
    if (!module) {
        snprintf(s->argument, sizeof s->argument, "%lld", (long long)as_params_int(call->params, "workers"));
        return AS_OK;
    }
    snprintf(s->argument, sizeof s->argument, "%s", image);
    if (strcmp(image, "ptx_cached") != 0) {
        *next++ = {"CUDA_CACHE_DISABLE", "1"};
        return AS_OK;
    }
    AS_TRY(own_cache(s, e));
    *next++ = {"CUDA_CACHE_DISABLE", "0"};
    *next++ = {"CUDA_CACHE_PATH", s->cache};
    return start(call, s, &report, e);
}

static as_status prepare(const as_call *call, const char *mode, void **state, as_error *e) {
    cold_state *s = (cold_state *)calloc(1, sizeof *s);
    if (!s)
        return as_fail(e, AS_ENOMEM, "no memory for the state of a cold case");
    s->mode = mode;
    const as_status status = make(call, s, e);
    if (status != AS_OK)
        finish(s);
    else
        *state = s;
    return status;
}

static as_status run(const as_call *call, as_error *e) {
    as_child_report report;
    AS_TRY(start(call, (const cold_state *)call->state, &report, e));
    for (int i = 0; call->extra && i < AS_MAX_EXTRA; i++)
        call->extra[i] = report.value[i];
    return as_launch_credit(call, 1, e);
}

#define DEFINE_HOOKS(name, mode)                                                                                       \
    as_status as_launch_##name##_prepare_cuda(const as_call *call, void **state, as_error *e) {                        \
        return prepare(call, mode, state, e);                                                                          \
    }                                                                                                                  \
    void as_launch_##name##_finish_cuda(void *state) { finish(state); }                                                \
    as_status as_launch_##name##_cuda(const as_call *call, as_error *e) { return run(call, e); }

DEFINE_HOOKS(cold_context, "context")
DEFINE_HOOKS(cold_module, "module")
DEFINE_HOOKS(cold_runtime, "runtime")
DEFINE_HOOKS(contexts, "contexts")
