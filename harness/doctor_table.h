/* The host's checks: one row makes the prototype and the entry of the table. X(name, warns from, looks at, why).
 * docs/doctor.md names the same checks (tested). */
#pragma once

#define AS_DOCTOR_CHECKS(X)                                                                                            \
    /* doctor_cpu.c */                                                                                                 \
    X(governor, AS_QUICK, "cpufreq/scaling_governor of every measured CPU",                                            \
      "the clock follows the load: the first rounds of a case run slower than the rest")                               \
    X(energy_preference, AS_STANDARD, "cpufreq/energy_performance_preference of every measured CPU",                   \
      "the processor itself holds the clock down to save energy")                                                      \
    X(turbo, AS_PUBLISH, "intel_pstate/no_turbo, cpufreq/boost",                                                       \
      "the highest clock depends on temperature and on what other cores do")                                           \
    X(clock_limit, AS_QUICK, "cpufreq/scaling_max_freq and cpuinfo_max_freq of every measured CPU",                    \
      "a capped clock is not the machine's; cores of unlike clocks cannot stand for each other")                       \
    X(idle_states, AS_PUBLISH, "cpuidle/state*/latency and disable of the first measured CPU",                         \
      "waking from a deep idle state lengthens launches and the first sample after a wait")                            \
    X(smt, AS_QUICK, "topology/thread_siblings_list and the siblings' load in the sample",                             \
      "two hardware threads share one core's units and caches")                                                        \
    X(isolation, AS_QUICK, "/sys/devices/system/cpu/isolated and nohz_full",                                           \
      "on CPUs that are not isolated the scheduler may run anything between two samples")                              \
    /* doctor_power.c */                                                                                               \
    X(thermal_throttling, AS_QUICK, "thermal_throttle/*_throttle_count of every measured CPU, over the sample",        \
      "a hot processor lowers its clock in the middle of a run")                                                       \
    X(temperature, AS_QUICK, "/sys/class/thermal/thermal_zone*",                                                       \
      "near its trip point the machine will throttle under the load of a run")                                         \
    X(power_supply, AS_QUICK, "/sys/class/power_supply", "on battery the firmware caps power and clocks")              \
    /* doctor_load.c */                                                                                                \
    X(cpu_load, AS_QUICK, "/proc/stat of every measured CPU, over the sample",                                         \
      "other work takes turns with the measured threads")                                                              \
    X(other_load, AS_QUICK, "/proc/stat of the other CPUs and /proc/*/stat, over the sample",                          \
      "other CPUs share memory bandwidth, the last-level cache and the power budget")                                  \
    X(load_average, AS_QUICK, "/proc/loadavg", "a machine that was just busy is warm and may become busy again")       \
    X(steal, AS_QUICK, "steal in /proc/stat of every measured CPU, over the sample and since boot",                    \
      "the hypervisor gives the CPU to other guests while a sample runs")                                              \
    X(pressure, AS_QUICK, "/proc/pressure/cpu, memory and io; memory.pressure of the cgroup",                          \
      "tasks wait for CPU, memory or disk: so will the run")                                                           \
    /* doctor_interrupts.c */                                                                                          \
    X(interrupts, AS_QUICK, "/proc/interrupts of every measured CPU, over the sample",                                 \
      "each device interrupt takes microseconds from the sample it strikes")                                           \
    X(irq_affinity, AS_PUBLISH, "/proc/irq/*/smp_affinity_list",                                                       \
      "devices that are idle now may interrupt the measured CPUs during the run")                                      \
    X(irqbalance, AS_STANDARD, "the process irqbalance", "interrupts move between CPUs in the middle of a run")        \
    /* doctor_limits.c */                                                                                              \
    X(cpu_quota, AS_QUICK, "cpu.max or cpu.cfs_quota_us of the cgroup",                                                \
      "once the quota is used up all threads are paused until the next period, mostly 100 ms")                         \
    X(cpu_throttling, AS_QUICK, "nr_throttled in cpu.stat of the cgroup, over the sample",                             \
      "threads were paused by the CPU quota")                                                                          \
    X(cpuset, AS_QUICK, "the CPUs allowed to this process, /sys/devices/system/cpu/online",                            \
      "caches and memory bandwidth are shared with work that cannot be seen from here")                                \
    X(memory_limit, AS_QUICK, "memory.max or memory.limit_in_bytes of the cgroup",                                     \
      "cases that do not fit are left out; past the limit the kernel kills the worker")                                \
    X(process_limits, AS_QUICK, "/proc/self/limits",                                                                   \
      "a limit of CPU time or file size ends the run; a core file of a crash fills the disk")                          \
    X(disk, AS_QUICK, "free space of the folder of the result",                                                        \
      "every round is written and synced; without space the run ends")                                                 \
    /* doctor_memory.c */                                                                                              \
    X(memory_free, AS_QUICK, "MemAvailable in /proc/meminfo", "without free memory cases are left out or swap")        \
    X(swap, AS_QUICK, "/proc/meminfo; pswpin and pswpout in /proc/vmstat, over the sample",                            \
      "a page that must come back from disk takes as long as a thousand samples")                                      \
    X(swappiness, AS_PUBLISH, "/proc/sys/vm/swappiness", "the kernel swaps idle memory out before it must")            \
    X(transparent_huge_pages, AS_PUBLISH, "/sys/kernel/mm/transparent_hugepage/enabled",                               \
      "whether an array lies on huge pages is luck, and moves memory-bound times from launch to launch")               \
    X(huge_pages, AS_QUICK, "HugePages_* in /proc/meminfo", "reserved huge pages are lost to ordinary memory")         \
    X(numa_balancing, AS_QUICK, "/proc/sys/kernel/numa_balancing, /sys/devices/system/node/online",                    \
      "the kernel unmaps and moves pages between nodes in the middle of a run")                                        \
    /* doctor_kernel.c */                                                                                              \
    X(virtualization, AS_QUICK, "/proc/cpuinfo, /sys/hypervisor, the marks of containers",                             \
      "clocks, neighbours and power are the host's and mostly invisible")                                              \
    X(mitigations, AS_QUICK, "/sys/devices/system/cpu/vulnerabilities",                                                \
      "mitigations slow system calls and launches; compare only machines that have the same")                          \
    X(clock_source, AS_QUICK, "clocksource0/current_clocksource",                                                      \
      "a clock outside the processor is read by a system call, which costs up to microseconds")                        \
    X(aslr, AS_QUICK, "/proc/sys/kernel/randomize_va_space, /proc/self/personality",                                   \
      "without random layouts every launch repeats one layout's luck, and the interval hides it")                      \
    X(preemption, AS_QUICK, "/proc/version, /sys/kernel/realtime", "a real-time kernel trades throughput for latency") \
    X(perf_events, AS_QUICK, "/proc/sys/kernel/perf_event_paranoid", "hardware counters cannot explain a case")        \
    X(environment, AS_QUICK, "names of environment variables that change libraries",                                   \
      "the library under test is not the one that others run")

#define AS_DOCTOR_PROTOTYPE(name, from, looks_at, why) void as_check_##name(const as_doctor_view *v, as_finding *f);
AS_DOCTOR_CHECKS(AS_DOCTOR_PROTOTYPE)
