#include "nvml.h"

#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Types and numbers of NVML's public interface (docs.nvidia.com/deploy/nvml-api). */
typedef void *nvml_device;
typedef struct nvml_process {
    unsigned pid;
    unsigned long long memory;
    unsigned gpu_instance, compute_instance;
} nvml_process;
typedef struct nvml_violation {
    unsigned long long reference_time, violation_time;
} nvml_violation;
enum {
    NVML_OK = 0,
    NVML_MORE = 7,
    CLOCK_SM = 1,
    CLOCK_MEMORY = 2,
    TEMPERATURE_GPU = 0,
    POLICY_POWER = 0,
    POLICY_THERMAL = 1
};

typedef int (*unsigned_fn)(nvml_device, unsigned *);
typedef int (*select_fn)(nvml_device, int, unsigned *);
typedef int (*pair_fn)(nvml_device, unsigned *, unsigned *);

typedef enum query_id {
    Q_THROTTLE,
    Q_SM,
    Q_POWER_VIOLATION,
    Q_THERMAL_VIOLATION,
    Q_POWER,
    Q_TEMPERATURE,
    Q_MEMORY,
    Q_PROCESSES,
    QUERIES
} query_id;

/* The last answer of one query and what it cost. */
typedef struct cached {
    double value;
    int64_t read_at_ns, cost_ns;
} cached;

struct as_nvml {
    void *library;
    nvml_device device;
    int (*shutdown)(void);
    int (*driver_version)(char *, unsigned);
    select_fn clock, max_clock, temperature;
    unsigned_fn power, power_limit, persistence;
    unsigned_fn generation, generation_max, width, width_max;
    pair_fn ecc, mig;
    int (*throttle)(nvml_device, unsigned long long *);
    int (*violation)(nvml_device, int, nvml_violation *);
    int (*processes)(nvml_device, unsigned *, nvml_process *);
    cached last[QUERIES];
};

/* An absent entry point leaves NULL, and its value unknown. POSIX lets dlsym's result become a function pointer. */
static void *find(void *library, const char *name) { return dlsym(library, name); }
#define FIND(n, member, name) (*(void **)&(n)->member = find((n)->library, (name)))

static void resolve(as_nvml *n) {
    FIND(n, shutdown, "nvmlShutdown");
    FIND(n, driver_version, "nvmlSystemGetDriverVersion");
    FIND(n, clock, "nvmlDeviceGetClockInfo");
    FIND(n, max_clock, "nvmlDeviceGetMaxClockInfo");
    FIND(n, temperature, "nvmlDeviceGetTemperature");
    FIND(n, power, "nvmlDeviceGetPowerUsage");
    FIND(n, power_limit, "nvmlDeviceGetEnforcedPowerLimit");
    FIND(n, persistence, "nvmlDeviceGetPersistenceMode");
    FIND(n, generation, "nvmlDeviceGetCurrPcieLinkGeneration");
    FIND(n, generation_max, "nvmlDeviceGetMaxPcieLinkGeneration");
    FIND(n, width, "nvmlDeviceGetCurrPcieLinkWidth");
    FIND(n, width_max, "nvmlDeviceGetMaxPcieLinkWidth");
    FIND(n, ecc, "nvmlDeviceGetEccMode");
    FIND(n, mig, "nvmlDeviceGetMigMode");
    FIND(n, violation, "nvmlDeviceGetViolationStatus");
    FIND(n, processes, "nvmlDeviceGetComputeRunningProcesses_v3");
    FIND(n, throttle, "nvmlDeviceGetCurrentClocksEventReasons"); /* since driver 535 */
    if (!n->throttle)
        FIND(n, throttle, "nvmlDeviceGetCurrentClocksThrottleReasons");
}

as_nvml *as_nvml_open(const char *pci_bus_id) {
    as_nvml *n = calloc(1, sizeof *n);
    if (!n)
        return NULL;
    n->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!n->library)
        goto fail;
    int (*init)(void);
    int (*by_pci)(const char *, nvml_device *);
    *(void **)&init = find(n->library, "nvmlInit_v2");
    *(void **)&by_pci = find(n->library, "nvmlDeviceGetHandleByPciBusId_v2");
    if (!init || !by_pci || init() != NVML_OK)
        goto fail;
    resolve(n);
    if (by_pci(pci_bus_id, &n->device) == NVML_OK)
        return n;
fail:
    as_nvml_close(n);
    return NULL;
}

void as_nvml_close(as_nvml *n) {
    if (!n)
        return;
    if (n->shutdown) /* resolved only after init succeeded */
        (void)n->shutdown();
    if (n->library)
        dlclose(n->library);
    free(n);
}

static double selected(const as_nvml *n, select_fn fn, int what, double scale) {
    unsigned value;
    return fn && fn(n->device, what, &value) == NVML_OK ? value * scale : NAN;
}

static double plain(const as_nvml *n, unsigned_fn fn, double scale) {
    unsigned value;
    return fn && fn(n->device, &value) == NVML_OK ? value * scale : NAN;
}

static int whole(const as_nvml *n, unsigned_fn fn) {
    const double value = plain(n, fn, 1);
    return isnan(value) ? -1 : (int)value;
}

