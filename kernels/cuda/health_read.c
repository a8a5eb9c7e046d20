/* What NVML tells of a GPU's health. Types and numbers of NVML's public interface (docs.nvidia.com/deploy/nvml-api).
 * An entry point that this driver lacks, and a question that the GPU does not answer, leave their value unknown. */
#include "health.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NVML_OK = 0, NVML_TOO_SMALL = 7 };
enum { CLOCK_SM = 1, CLOCK_MEMORY = 2, THRESHOLD_SLOWDOWN = 1 };
enum { ERROR_CORRECTED, ERROR_UNCORRECTED, COUNTER_VOLATILE = 0, COUNTER_AGGREGATE = 1 };
enum { RETIRED_CAUSES = 2 }; /* many single-bit errors, one double-bit error */

typedef struct nvml_bytes {
    unsigned long long total, free, used;
} nvml_bytes;
typedef struct nvml_utilization {
    unsigned gpu, memory;
} nvml_utilization;
typedef struct nvml_margin {
    unsigned version;
    int margin_c;
} nvml_margin;
static const unsigned MARGIN_VERSION = (unsigned)sizeof(nvml_margin) | 1u << 24;

/* The function pointer of a name. POSIX lets dlsym's result become one. */
#define ENTRY(n, type, name)                                                                                           \
    type fn;                                                                                                           \
    *(void **)&fn = as_nvml_find((n), (name))

typedef int (*unsigned_fn)(void *, unsigned *);
typedef int (*select_fn)(void *, int, unsigned *);
typedef int (*errors_fn)(void *, int, int, unsigned long long *);
typedef int (*rows_fn)(void *, unsigned *, unsigned *, unsigned *, unsigned *);
typedef int (*pages_fn)(void *, int, unsigned *, unsigned long long *);
typedef int (*processes_fn)(void *, unsigned *, void *);
typedef int (*bytes_fn)(void *, nvml_bytes *);
typedef int (*margin_fn)(void *, nvml_margin *);
typedef int (*utilization_fn)(void *, nvml_utilization *);

static double plain(const as_nvml *n, const char *name, double scale) {
    unsigned value;
    ENTRY(n, unsigned_fn, name);
    return fn && fn(as_nvml_handle(n), &value) == NVML_OK ? value * scale : NAN;
}

static int whole(const as_nvml *n, const char *name) {
    const double value = plain(n, name, 1);
    return isnan(value) ? -1 : (int)value;
}

static double selected(const as_nvml *n, const char *name, int what, double scale) {
    unsigned value;
    ENTRY(n, select_fn, name);
    return fn && fn(as_nvml_handle(n), what, &value) == NVML_OK ? value * scale : NAN;
}

static int64_t ecc_errors(const as_nvml *n, int kind, int counter) {
    unsigned long long count;
    ENTRY(n, errors_fn, "nvmlDeviceGetTotalEccErrors");
    return fn && fn(as_nvml_handle(n), kind, counter, &count) == NVML_OK ? (int64_t)count : -1;
}

static void read_rows(const as_nvml *n, as_gpu_health *h) {
    unsigned corrected, uncorrected, pending, failed;
    ENTRY(n, rows_fn, "nvmlDeviceGetRemappedRows");
    if (!fn || fn(as_nvml_handle(n), &corrected, &uncorrected, &pending, &failed) != NVML_OK)
        return;
    h->rows_corrected = (int)corrected;
    h->rows_uncorrected = (int)uncorrected;
    h->rows_pending = (int)pending;
    h->rows_failed = (int)failed;
}

/* A count of 0 and no array ask for the number alone. */
static int retired_pages(const as_nvml *n) {
    ENTRY(n, pages_fn, "nvmlDeviceGetRetiredPages");
    int sum = 0;
    for (int cause = 0; fn && cause < RETIRED_CAUSES; cause++) {
        unsigned count = 0;
        const int code = fn(as_nvml_handle(n), cause, &count, NULL);
        if (code != NVML_OK && code != NVML_TOO_SMALL)
            return -1;
        sum += (int)count;
    }
    return fn ? sum : -1;
}

/* With a count of 0 and no list NVML tells the number of processes. */
static int graphics_processes(const as_nvml *n) {
    unsigned count = 0;
    ENTRY(n, processes_fn, "nvmlDeviceGetGraphicsRunningProcesses_v3");
    const int code = fn ? fn(as_nvml_handle(n), &count, NULL) : -1;
    return code == NVML_OK || code == NVML_TOO_SMALL ? (int)count : -1;
}

static void read_memory(const as_nvml *n, as_gpu_health *h) {
    nvml_bytes memory, bar1;
    ENTRY(n, bytes_fn, "nvmlDeviceGetMemoryInfo");
    if (fn && fn(as_nvml_handle(n), &memory) == NVML_OK) {
        h->memory_total_bytes = (double)memory.total;
        h->memory_free_bytes = (double)memory.free;
    }
    *(void **)&fn = as_nvml_find(n, "nvmlDeviceGetBAR1MemoryInfo");
    if (fn && fn(as_nvml_handle(n), &bar1) == NVML_OK)
        h->bar1_total_bytes = (double)bar1.total;
}

