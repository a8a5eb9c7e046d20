/* Rules over a reading of a GPU. A pure function: the tests bring readings of GPUs that nobody has here. */
#include "health.h"
#include "health_table.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const double MIB = 1048576;
static const double CAPPED = 0.99;                   /* of the maximum: rounding of settings is no cap */
static const double MARGIN_C = 10;                   /* until the slowdown threshold */
static const double CONTEXT_BYTES = 768 * 1048576.0; /* a context with eagerly loaded kernels, and the smallest cases */
static const double MOSTLY_FREE = 0.5;               /* of the memory */
enum { IDLE_PERCENT = 5 };
enum { MODE_EXCLUSIVE_THREAD = 1, MODE_PROHIBITED = 2, MODE_EXCLUSIVE_PROCESS = 3, VIRTUALIZATION_VGPU = 2 };

AS_GPU_CHECKS(AS_GPU_PROTOTYPE)
#define ROW(name, from, looks_at, why) {{#name, looks_at, why, from}, judge_##name},
const as_gpu_check as_gpu_checks[] = {AS_GPU_CHECKS(ROW){{NULL, NULL, NULL, AS_QUICK}, NULL}};

json_t *as_gpu_judge(const as_gpu_health *h, const char *subject) {
    json_t *list = json_array();
    for (const as_gpu_check *c = as_gpu_checks; c->rule.name; c++) {
        as_finding f = {.rule = &c->rule};
        c->judge(h, &f);
        json_array_append_new(list, as_finding_json(&f, subject));
    }
    return list;
}

/* ---- what the rules share ---- */

static void unknown(const as_gpu_health *h, as_finding *f) {
    as_found(f, AS_FIT_UNKNOWN, h->nvml ? "this GPU, its driver or the container does not tell" : "NVML is not there");
    as_remedy(f, h->nvml ? "nvidia-smi -q -i %s, on the host" : "see the check nvml (GPU %s)", h->pci_bus_id);
}

/* "sudo nvidia-smi -i PCI ARGUMENTS": it needs root, and in a container the host. */
static void setting(const as_gpu_health *h, as_finding *f, const char *fmt, ...) AS_PRINTF(3, 4);
static void setting(const as_gpu_health *h, as_finding *f, const char *fmt, ...) {
    char arguments[160];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(arguments, sizeof arguments, fmt, ap);
    va_end(ap);
    as_remedy(f, "%ssudo nvidia-smi -i %s %s", h->container ? "on the host of this container: " : "", h->pci_bus_id,
              arguments);
}

/* ---- library and driver ---- */

static void judge_nvml(const as_gpu_health *h, as_finding *f) {
    if (h->nvml) {
        as_found(f, AS_FIT_OK, "loaded, knows %s", h->pci_bus_id);
        return;
    }
    as_found(f, AS_FIT_UNKNOWN, "libnvidia-ml.so.1 is absent, does not start or does not know %s", h->pci_bus_id);
    as_remedy(f, h->container ? "give the container NVML: NVIDIA_DRIVER_CAPABILITIES=compute,utility and the NVIDIA "
                                "Container Toolkit"
                              : "install the driver's utilities (Debian: libnvidia-ml1, Ubuntu: nvidia-utils-VERSION)");
}

static void judge_driver(const as_gpu_health *h, as_finding *f) {
    char text[128];
    if (h->driver_cuda <= 0 || h->runtime_cuda <= 0) {
        as_found(f, AS_FIT_UNKNOWN, "the driver does not tell its CUDA version");
        as_remedy(f, "nvidia-smi shows it");
        return;
    }
    snprintf(text, sizeof text, "driver %.40s for CUDA %d.%d, this build needs %d.%d",
             h->facts.driver[0] ? h->facts.driver : "(version unknown)", h->driver_cuda / 1000,
             h->driver_cuda % 1000 / 10, h->runtime_cuda / 1000, h->runtime_cuda % 1000 / 10);
    as_found(f,
             h->driver_cuda / 1000 < h->runtime_cuda / 1000 ? AS_FIT_UNFIT
             : h->driver_cuda < h->runtime_cuda             ? AS_FIT_NOTE /* minor versions are compatible */
                                                            : AS_FIT_OK,
             "%s", text);
    if (f->status != AS_FIT_OK)
        as_remedy(f, "%sinstall a driver for CUDA %d.%d or newer, or build assay with the driver's toolkit",
                  h->container ? "on the host of this container: " : "", h->runtime_cuda / 1000,
                  h->runtime_cuda % 1000 / 10);
}