static int mode(const as_nvml *n, pair_fn fn) {
    unsigned current, pending;
    return fn && fn(n->device, &current, &pending) == NVML_OK ? (int)current : -1;
}

void as_nvml_read_facts(as_nvml *n, as_nvml_facts *out) {
    *out = (as_nvml_facts){.sm_clock_max_hz = NAN,
                           .memory_clock_max_hz = NAN,
                           .power_limit_watts = NAN,
                           .ecc = -1,
                           .mig = -1,
                           .persistence = -1,
                           .pcie_generation = -1,
                           .pcie_generation_max = -1,
                           .pcie_width = -1,
                           .pcie_width_max = -1};
    if (!n)
        return;
    if (!n->driver_version || n->driver_version(out->driver, sizeof out->driver) != NVML_OK)
        out->driver[0] = '\0';
    out->sm_clock_max_hz = selected(n, n->max_clock, CLOCK_SM, 1e6);
    out->memory_clock_max_hz = selected(n, n->max_clock, CLOCK_MEMORY, 1e6);
    out->power_limit_watts = plain(n, n->power_limit, 1e-3);
    out->ecc = mode(n, n->ecc);
    out->mig = mode(n, n->mig);
    out->persistence = whole(n, n->persistence);
    out->pcie_generation = whole(n, n->generation);
    out->pcie_generation_max = whole(n, n->generation_max);
    out->pcie_width = whole(n, n->width);
    out->pcie_width_max = whole(n, n->width_max);
}

static double count_processes(const as_nvml *n) {
    nvml_process list[64];
    unsigned count = sizeof list / sizeof *list;
    if (!n->processes)
        return NAN;
    const int code = n->processes(n->device, &count, list);
    return code == NVML_OK || code == NVML_MORE ? count : NAN; /* MORE: count is the number there is */
}

static double violation(const as_nvml *n, int policy) {
    nvml_violation v;
    return n->violation && n->violation(n->device, policy, &v) == NVML_OK ? (double)v.violation_time : NAN;
}

static double ask(const as_nvml *n, query_id id) {
    unsigned long long mask;
    switch (id) {
    case Q_THROTTLE: return n->throttle && n->throttle(n->device, &mask) == NVML_OK ? (double)mask : NAN;
    case Q_SM: return selected(n, n->clock, CLOCK_SM, 1e6);
    case Q_MEMORY: return selected(n, n->clock, CLOCK_MEMORY, 1e6);
    case Q_POWER: return plain(n, n->power, 1e-3);
    case Q_TEMPERATURE: return selected(n, n->temperature, TEMPERATURE_GPU, 1);
    case Q_POWER_VIOLATION: return violation(n, POLICY_POWER);
    case Q_THERMAL_VIOLATION: return violation(n, POLICY_THERMAL);
    case Q_PROCESSES: return count_processes(n);
    case QUERIES: break;
    }
    return NAN;
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* A query over FAST_NS is repeated only once SHARE times its cost has passed, which keeps it under 1% of the time. */
enum { FAST_NS = 300000, BUDGET_NS = 1500000, SHARE = 100 };

static bool due(const cached *c, int64_t begin_ns, int64_t at_ns) {
    if (c->read_at_ns == 0)
        return true;
    if (at_ns - begin_ns > BUDGET_NS)
        return false;
    return c->cost_ns <= FAST_NS || at_ns - c->read_at_ns >= SHARE * c->cost_ns;
}

/* In the order of query_id, so that what decides validity is read first. */
static void refresh(as_nvml *n) {
    const int64_t begin_ns = now_ns();
    for (int id = 0; id < QUERIES; id++) {
        cached *c = &n->last[id];
        const int64_t at_ns = now_ns();
        if (!due(c, begin_ns, at_ns))
            continue;
        c->value = ask(n, (query_id)id);
        c->read_at_ns = now_ns();
        c->cost_ns = c->read_at_ns - at_ns;
    }
}

void as_nvml_read(as_nvml *n, as_nvml_reading *out) {
    *out = (as_nvml_reading){.throttle = -1,
                             .sm_clock_hz = NAN,
                             .memory_clock_hz = NAN,
                             .power_watts = NAN,
                             .temperature_c = NAN,
                             .power_violation_ns = NAN,
                             .thermal_violation_ns = NAN,
                             .processes = -1};
    if (!n)
        return;
    refresh(n);
    const cached *last = n->last;
    out->throttle = isnan(last[Q_THROTTLE].value) ? -1 : (int64_t)last[Q_THROTTLE].value;
    out->sm_clock_hz = last[Q_SM].value;
    out->memory_clock_hz = last[Q_MEMORY].value;
    out->power_watts = last[Q_POWER].value;
    out->temperature_c = last[Q_TEMPERATURE].value;
    out->power_violation_ns = last[Q_POWER_VIOLATION].value;
    out->thermal_violation_ns = last[Q_THERMAL_VIOLATION].value;
    out->processes = isnan(last[Q_PROCESSES].value) ? -1 : (int)last[Q_PROCESSES].value;
}

void *as_nvml_find(const as_nvml *n, const char *name) { return find(n->library, name); }
void *as_nvml_handle(const as_nvml *n) { return n->device; }
