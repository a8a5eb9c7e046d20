#include "check.h"

static as_status status_of(cudaError_t code) {
    switch (code) {
    case cudaErrorMemoryAllocation: return AS_ENOMEM;
    case cudaErrorInsufficientDriver:
    case cudaErrorInitializationError:
    case cudaErrorSystemNotReady:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorStubLibrary:
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorDevicesUnavailable:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorOperatingSystem:
    case cudaErrorNotPermitted: return AS_EENV;
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorMisalignedAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable: return AS_ELOST;
    default: return AS_EFAIL;
    }
}

static const char *remedy_of(cudaError_t code) {
    switch (code) {
    case cudaErrorMemoryAllocation: return "use smaller sizes or free the memory that other processes hold";
    case cudaErrorInsufficientDriver: return "install a driver at least as new as the CUDA runtime of this build";
    case cudaErrorSystemDriverMismatch: return "kernel module and libcuda.so.1 differ: reboot or reinstall the driver";
    case cudaErrorSystemNotReady: return "the driver's services are not up: check nvidia-fabricmanager";
    case cudaErrorStubLibrary: return "the toolkit's stub libcuda.so was loaded: take stubs/ out of LD_LIBRARY_PATH";
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion: return "rebuild for this GPU with -DCMAKE_CUDA_ARCHITECTURES=native";
    case cudaErrorDevicesUnavailable: return "another process holds the GPU, or its compute mode forbids this one";
    case cudaErrorECCUncorrectable: return "the GPU reported an uncorrectable memory error: reset or replace it";
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError: return "a kernel is faulty: run this case alone under compute-sanitizer";
    case cudaErrorLaunchTimeout: return "the GPU drives a display and stopped a long kernel: use smaller sizes";
    case cudaErrorLaunchOutOfResources:
    case cudaErrorInvalidConfiguration: return "this GPU cannot launch the kernel's block: choose another variant";
    default: return "run `assay doctor`, then this case alone";
    }
}

as_status as_cuda_fail_at(as_error *e, const char *file, int line, cudaError_t code, const char *call) {
    (void)cudaGetLastError(); /* clears errors that are not sticky, so that the next case starts clean */
    return as_fail_at(e, status_of(code), file, line, (int)code, "%.160s: %s (%d, %s); %s", call,
                      cudaGetErrorString(code), (int)code, cudaGetErrorName(code), remedy_of(code));
}
