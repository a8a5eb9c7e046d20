/* The health of one GPU for `assay doctor`: what NVML tells of it, and the rules that judge it. The rules are a pure
 * function of the reading; neither needs CUDA or a context. docs/doctor.md names the same checks (tested). */
#pragma once

#include "../../harness/finding.h"
#include "nvml.h"

#ifdef __cplusplus
extern "C" {
#endif

struct json_t;

/* NaN, -1 and "" are unknown. */
typedef struct as_gpu_health {
    bool nvml;           /* false: nothing below is known but the settings */
    char pci_bus_id[32]; /* what nvidia-smi -i takes */
    bool container;      /* settings are the host's */
    as_nvml_facts facts;
    as_nvml_reading now;
    double sm_application_hz, memory_application_hz; /* the clocks that applications are given at most */
    double power_limit_watts, power_default_watts;
    /* Errors since the driver was loaded, and ever. */
    int64_t corrected, uncorrected, corrected_ever, uncorrected_ever;
    int rows_corrected, rows_uncorrected, rows_pending, rows_failed; /* remapped memory rows; Ampere and later */
    int pages_retired, pages_pending;                                /* before Ampere */
    int compute_mode; /* nvmlComputeMode_t: 0 default, 1 exclusive thread, 2 prohibited, 3 exclusive process */
    int graphics_processes, utilization_percent, virtualization; /* the last: nvmlGpuVirtualizationMode_t */
    double memory_total_bytes, memory_free_bytes, bar1_total_bytes;
    double slowdown_c, margin_c;      /* temperature at which clocks are cut; degrees left until then */
    int driver_cuda, runtime_cuda;    /* 13000 for 13.0 */
    const char *visible_devices;      /* CUDA_VISIBLE_DEVICES; NULL where it is not set */
    char variables[160], harmful[80]; /* names of set variables that change or spoil execution */
} as_gpu_health;

/* Everything unknown. */
void as_gpu_health_init(as_gpu_health *h);
/* Adds what NVML tells; n may be NULL. */
void as_gpu_health_read(as_gpu_health *h, as_nvml *n);
/* Adds the variables of this process's environment. */
void as_gpu_health_settings(as_gpu_health *h);

typedef struct as_gpu_check {
    as_check_rule rule;
    void (*judge)(const as_gpu_health *h, as_finding *f);
} as_gpu_check;

extern const as_gpu_check as_gpu_checks[]; /* ends at rule.name NULL */
/* New array: one finding a check. */
struct json_t *as_gpu_judge(const as_gpu_health *h, const char *subject);

#ifdef __cplusplus
}
#endif