static void judge_persistence(const as_gpu_health *h, as_finding *f) {
    if (h->facts.persistence < 0) {
        unknown(h, f);
        return;
    }
    as_found(f, h->facts.persistence ? AS_FIT_OK : AS_FIT_WARNING, h->facts.persistence ? "on" : "off");
    if (!h->facts.persistence)
        setting(h, f, "-pm 1 (or systemctl enable --now nvidia-persistenced)");
}

/* ---- clocks and power ---- */

static void clock_rule(const as_gpu_health *h, as_finding *f, double now_hz, double most_hz, double application_hz) {
    if (isnan(most_hz) || (isnan(now_hz) && isnan(application_hz))) {
        unknown(h, f);
        return;
    }
    const bool capped = application_hz < CAPPED * most_hz; /* false where it is NaN */
    char set[48] = "no application clock told", now[48] = "unknown";
    if (!isnan(application_hz))
        snprintf(set, sizeof set, "applications get %.0f MHz", application_hz * 1e-6);
    if (!isnan(now_hz))
        snprintf(now, sizeof now, "%.0f MHz", now_hz * 1e-6);
    as_found(f, capped ? AS_FIT_WARNING : AS_FIT_OK, "now %s, at most %.0f MHz; %s", now, most_hz * 1e-6, set);
    if (capped)
        setting(h, f, "-rac (and -rgc, -rmc, where clocks were locked)");
}

static void judge_sm_clock(const as_gpu_health *h, as_finding *f) {
    clock_rule(h, f, h->now.sm_clock_hz, h->facts.sm_clock_max_hz, h->sm_application_hz);
}

static void judge_memory_clock(const as_gpu_health *h, as_finding *f) {
    clock_rule(h, f, h->now.memory_clock_hz, h->facts.memory_clock_max_hz, h->memory_application_hz);
}

static void judge_power_cap(const as_gpu_health *h, as_finding *f) {
    const double enforced = h->facts.power_limit_watts;
    const double limit = isnan(h->power_limit_watts) ? enforced : fmin(h->power_limit_watts, enforced);
    if (isnan(limit) || isnan(h->power_default_watts)) {
        unknown(h, f);
        return;
    }
    const bool capped = limit < CAPPED * h->power_default_watts;
    as_found(f, capped ? AS_FIT_WARNING : AS_FIT_OK, "%.0f W, default %.0f W; drawing %.0f W now", limit,
             h->power_default_watts, isnan(h->now.power_watts) ? 0 : h->now.power_watts);
    if (capped)
        setting(h, f, "-pl %.0f", h->power_default_watts);
}

static const struct {
    int64_t bit;
    const char *name;
    as_fitness status;
} reasons[] = {{AS_THROTTLE_HW_SLOWDOWN, "hardware slowdown", AS_FIT_WARNING},
               {AS_THROTTLE_HW_THERMAL, "hardware thermal", AS_FIT_WARNING},
               {AS_THROTTLE_SW_THERMAL, "software thermal", AS_FIT_WARNING},
               {AS_THROTTLE_POWER_BRAKE, "power brake", AS_FIT_WARNING},
               {AS_THROTTLE_POWER_CAP, "power cap", AS_FIT_WARNING},
               {AS_THROTTLE_SYNC_BOOST, "sync boost", AS_FIT_NOTE},
               {AS_THROTTLE_APPLICATION_CLOCKS, "application clocks", AS_FIT_NOTE},
               {AS_THROTTLE_DISPLAY, "display", AS_FIT_NOTE}};

