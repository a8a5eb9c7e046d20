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
    POLICY_THERMAL = 1,
    POLICY_SYNC_BOOST = 2,
    POLICY_BOARD_LIMIT = 3,
    VALUE_DOUBLE = 0,
    VALUE_UNSIGNED = 1,
    VALUE_UNSIGNED_LONG = 2,
    VALUE_UNSIGNED_LONG_LONG = 3,
    VALUE_SIGNED_LONG_LONG = 4,
    VALUE_SIGNED = 5
};
typedef struct nvml_utilisation {
    unsigned gpu, memory; /* percent */
} nvml_utilisation;
typedef struct nvml_memory {
    unsigned long long total, free, used;
} nvml_memory;
typedef struct nvml_field {
    unsigned id, scope;
    long long timestamp, latency_us;
    int type, code;
    union {
        double real;
        unsigned whole;
        unsigned long long large;
        long long signed_large;
        int signed_whole;
    } value;
} nvml_field;

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
    Q_SYNC_BOOST_VIOLATION,
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
    int (*utilisation)(nvml_device, nvml_utilisation *);
    int (*memory)(nvml_device, nvml_memory *);
    int (*energy)(nvml_device, unsigned long long *);
    int (*fields)(nvml_device, int, nvml_field *);
    select_fn throughput;
    cached last[QUERIES];
    double sm_clock_max_hz; /* asked once */
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
    FIND(n, utilisation, "nvmlDeviceGetUtilizationRates");
    FIND(n, memory, "nvmlDeviceGetMemoryInfo");
    FIND(n, energy, "nvmlDeviceGetTotalEnergyConsumption");
    FIND(n, fields, "nvmlDeviceGetFieldValues");
    FIND(n, throughput, "nvmlDeviceGetPcieThroughput");
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
    case Q_SYNC_BOOST_VIOLATION: return violation(n, POLICY_SYNC_BOOST);
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
                             .sm_clock_max_hz = NAN,
                             .memory_clock_hz = NAN,
                             .power_watts = NAN,
                             .temperature_c = NAN,
                             .power_violation_ns = NAN,
                             .thermal_violation_ns = NAN,
                             .sync_boost_violation_ns = NAN,
                             .processes = -1};
    if (!n)
        return;
    refresh(n);
    const cached *last = n->last;
    out->throttle = isnan(last[Q_THROTTLE].value) ? -1 : (int64_t)last[Q_THROTTLE].value;
    out->sm_clock_hz = last[Q_SM].value;
    if (!(n->sm_clock_max_hz > 0))
        n->sm_clock_max_hz = selected(n, n->max_clock, CLOCK_SM, 1e6);
    out->sm_clock_max_hz = n->sm_clock_max_hz;
    out->memory_clock_hz = last[Q_MEMORY].value;
    out->power_watts = last[Q_POWER].value;
    out->temperature_c = last[Q_TEMPERATURE].value;
    out->power_violation_ns = last[Q_POWER_VIOLATION].value;
    out->thermal_violation_ns = last[Q_THERMAL_VIOLATION].value;
    out->sync_boost_violation_ns = last[Q_SYNC_BOOST_VIOLATION].value;
    out->processes = isnan(last[Q_PROCESSES].value) ? -1 : (int)last[Q_PROCESSES].value;
}

void *as_nvml_find(const as_nvml *n, const char *name) { return find(n->library, name); }
void *as_nvml_handle(const as_nvml *n) { return n->device; }
/* ---- for curves ---- */

/* Value of one field; *wide (may be NULL) says that it has 64 bits. */
static double field(const nvml_field *f, bool *wide) {
    if (wide)
        *wide = f->type == VALUE_UNSIGNED_LONG || f->type == VALUE_UNSIGNED_LONG_LONG;
    if (f->code != NVML_OK)
        return NAN;
    switch (f->type) {
    case VALUE_DOUBLE: return f->value.real;
    case VALUE_UNSIGNED: return f->value.whole;
    case VALUE_UNSIGNED_LONG:
    case VALUE_UNSIGNED_LONG_LONG: return (double)f->value.large;
    case VALUE_SIGNED_LONG_LONG: return (double)f->value.signed_large;
    case VALUE_SIGNED: return f->value.signed_whole;
    default: return NAN;
    }
}

static void sample_fields(const as_nvml *n, as_nvml_sample *out) {
    enum { MEMORY_TEMPERATURE = 82, POWER_NOW = 186, PCIE_SENT = 197, PCIE_RECEIVED = 198, FIELDS = 4 };
    nvml_field f[FIELDS] = {{.id = MEMORY_TEMPERATURE}, {.id = POWER_NOW}, {.id = PCIE_SENT}, {.id = PCIE_RECEIVED}};
    if (!n->fields || n->fields(n->device, FIELDS, f) != NVML_OK)
        return;
    bool sent, received;
    out->memory_temperature_c = field(&f[0], NULL);
    out->power_watts = field(&f[1], NULL) * 1e-3;
    out->pcie_sent_bytes = field(&f[2], &sent);
    out->pcie_received_bytes = field(&f[3], &received);
    if (!sent || !received) /* 32 bits of bytes are full in 0.1 s: what wrapped how often cannot be known */
        out->pcie_sent_bytes = out->pcie_received_bytes = NAN;
}

void as_nvml_read_sample(as_nvml *n, as_nvml_sample *out) {
    *out = (as_nvml_sample){.throttle = -1};
    double *const known[] = {&out->power_watts,         &out->memory_temperature_c, &out->pcie_sent_bytes,
                             &out->pcie_received_bytes, &out->utilisation,          &out->memory_utilisation,
                             &out->memory_used_bytes};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        *known[i] = NAN;
    const double mask = ask(n, Q_THROTTLE);
    out->throttle = isnan(mask) ? -1 : (int64_t)mask;
    out->sm_clock_hz = ask(n, Q_SM);
    out->memory_clock_hz = ask(n, Q_MEMORY);
    out->temperature_c = ask(n, Q_TEMPERATURE);
    out->power_violation_ns = ask(n, Q_POWER_VIOLATION);
    out->thermal_violation_ns = ask(n, Q_THERMAL_VIOLATION);
    out->sync_boost_violation_ns = ask(n, Q_SYNC_BOOST_VIOLATION);
    out->board_violation_ns = violation(n, POLICY_BOARD_LIMIT);
    sample_fields(n, out);
    if (isnan(out->power_watts)) /* older drivers; a mean of up to a second */
        out->power_watts = ask(n, Q_POWER);
    nvml_utilisation u;
    if (n->utilisation && n->utilisation(n->device, &u) == NVML_OK) {
        out->utilisation = u.gpu * 1e-2;
        out->memory_utilisation = u.memory * 1e-2;
    }
    nvml_memory m;
    if (n->memory && n->memory(n->device, &m) == NVML_OK)
        out->memory_used_bytes = (double)m.used;
}

double as_nvml_pcie_bytes_per_s(as_nvml *n, bool received) {
    return selected(n, n->throughput, received ? 1 : 0, 1024); /* "KB/s"; sent is 0, received 1 */
}

double as_nvml_energy_joules(as_nvml *n) {
    unsigned long long millijoules;
    return n->energy && n->energy(n->device, &millijoules) == NVML_OK ? (double)millijoules * 1e-3 : NAN;
}
