/* A fresh process of this binary for what happens once a process: contexts, modules, errors that a context does not
 * survive. `assay __launch REPORT_FD PARENT BUS_ID MODE ARGUMENT` does MODE on the GPU of that PCI bus id and writes one
 * as_child_report to REPORT_FD. */
#pragma once

#include "driver_api.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct as_child_report {
    bool done;         /* the mode went through to its end */
    int signal;        /* what killed the process; 0: it ended by itself. Filled by the parent */
    double value[3];   /* the extra series of the case: ns, bytes or codes */
    char message[200]; /* why it did not */
} as_child_report;

/* Settings of the environment for the child: name and value; value NULL unsets. Ends at name NULL. */
typedef struct as_child_setting {
    const char *name, *value;
} as_child_setting;

/* Runs the mode to its end. AS_EFAIL: no child, no answer within 30 s, or a child within a child. A report that is not
 * `done` is AS_OK: the caller judges it. */
as_status as_child_run(const char *bus, const char *mode, const char *argument, const as_child_setting *settings,
                       as_child_report *out, as_error *e) AS_MUST_CHECK;

/* What a mode does, in the child. `device` and `api` are ready; no context exists yet. */
typedef struct as_child_job {
    const as_cu_api *api;
    const char *bus, *argument;
    int device; /* ordinal of the driver; -1 before cuInit (mode context times that call) */
    as_child_report *report;
} as_child_job;

/* Modes by name: AS_OK and report.value, or why not. child_cold.c and child_misuse.cu */
as_status as_child_context(as_child_job *j, as_error *e);
as_status as_child_module(as_child_job *j, as_error *e);
as_status as_child_runtime(as_child_job *j, as_error *e);
as_status as_child_contexts(as_child_job *j, as_error *e);
as_status as_child_freed_memory(as_child_job *j, as_error *e);
as_status as_child_second_context(as_child_job *j, as_error *e);
as_status as_child_shared_exec(as_child_job *j, as_error *e);
as_status as_child_older_cubin(as_child_job *j, as_error *e);
as_status as_child_static_jit(as_child_job *j, as_error *e);

/* ---- the embedded module (module.cu): kernel `as_cold_kernel(unsigned *out)`, out[i] = 3 i + 1, 64 threads ---- */

enum { AS_COLD_THREADS = 64 };
extern const unsigned char as_cold_cubin[]; /* fat binary: machine code of every architecture of the build */
extern const unsigned char as_cold_older[]; /* machine code of compute capability 7.5 */
extern const unsigned char as_cold_ptx[];   /* PTX for compute capability 7.5 and above, ends in 0 */

/* A module in the current context: loads, finds the kernel; runs it once and checks its output. Codes of the driver. */
int as_cold_load(const as_cu_api *api, const void *image, as_cu_module *module, as_cu_function *kernel);
int as_cold_launch(const as_cu_api *api, as_cu_function kernel, as_cu_pointer out);
bool as_cold_correct(const as_cu_api *api, as_cu_pointer out);
double as_cold_now_ns(void);

#ifdef __cplusplus
}
#endif
