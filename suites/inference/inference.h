/* Suite inference, by family of model: each describes its own cases. */
#pragma once

#include "../../harness/suite.h"
#include "../../kernels/inference/model.h"

/* Fills w for a decoder's case; the axes that every family shares are checked. */
as_status as_decoder_describe(const as_params *p, const as_variant *v, const as_device *d, as_work *w,
                              as_error *e) AS_MUST_CHECK;
void as_decoder_largest(const as_params *p, const as_variant *v, const as_device *d, double room, char text[160]);

/* True where the axis stands at its default. */
bool as_axis_untouched(const as_params *p, const char *name);
