/* NVML, loaded at run time and found by PCI bus id: its own order of devices differs from CUDA's. Anything that NVML
 * or the driver does not tell is a NaN, -1 or "" here; nothing fails for lack of it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct as_nvml as_nvml;

/* NULL where libnvidia-ml.so.1 is absent, does not start, or does not know the device. */
as_nvml *as_nvml_open(const char *pci_bus_id);
void as_nvml_close(as_nvml *n); /* NULL allowed */

/* What does not change within a run. */
typedef struct as_nvml_facts {
    char driver[80]; /* "580.95.05" */
    double sm_clock_max_hz, memory_clock_max_hz;
    double power_limit_watts;                                             /* enforced: the lowest of all limits */
    int ecc, mig, persistence;                                            /* 1, 0; -1 unknown */
    int pcie_generation, pcie_generation_max, pcie_width, pcie_width_max; /* -1 unknown */
} as_nvml_facts;
void as_nvml_read_facts(as_nvml *n, as_nvml_facts *out); /* n may be NULL: all unknown */

/* Bits of as_nvml_reading.throttle (nvmlClocksEventReasons). */
enum {
    AS_THROTTLE_IDLE = 0x1,
    AS_THROTTLE_APPLICATION_CLOCKS = 0x2,
    AS_THROTTLE_POWER_CAP = 0x4,
    AS_THROTTLE_HW_SLOWDOWN = 0x8,
    AS_THROTTLE_SYNC_BOOST = 0x10,
    AS_THROTTLE_SW_THERMAL = 0x20,
    AS_THROTTLE_HW_THERMAL = 0x40,
    AS_THROTTLE_POWER_BRAKE = 0x80,
    AS_THROTTLE_DISPLAY = 0x100,
};

typedef struct as_nvml_reading {
    int64_t throttle;                    /* bit mask; -1 unknown */
    double sm_clock_hz, memory_clock_hz; /* NaN unknown, as below */
    double sm_clock_max_hz;
    double power_watts, temperature_c;
    /* Time spent below the asked clocks, since the driver loaded. */
    double power_violation_ns, thermal_violation_ns, sync_boost_violation_ns;
    int processes; /* with a compute context on the device, this one included; -1 unknown */
} as_nvml_reading;

/* Made to stay under 2 ms: a query that proved to take over 0.3 ms is repeated only so often that it takes 1% of the
 * time, and no query starts once 1.5 ms have passed; the value of its last call stands in. The first reading asks
 * everything, and a single query that the driver answers slowly can still exceed the 2 ms. */
void as_nvml_read(as_nvml *n, as_nvml_reading *out); /* n may be NULL: all unknown */

/* For files that read more: an entry point of the library (NULL where this driver has none), and NVML's handle. */
void *as_nvml_find(const as_nvml *n, const char *name);
void *as_nvml_handle(const as_nvml *n);
/* For curves: everything is asked anew, whatever it costs. NaN or -1 unknown. */
typedef struct as_nvml_sample {
    int64_t throttle;
    double sm_clock_hz, memory_clock_hz, temperature_c, memory_temperature_c;
    double power_watts; /* of this moment where the driver tells (field POWER_INSTANT), else the driver's mean */
    double utilisation, memory_utilisation; /* fractions of the driver's last sample period (1/6 to 1 s) */
    double memory_used_bytes;
    double power_violation_ns, thermal_violation_ns, sync_boost_violation_ns, board_violation_ns;
    double pcie_sent_bytes, pcie_received_bytes; /* counters; since driver 555 */
} as_nvml_sample;
void as_nvml_read_sample(as_nvml *n, as_nvml_sample *out);
/* Traffic over the last 20 ms; the call lasts as long. */
double as_nvml_pcie_bytes_per_s(as_nvml *n, bool received);
/* Since the driver loaded, of the whole GPU; a step of 1 mJ, renewed some ten times a second. */
double as_nvml_energy_joules(as_nvml *n);

#ifdef __cplusplus
}
#endif
