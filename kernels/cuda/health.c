/* The driver's `health`: which device it is, by its PCI bus id, is asked of CUDA without a context; the rest is NVML's.
 * A context would cost memory, wake the GPU and count as a process on it. */
#include "health.h"
#include "../../harness/doctor.h"
#include "cuda.h"

#include <ctype.h>
#include <cuda_runtime_api.h>
#include <jansson.h>
#include <stdio.h>

json_t *as_cuda_health(int index) {
    as_gpu_health h;
    as_doctor_view here = {.sysroot = ""};
    char subject[24];
    as_gpu_health_init(&h);
    if (cudaDeviceGetPCIBusId(h.pci_bus_id, (int)sizeof h.pci_bus_id, index) != cudaSuccess)
        snprintf(h.pci_bus_id, sizeof h.pci_bus_id, "%d", index); /* nvidia-smi takes an index, too */
    for (char *p = h.pci_bus_id; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    if (cudaDriverGetVersion(&h.driver_cuda) != cudaSuccess)
        h.driver_cuda = -1;
    if (cudaRuntimeGetVersion(&h.runtime_cuda) != cudaSuccess)
        h.runtime_cuda = -1;
    as_doctor_surroundings(&here);
    h.container = here.container;
    as_nvml *nvml = as_nvml_open(h.pci_bus_id);
    as_gpu_health_read(&h, nvml);
    as_gpu_health_settings(&h);
    as_nvml_close(nvml);
    snprintf(subject, sizeof subject, "cuda%d", index);
    return as_gpu_judge(&h, subject);
}