static void judge_throttle(const as_gpu_health *h, as_finding *f) {
    char names[160] = "";
    as_fitness s = AS_FIT_OK;
    if (h->now.throttle < 0) {
        unknown(h, f);
        return;
    }
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        if (!(h->now.throttle & reasons[i].bit))
            continue;
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", reasons[i].name);
        s = reasons[i].status > s ? reasons[i].status : s;
    }
    as_found(f, s, "%s", names[0] ? names : h->now.throttle & AS_THROTTLE_IDLE ? "none: idle" : "none");
    if (s != AS_FIT_OK)
        as_remedy(f,
                  "wait until the GPU is idle and cool, then nvidia-smi -q -d PERFORMANCE -i %s; what stays is "
                  "cooling, the supply (power brake, hardware slowdown) or a setting (see power_cap, sm_clock)",
                  h->pci_bus_id);
}

static void judge_gpu_temperature(const as_gpu_health *h, as_finding *f) {
    if (isnan(h->now.temperature_c) || isnan(h->margin_c)) {
        unknown(h, f);
        return;
    }
    as_found(f, h->margin_c < MARGIN_C ? AS_FIT_WARNING : AS_FIT_OK, "%.0f C, %.0f C below the slowdown threshold",
             h->now.temperature_c, h->margin_c);
    if (f->status == AS_FIT_WARNING)
        as_remedy(f, "let it cool down before the run; where it is idle now: air flow, fans, inlet temperature");
}

/* ---- memory that fails ---- */

static void judge_ecc(const as_gpu_health *h, as_finding *f) {
    if (h->facts.ecc < 0) {
        unknown(h, f);
        return;
    }
    as_found(f, h->facts.ecc ? AS_FIT_OK : AS_FIT_NOTE, h->facts.ecc ? "on" : "off");
    if (!h->facts.ecc)
        setting(h, f, "-e 1, then a reboot; or compare with cards without ECC alone");
}

static void judge_ecc_errors(const as_gpu_health *h, as_finding *f) {
    if (h->facts.ecc == 0) {
        as_found(f, AS_FIT_UNKNOWN, "ECC is off: errors are not counted");
        as_remedy(f, "see the check ecc");
        return;
    }
    if (h->corrected < 0 || h->uncorrected < 0) {
        unknown(h, f);
        return;
    }
    as_found(f,
             h->uncorrected > 0                            ? AS_FIT_WARNING
             : h->corrected > 0 || h->uncorrected_ever > 0 ? AS_FIT_NOTE
                                                           : AS_FIT_OK,
             "uncorrected %lld, corrected %lld since the driver was loaded; ever %lld and %lld",
             (long long)h->uncorrected, (long long)h->corrected, (long long)h->uncorrected_ever,
             (long long)h->corrected_ever);
    if (f->status == AS_FIT_OK)
        return;
    as_remedy(f, "where the counts grow, replace the card; see memory_repair. To begin a new count: ");
    setting(h, f, "-p 0");
}

static void judge_memory_repair(const as_gpu_health *h, as_finding *f) {
    const bool rows = h->rows_pending >= 0, pages = h->pages_retired >= 0;
    if (!rows && !pages) {
        unknown(h, f);
        return;
    }
    const bool due = h->rows_pending > 0 || h->pages_pending > 0 || h->rows_failed > 0;
    const bool done = h->rows_uncorrected > 0 || h->pages_retired > 0;
    const as_fitness s = due ? AS_FIT_WARNING : done ? AS_FIT_NOTE : AS_FIT_OK;
    if (rows)
        as_found(f, s, "rows remapped: %d corrected, %d uncorrected%s%s", h->rows_corrected, h->rows_uncorrected,
                 h->rows_pending > 0 ? "; a remap is due" : "", h->rows_failed > 0 ? "; a remap failed" : "");
    else
        as_found(f, s, "%d pages retired%s", h->pages_retired, h->pages_pending > 0 ? "; a retirement is due" : "");
    if (h->rows_failed > 0)
        as_remedy(f, "replace the card");
    else if (due) {
        setting(h, f, "-r");
        as_remedy(f, ", with nothing on the GPU, or a reboot");
    } else if (done)
        as_remedy(f, "none needed now; look again after the run: nvidia-smi -q -d ROW_REMAPPER,PAGE_RETIREMENT");
}

