/* Suite memcpy in two files: memcpy.c holds its tables, memcpy_work.c what is legal and the formulas. */
#pragma once

#include "../kernels/memcpy/memcpy.h"
#include "suites.h"

as_status as_memcpy_describe(const as_params *p, const as_variant *v, const as_device *d, as_work *out, as_error *e);
