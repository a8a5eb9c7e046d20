/* A GPU's checks: one row makes the prototype and the entry of the table. X(name, warns from, looks at, why). */
#pragma once

#define AS_GPU_CHECKS(X)                                                                                               \
    X(nvml, AS_QUICK, "libnvidia-ml.so.1", "without it neither clocks nor throttling are seen during a run")           \
    X(driver, AS_QUICK, "the driver's and this build's CUDA version",                                                  \
      "an older driver lacks functions of the runtime, or refuses it")                                                 \
    X(persistence, AS_QUICK, "nvmlDeviceGetPersistenceMode",                                                           \
      "the driver unloads between processes: each launch starts seconds later, and clock settings are lost")           \
    X(sm_clock, AS_QUICK, "clock info, maximum and application clock of the SMs",                                      \
      "a clock held below the maximum is measured, not the card")                                                      \
    X(memory_clock, AS_QUICK, "clock info, maximum and application clock of the memory",                               \
      "bandwidth follows the memory clock")                                                                            \
    X(power_cap, AS_QUICK, "power management limit and its default", "a lower cap lowers the clocks of long kernels")  \
    X(throttle, AS_QUICK, "clocks event reasons now", "the clocks are held down at this moment")                       \
    X(gpu_temperature, AS_QUICK, "temperature, slowdown threshold or margin",                                          \
      "near the threshold the clocks will be cut under load")                                                          \
    X(ecc, AS_QUICK, "ECC mode", "ECC costs bandwidth on some cards; compare like with like")                          \
    X(ecc_errors, AS_QUICK, "total ECC errors, since the driver was loaded and ever",                                  \
      "failing memory spoils outputs and time")                                                                        \
    X(memory_repair, AS_QUICK, "remapped rows, retired pages", "a repair that is due or failed leaves bad memory")     \
    X(mig, AS_QUICK, "MIG mode", "an instance is a part of the card, and shares its power and link")                   \
    X(vgpu, AS_QUICK, "virtualization mode", "other guests share the card and cannot be seen")                         \
    X(compute_mode, AS_QUICK, "compute mode and compute processes",                                                    \
      "prohibited or taken, the device refuses a context")                                                             \
    X(processes, AS_QUICK, "compute and graphics processes", "they take turns with the measured kernels")              \
    X(utilization, AS_QUICK, "utilization rates", "something runs on the GPU, perhaps outside this container")         \
    X(gpu_memory, AS_QUICK, "memory info", "cases that do not fit are left out")                                       \
    X(pcie_width, AS_QUICK, "PCIe link width now and maximum", "copies to and from the host lose in proportion")       \
    X(pcie_generation, AS_QUICK, "PCIe link generation now and maximum", "each generation less halves the link")       \
    X(bar1, AS_QUICK, "BAR1 memory info, memory info", "a small BAR slows or forbids mapping by peers and the CPU")    \
    X(visible_devices, AS_QUICK, "CUDA_VISIBLE_DEVICES", "cuda0 may be another card than nvidia-smi's GPU 0")          \
    X(gpu_environment, AS_QUICK, "names of environment variables that change CUDA",                                    \
      "launches and copies do not behave as others see them")

#define AS_GPU_PROTOTYPE(name, from, looks_at, why) static void judge_##name(const as_gpu_health *h, as_finding *f);