/* ---- sharing ---- */

static void judge_mig(const as_gpu_health *h, as_finding *f) {
    if (h->facts.mig < 0) {
        unknown(h, f);
        return;
    }
    as_found(f, h->facts.mig ? AS_FIT_NOTE : AS_FIT_OK, h->facts.mig ? "on" : "off");
    if (h->facts.mig)
        setting(h, f, "-mig 0; or compare with instances of the same profile alone");
}

static void judge_vgpu(const as_gpu_health *h, as_finding *f) {
    if (h->virtualization < 0) {
        unknown(h, f);
        return;
    }
    const bool shared = h->virtualization == VIRTUALIZATION_VGPU;
    as_found(f, shared ? AS_FIT_WARNING : AS_FIT_OK,
             shared                   ? "a virtual GPU"
             : h->virtualization == 1 ? "a whole card, passed through to this guest"
                                      : "no");
    if (shared)
        as_remedy(f, "take a guest to which a whole card is passed through");
}

/* No context is made here: every process is another one. */
static void judge_compute_mode(const as_gpu_health *h, as_finding *f) {
    static const char *const names[] = {"default", "exclusive thread", "prohibited", "exclusive process"};
    if (h->compute_mode < 0 || h->compute_mode > MODE_EXCLUSIVE_PROCESS) {
        unknown(h, f);
        return;
    }
    const bool exclusive = h->compute_mode == MODE_EXCLUSIVE_PROCESS || h->compute_mode == MODE_EXCLUSIVE_THREAD;
    const bool taken = exclusive && h->now.processes > 0;
    as_found(f, h->compute_mode == MODE_PROHIBITED || taken ? AS_FIT_UNFIT : AS_FIT_OK, "%s%s", names[h->compute_mode],
             taken ? ", and a process has it" : "");
    if (h->compute_mode == MODE_PROHIBITED)
        setting(h, f, "-c 0");
    else if (taken)
        as_remedy(f, "end that process, or wait (nvidia-smi shows it)");
}

static void judge_processes(const as_gpu_health *h, as_finding *f) {
    if (h->now.processes < 0) {
        unknown(h, f);
        return;
    }
    const int graphics = h->graphics_processes > 0 ? h->graphics_processes : 0;
    as_found(f,
             h->now.processes > 0 ? AS_FIT_WARNING
             : graphics > 0       ? AS_FIT_NOTE
                                  : AS_FIT_OK,
             "%d with a compute context, %d with a graphics context", h->now.processes, graphics);
    if (h->now.processes > 0)
        as_remedy(f, "end them or wait (nvidia-smi lists them); assay lock keeps other runs of assay away");
    else if (graphics > 0)
        as_remedy(f, "stop the display server, or measure on a card without display");
}

static void judge_utilization(const as_gpu_health *h, as_finding *f) {
    if (h->utilization_percent < 0) {
        unknown(h, f);
        return;
    }
    as_found(f, h->utilization_percent > IDLE_PERCENT ? AS_FIT_WARNING : AS_FIT_OK, "%d %% of the last period",
             h->utilization_percent);
    if (f->status == AS_FIT_WARNING)
        as_remedy(f, "see processes with nvidia-smi%s; end them or wait", h->container ? " on the host" : "");
}

