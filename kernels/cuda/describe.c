/* context.devices[] of a CUDA device. Values that change from run to run (clocks now, temperature) stay out: they
 * belong to the readings around the rounds. The PCIe link is the exception: its speed now shows a broken slot. */
#include "cuda.h"
#include "internal.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>

static void put_number(json_t *o, const char *key, double value) {
    json_object_set_new(o, key, isfinite(value) && value > 0 ? json_real(value) : json_null());
}

static void put_flag(json_t *o, const char *key, int value) {
    json_object_set_new(o, key, value < 0 ? json_null() : json_boolean(value));
}

static void put_count(json_t *o, const char *key, int value) {
    json_object_set_new(o, key, value < 0 ? json_null() : json_integer(value));
}

static void put_version(json_t *o, const char *key, cudaError_t code, int version) {
    json_object_set_new(o, key,
                        code == cudaSuccess ? json_sprintf("%d.%d", version / 1000, version % 1000 / 10) : json_null());
}

/* kHz to Hz; NaN where the runtime does not tell. */
static double clock_hz(const as_cuda_impl *c, enum cudaDeviceAttr attribute) {
    int khz;
    return cudaDeviceGetAttribute(&khz, attribute, c->ordinal) == cudaSuccess ? khz * 1e3 : NAN;
}

static const char *compute_mode(const as_cuda_impl *c) {
    int mode;
    if (cudaDeviceGetAttribute(&mode, cudaDevAttrComputeMode, c->ordinal) != cudaSuccess)
        return "unknown";
    switch (mode) {
    case cudaComputeModeDefault: return "default";
    case cudaComputeModeProhibited: return "prohibited";
    case cudaComputeModeExclusiveProcess: return "exclusive process";
    default: return "exclusive";
    }
}

/* "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", as nvidia-smi and CUDA_VISIBLE_DEVICES write it. */
static void uuid_text(const as_cuda_impl *c, bool mig, char out[64]) {
    const unsigned char *u = (const unsigned char *)c->properties.uuid.bytes;
    int at = snprintf(out, 64, "%s-", mig ? "MIG" : "GPU");
    for (int i = 0; i < 16; i++)
        at += snprintf(out + at, (size_t)(64 - at), "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", u[i]);
}

static json_t *link_object(const as_nvml_facts *f) {
    if (f->pcie_generation < 0 && f->pcie_width < 0)
        return json_null();
    json_t *o = json_object();
    put_count(o, "generation", f->pcie_generation);
    put_count(o, "generation_max", f->pcie_generation_max);
    put_count(o, "width", f->pcie_width);
    put_count(o, "width_max", f->pcie_width_max);
    return o;
}

json_t *as_cuda_describe(as_device *d) {
    const as_cuda_impl *c = as_cuda_of(d);
    const struct cudaDeviceProp *p = &c->properties;
    as_nvml_facts f;
    as_nvml_read_facts(c->nvml, &f);
    int driver = 0, runtime = 0, bus_bits = 0;
    char uuid[64];
    uuid_text(c, f.mig == 1, uuid);

    json_t *o = json_object();
    json_object_set_new(o, "name", json_string(d->name));
    json_object_set_new(o, "kind", json_string("cuda"));
    json_object_set_new(o, "model", json_string(p->name));
    json_object_set_new(o, "uuid", json_string(uuid));
    json_object_set_new(o, "pci_bus_id", json_string(c->pci_bus_id));
    json_object_set_new(o, "compute_capability", json_sprintf("%d.%d", p->major, p->minor));
    json_object_set_new(o, "multiprocessors", json_integer(p->multiProcessorCount));
    json_object_set_new(o, "memory_bytes", json_integer((json_int_t)p->totalGlobalMem));
    json_object_set_new(o, "l2_bytes", json_integer(p->l2CacheSize));
    json_object_set_new(o, "driver", f.driver[0] ? json_string(f.driver) : json_null());
    cudaError_t code = cudaDriverGetVersion(&driver);
    put_version(o, "driver_api", code, driver);
    code = cudaRuntimeGetVersion(&runtime);
    put_version(o, "runtime", code, runtime);
    put_number(o, "clock_max_hz", isnan(f.sm_clock_max_hz) ? clock_hz(c, cudaDevAttrClockRate) : f.sm_clock_max_hz);
    put_number(o, "memory_clock_max_hz",
               isnan(f.memory_clock_max_hz) ? clock_hz(c, cudaDevAttrMemoryClockRate) : f.memory_clock_max_hz);
    put_count(o, "memory_bus_bits",
              cudaDeviceGetAttribute(&bus_bits, cudaDevAttrGlobalMemoryBusWidth, c->ordinal) == cudaSuccess ? bus_bits
                                                                                                            : -1);
    put_number(o, "power_limit_watts", f.power_limit_watts);
    put_flag(o, "ecc", f.ecc < 0 ? p->ECCEnabled : f.ecc);
    put_flag(o, "mig", f.mig);
    put_flag(o, "persistence", f.persistence);
    json_object_set_new(o, "compute_mode", json_string(compute_mode(c)));
    json_object_set_new(o, "pcie", link_object(&f));
    return o;
}
