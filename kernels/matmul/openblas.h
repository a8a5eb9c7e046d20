/* Which of its kernels OpenBLAS takes. A library that is older than the CPU knows neither its model nor, in Debian 12's
 * 0.3.21, a family like it, and falls back on SSE3 kernels of 2004: measured on an Intel Xeon of model 207, 22 GFLOP/s
 * of fp32 in place of about 100 on one core. The reference would be beaten by default. */
#pragma once

#include "../isa.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The value of OPENBLAS_CORETYPE that the machine deserves, where the library's own choice (its name for a core) is of a
 * lesser instruction set; NULL where that is as good. */
const char *as_openblas_better_core(const char *chosen, as_isa isa);

/* Sets OPENBLAS_CORETYPE for the processes that this one will start, unless it is set: the library reads it once, before
 * main. Results keep the variable. Does nothing with another BLAS. */
void as_openblas_choose_core(void);

#ifdef __cplusplus
}
#endif