static void judge_gpu_memory(const as_gpu_health *h, as_finding *f) {
    const double left = h->memory_free_bytes, all = h->memory_total_bytes;
    if (isnan(left) || isnan(all)) {
        unknown(h, f);
        return;
    }
    as_found(f,
             left < CONTEXT_BYTES       ? AS_FIT_UNFIT
             : left < MOSTLY_FREE * all ? AS_FIT_WARNING
                                        : AS_FIT_OK,
             "%.0f of %.0f MiB free", left / MIB, all / MIB);
    if (f->status != AS_FIT_OK)
        as_remedy(f, "end what holds the memory (nvidia-smi lists it)");
}

/* ---- the link ---- */

static void judge_pcie_width(const as_gpu_health *h, as_finding *f) {
    const int now = h->facts.pcie_width, most = h->facts.pcie_width_max;
    if (now < 0 || most < 0) {
        unknown(h, f);
        return;
    }
    as_found(f, now < most ? AS_FIT_WARNING : AS_FIT_OK, "x%d of x%d", now, most);
    if (now < most)
        as_remedy(f,
                  "reseat the card and its riser, or another slot (sudo lspci -vv -s %s: LnkCap, LnkSta); unlike "
                  "the generation the width does not fall when idle",
                  h->pci_bus_id);
}

/* An idle link falls to a lower generation by itself and rises under load. */
static void judge_pcie_generation(const as_gpu_health *h, as_finding *f) {
    const int now = h->facts.pcie_generation, most = h->facts.pcie_generation_max;
    if (now < 0 || most < 0) {
        unknown(h, f);
        return;
    }
    const bool idle = h->now.throttle > 0 && (h->now.throttle & AS_THROTTLE_IDLE);
    as_found(f,
             now == most ? AS_FIT_OK
             : idle      ? AS_FIT_NOTE
                         : AS_FIT_WARNING,
             "%d of %d%s", now, most,
             now == most ? ""
             : idle      ? ", read idle: it may rise under load"
                         : ", in use");
    if (now == most)
        return;
    if (idle)
        as_remedy(f,
                  "read it under load: assay run --suite memcpy, and meanwhile nvidia-smi -q -i %s | grep -A 3 "
                  "'PCIe Gen'; or see link.h2d in the result",
                  h->pci_bus_id);
    else
        as_remedy(f, "link speed \"auto\" in the firmware's setup; another slot or riser (sudo lspci -vv -s %s)",
                  h->pci_bus_id);
}

static void judge_bar1(const as_gpu_health *h, as_finding *f) {
    if (isnan(h->bar1_total_bytes) || isnan(h->memory_total_bytes)) {
        unknown(h, f);
        return;
    }
    const bool small = h->bar1_total_bytes < h->memory_total_bytes;
    as_found(f, small ? AS_FIT_NOTE : AS_FIT_OK, "%.0f MiB for %.0f MiB of memory", h->bar1_total_bytes / MIB,
             h->memory_total_bytes / MIB);
    if (small)
        as_remedy(f, "\"Resizable BAR\" and \"Above 4G decoding\" in the firmware's setup, where the card has it");
}

/* ---- the environment ---- */

static void judge_visible_devices(const as_gpu_health *h, as_finding *f) {
    if (!h->visible_devices) {
        as_found(f, AS_FIT_OK, "not set");
        return;
    }
    as_found(f, AS_FIT_NOTE, "\"%.80s\"; this device is %s", h->visible_devices, h->pci_bus_id);
    as_remedy(f, "unset CUDA_VISIBLE_DEVICES and name the device with --device, or go by UUID and PCI bus id");
}

static void judge_gpu_environment(const as_gpu_health *h, as_finding *f) {
    if (!h->variables[0] && !h->harmful[0]) {
        as_found(f, AS_FIT_OK, "none of them is set");
        return;
    }
    as_found(f, h->harmful[0] ? AS_FIT_WARNING : AS_FIT_NOTE, "set: %s%s%s", h->harmful,
             h->harmful[0] && h->variables[0] ? " " : "", h->variables);
    as_remedy(f, "unset %s%s%s, unless it is what you want to measure", h->harmful,
              h->harmful[0] && h->variables[0] ? " " : "", h->variables);
}
