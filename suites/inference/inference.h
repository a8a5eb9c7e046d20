/* Suite inference, by family of model: each describes its own cases and brings its own variants. */
#pragma once

#include "../../harness/suite.h"
#include "../../kernels/inference/cnn.h"
#include "../../kernels/inference/model.h"

typedef struct as_family_suite {
    const as_variant *variants; /* ends at name NULL */
    as_status (*describe)(const as_params *p, const as_variant *v, const as_device *d, as_work *w, as_error *e);
    as_status (*reference)(const as_reference *r, as_error *e);
    as_run_fn device_reference; /* NULL in a build without CUDA */
    as_largest_fn largest;
} as_family_suite;

/* NULL: the family has no variant of that name on that kind of device. */
const as_variant *as_family_variant(const as_family_suite *f, const char *name, const char *on);

/* Hooks of a variant of the suite: those of the family's variant that prepare was given (route.c). */
as_status as_route_prepare(const as_variant *v, const as_call *call, void **state, as_error *e) AS_MUST_CHECK;
void as_route_finish(void *state);
as_status as_route_run(const as_call *call, as_error *e);
as_status as_route_breakdown(const as_call *call, as_parts *parts, as_error *e);
/* The family's own state, for tests. */
void *as_route_state(void *state);

/* Fills w for a decoder's case; the axes that every family shares are checked. */
as_status as_decoder_describe(const as_params *p, const as_variant *v, const as_device *d, as_work *w,
                              as_error *e) AS_MUST_CHECK;
void as_decoder_largest(const as_params *p, const as_variant *v, const as_device *d, double room, char text[160]);

/* The same for a convolutional network's. */
as_status as_cnn_describe(const as_params *p, const as_variant *v, const as_device *d, as_work *w,
                          as_error *e) AS_MUST_CHECK;
void as_cnn_largest(const as_params *p, const as_variant *v, const as_device *d, double room, char text[160]);

/* True where the axis stands at its default. */
bool as_axis_untouched(const as_params *p, const char *name);
