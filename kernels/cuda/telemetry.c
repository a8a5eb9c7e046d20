/* A CUDA device as a source of telemetry, through NVML alone: no context is made on it, so that a process that only
 * watches takes no memory and no time of the device. */
#include "../../harness/telemetry.h"
#include "cuda.h"
#include "nvml.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef enum column {
    SM_CLOCK,
    MEMORY_CLOCK,
    POWER,
    TEMPERATURE,
    MEMORY_TEMPERATURE,
    UTILISATION,
    MEMORY_UTILISATION,
    MEMORY_USED,
    THROTTLE,
    POWER_THROTTLE,
    THERMAL_THROTTLE,
    SYNC_BOOST_THROTTLE,
    BOARD_THROTTLE,
    PCIE_SENT,
    PCIE_RECEIVED,
} column;

/* Throttle times come in ns: their rate is the share of time. */
static const as_telemetry_column columns[] = {
    [SM_CLOCK] = {"sm_clock_hz", AS_GAUGE, 1, "sm", "MHz", 1e-6, 0},
    [MEMORY_CLOCK] = {"memory_clock_hz", AS_GAUGE, 1, "mem", "MHz", 1e-6, 0},
    [POWER] = {"power_watts", AS_GAUGE, 1, "power", "W", 1, 1},
    [TEMPERATURE] = {"temperature_c", AS_GAUGE, 1, "temp", "C", 1, 0},
    [MEMORY_TEMPERATURE] = {"memory_temperature_c", AS_GAUGE, 1, "mtemp", "C", 1, 0},
    [UTILISATION] = {"utilisation_fraction", AS_GAUGE, 1, "util", "%", 100, 0},
    [MEMORY_UTILISATION] = {"memory_utilisation_fraction", AS_GAUGE, 1, "mutil", "%", 100, 0},
    [MEMORY_USED] = {"memory_used_bytes", AS_GAUGE, 1, "used", "GB", 1e-9, 2},
    [THROTTLE] = {"throttle_mask", AS_MASK, 1, "why", "bits", 1, 0},
    [POWER_THROTTLE] = {"power_throttle_fraction", AS_RATE, 1e-9, "pwr_cap", "%", 100, 1},
    [THERMAL_THROTTLE] = {"thermal_throttle_fraction", AS_RATE, 1e-9, "thermal", "%", 100, 1},
    [SYNC_BOOST_THROTTLE] = {"sync_boost_throttle_fraction", AS_RATE, 1e-9, "syncb", "%", 100, 1},
    [BOARD_THROTTLE] = {"board_limit_throttle_fraction", AS_RATE, 1e-9, "board", "%", 100, 1},
    [PCIE_SENT] = {"pcie_sent_bytes_per_s", AS_GAUGE, 1, "tx", "GB/s", 1e-9, 2},
    [PCIE_RECEIVED] = {"pcie_received_bytes_per_s", AS_GAUGE, 1, "rx", "GB/s", 1e-9, 2},
    {0},
};

typedef struct monitor {
    as_nvml *nvml;
    bool mig;
    double pcie_bytes[2], pcie_rate[2]; /* sent, received; NaN before */
    int64_t pcie_at_ns;
    int turn; /* direction that the slow query asks next */
} monitor;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void *cuda_monitor_open(const json_t *description) {
    const char *bus = json_string_value(json_object_get(description, "pci_bus_id"));
    monitor *m = bus ? (monitor *)calloc(1, sizeof *m) : NULL;
    if (!m)
        return NULL;
    m->nvml = as_nvml_open(bus);
    if (!m->nvml) {
        free(m);
        return NULL;
    }
    as_nvml_facts facts;
    as_nvml_read_facts(m->nvml, &facts);
    m->mig = facts.mig == 1;
    for (int i = 0; i < 2; i++)
        m->pcie_bytes[i] = m->pcie_rate[i] = NAN;
    return m;
}

static void cuda_monitor_close(void *monitor_) {
    monitor *m = (monitor *)monitor_;
    if (m)
        as_nvml_close(m->nvml);
    free(m);
}

/* From the counters where the driver has them. Otherwise by a query that lasts 20 ms: one direction at a time, at most
 * once a second; the other keeps its last value. */
static void read_pcie(monitor *m, const as_nvml_sample *s, double *out) {
    const double bytes[] = {s->pcie_sent_bytes, s->pcie_received_bytes};
    const int64_t at_ns = now_ns();
    const double seconds = (double)(at_ns - m->pcie_at_ns) * 1e-9;
    if (isfinite(bytes[0]) && isfinite(bytes[1])) {
        for (int i = 0; i < 2; i++) {
            const double grown = bytes[i] - m->pcie_bytes[i];
            m->pcie_rate[i] = grown >= 0 && seconds > 0 ? grown / seconds : NAN;
            m->pcie_bytes[i] = bytes[i];
        }
        m->pcie_at_ns = at_ns;
    } else if (seconds >= 1) {
        m->pcie_rate[m->turn] = as_nvml_pcie_bytes_per_s(m->nvml, m->turn == 1);
        m->turn = 1 - m->turn;
        m->pcie_at_ns = at_ns;
    }
    out[PCIE_SENT] = m->pcie_rate[0];
    out[PCIE_RECEIVED] = m->pcie_rate[1];
}

static void cuda_monitor_read(void *monitor_, double *out) {
    monitor *m = (monitor *)monitor_;
    as_nvml_sample s;
    as_nvml_read_sample(m->nvml, &s);
    out[SM_CLOCK] = s.sm_clock_hz;
    out[MEMORY_CLOCK] = s.memory_clock_hz;
    out[POWER] = s.power_watts;
    out[TEMPERATURE] = s.temperature_c;
    out[MEMORY_TEMPERATURE] = s.memory_temperature_c > 0 ? s.memory_temperature_c : NAN; /* 0: no such sensor */
    out[UTILISATION] = s.utilisation;
    out[MEMORY_UTILISATION] = s.memory_utilisation;
    out[MEMORY_USED] = s.memory_used_bytes;
    out[THROTTLE] = s.throttle < 0 ? NAN : (double)s.throttle;
    out[POWER_THROTTLE] = s.power_violation_ns;
    out[THERMAL_THROTTLE] = s.thermal_violation_ns;
    out[SYNC_BOOST_THROTTLE] = s.sync_boost_violation_ns;
    out[BOARD_THROTTLE] = s.board_violation_ns;
    read_pcie(m, &s, out);
}

static bool cuda_monitor_energy(void *monitor_, double *joules, char reason[160]) {
    monitor *m = (monitor *)monitor_;
    *joules = m->mig ? NAN : as_nvml_energy_joules(m->nvml);
    if (isfinite(*joules))
        return true;
    snprintf(reason, 160, "%s",
             m->mig ? "the GPU is split (MIG): its energy counter is that of the whole GPU"
                    : "NVML tells no total energy of this GPU (Volta and later have it)");
    return false;
}

const as_device_telemetry as_cuda_telemetry = {
    .columns = columns,
    .open = cuda_monitor_open,
    .close = cuda_monitor_close,
    .read = cuda_monitor_read,
    .energy = cuda_monitor_energy,
};