/* From Ada on the slowdown temperature is no longer told, the margin is. */
static void read_temperature(const as_nvml *n, as_gpu_health *h) {
    nvml_margin margin = {.version = MARGIN_VERSION};
    ENTRY(n, margin_fn, "nvmlDeviceGetMarginTemperature");
    h->slowdown_c = selected(n, "nvmlDeviceGetTemperatureThreshold", THRESHOLD_SLOWDOWN, 1);
    if (fn && fn(as_nvml_handle(n), &margin) == NVML_OK)
        h->margin_c = margin.margin_c;
    else
        h->margin_c = h->slowdown_c - h->now.temperature_c;
}

void as_gpu_health_init(as_gpu_health *h) {
    *h = (as_gpu_health){.sm_application_hz = NAN,
                         .memory_application_hz = NAN,
                         .power_limit_watts = NAN,
                         .power_default_watts = NAN,
                         .corrected = -1,
                         .uncorrected = -1,
                         .corrected_ever = -1,
                         .uncorrected_ever = -1,
                         .rows_corrected = -1,
                         .rows_uncorrected = -1,
                         .rows_pending = -1,
                         .rows_failed = -1,
                         .pages_retired = -1,
                         .pages_pending = -1,
                         .compute_mode = -1,
                         .graphics_processes = -1,
                         .utilization_percent = -1,
                         .virtualization = -1,
                         .memory_total_bytes = NAN,
                         .memory_free_bytes = NAN,
                         .bar1_total_bytes = NAN,
                         .slowdown_c = NAN,
                         .margin_c = NAN};
    as_nvml_read_facts(NULL, &h->facts);
    as_nvml_read(NULL, &h->now);
}

void as_gpu_health_read(as_gpu_health *h, as_nvml *n) {
    h->nvml = n != NULL;
    if (!n)
        return;
    as_nvml_read_facts(n, &h->facts);
    as_nvml_read(n, &h->now);
    h->sm_application_hz = selected(n, "nvmlDeviceGetApplicationsClock", CLOCK_SM, 1e6);
    h->memory_application_hz = selected(n, "nvmlDeviceGetApplicationsClock", CLOCK_MEMORY, 1e6);
    h->power_limit_watts = plain(n, "nvmlDeviceGetPowerManagementLimit", 1e-3);
    h->power_default_watts = plain(n, "nvmlDeviceGetPowerManagementDefaultLimit", 1e-3);
    h->corrected = ecc_errors(n, ERROR_CORRECTED, COUNTER_VOLATILE);
    h->uncorrected = ecc_errors(n, ERROR_UNCORRECTED, COUNTER_VOLATILE);
    h->corrected_ever = ecc_errors(n, ERROR_CORRECTED, COUNTER_AGGREGATE);
    h->uncorrected_ever = ecc_errors(n, ERROR_UNCORRECTED, COUNTER_AGGREGATE);
    read_rows(n, h);
    h->pages_retired = retired_pages(n);
    h->pages_pending = whole(n, "nvmlDeviceGetRetiredPagesPendingStatus");
    h->compute_mode = whole(n, "nvmlDeviceGetComputeMode");
    h->virtualization = whole(n, "nvmlDeviceGetVirtualizationMode");
    h->graphics_processes = graphics_processes(n);
    nvml_utilization use;
    ENTRY(n, utilization_fn, "nvmlDeviceGetUtilizationRates");
    if (fn && fn(as_nvml_handle(n), &use) == NVML_OK)
        h->utilization_percent = (int)use.gpu;
    read_memory(n, h);
    read_temperature(n, h);
}

/* ---- the environment: names alone ---- */

static void append(char *list, size_t size, const char *name) {
    const size_t used = strlen(list);
    snprintf(list + used, size - used, "%s%s", used ? " " : "", name);
}

void as_gpu_health_settings(as_gpu_health *h) {
    static const char *const changes[] = {"CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_DEVICE_ORDER",
                                          "CUDA_MPS_PIPE_DIRECTORY",     "NVIDIA_TF32_OVERRIDE",
                                          "CUBLAS_WORKSPACE_CONFIG",     "CUDA_CACHE_DISABLE"};
    static const char *const spoils[] = {"CUDA_LAUNCH_BLOCKING", "CUDA_FORCE_PTX_JIT", "CUDA_INJECTION64_PATH",
                                         "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"};
    h->visible_devices = getenv("CUDA_VISIBLE_DEVICES");
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
        if (getenv(changes[i]))
            append(h->variables, sizeof h->variables, changes[i]);
    for (size_t i = 0; i < sizeof spoils / sizeof *spoils; i++) {
        const char *value = getenv(spoils[i]);
        if (value && *value && strcmp(value, "0") != 0)
            append(h->harmful, sizeof h->harmful, spoils[i]);
    }
}
