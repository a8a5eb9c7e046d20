/* The assay command: the tables of what this binary offers. A new suite is one line here. */
#include "../kernels/matmul/openblas.h"
#include "suites.h"

#ifdef ASSAY_CUDA
#include "../kernels/cuda/cuda.h"
#include "../kernels/launch/launch.h"
#endif

static const as_suite *const suites[] = {
    &as_matmul_suite,    //
    &as_memcpy_suite,    //
    &as_memory_suite,    //
    &as_launch_suite,    //
    &as_alloc_suite,     //
    &as_offload_suite,   //
    &as_attention_suite, //
    &as_inference_suite, //
    &as_synthetic_suite, NULL,
};

static const as_device_driver *const drivers[] = {
#ifdef ASSAY_CUDA
    &as_cuda_driver,
#endif
    NULL,
};

static const as_absent_kind absent[] = {
#ifndef ASSAY_CUDA
    {"cuda", "this binary was built without CUDA"},
#endif
    {NULL, NULL},
};

static const as_private_command commands[] = {
#ifdef ASSAY_CUDA
    {AS_LAUNCH_CHILD_COMMAND, as_launch_child_main},
#endif
    {NULL, NULL},
};

static const as_registry registry = {
    .suites = suites,
    .drivers = drivers,
    .absent = absent,
    .commands = commands,
    .ceilings = &as_ceiling_suite,
    .ceilings_for = as_ceilings_for,
    .catalogue = as_suites_catalogue,
};

int main(int argc, char **argv) {
    as_openblas_choose_core(); /* for the workers */
    return as_main(argc, argv, &registry);
}
