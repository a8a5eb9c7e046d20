#include "openblas.h"

#include <stddef.h>
#include <stdlib.h>
#include <strings.h>

/* OpenBLAS's own entry point; absent from other libraries of the same interface. */
__attribute__((weak)) char *openblas_get_corename(void);

/* The cores whose kernels use at least AVX2, from the library's list of dynamic cores. Every other name is below. */
static const struct core {
    const char *name;
    as_isa isa;
} cores[] = {
    {"Haswell", AS_ISA_AVX2},    {"Zen", AS_ISA_AVX2},          {"Excavator", AS_ISA_AVX2},
    {"SkylakeX", AS_ISA_AVX512}, {"Cooperlake", AS_ISA_AVX512}, {"SapphireRapids", AS_ISA_AVX512},
};

static as_isa isa_of(const char *name) {
    for (size_t i = 0; i < sizeof cores / sizeof *cores; i++)
        if (strcasecmp(cores[i].name, name) == 0)
            return cores[i].isa;
    return AS_ISA_BASE;
}

const char *as_openblas_better_core(const char *chosen, as_isa isa) {
    if (isa_of(chosen) != AS_ISA_BASE) /* it knew the machine: AVX2 kernels may be its choice for an AVX-512 core */
        return NULL;
    return isa == AS_ISA_AVX512 ? "SkylakeX" : isa == AS_ISA_AVX2 ? "Haswell" : NULL;
}

void as_openblas_choose_core(void) {
    const char *better = openblas_get_corename ? as_openblas_better_core(openblas_get_corename(), as_isa_best()) : NULL;
    if (better)
        setenv("OPENBLAS_CORETYPE", better, 0);
}
