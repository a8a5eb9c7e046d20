/* The suites of this binary; main.c puts them into the registry. */
#pragma once

#include "../harness/suite.h"

#define AS_COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* Axes that every suite has, with the harness's meaning. */
#define AS_AXIS_THREADS                                                                                                \
    { "threads", "1", true, true, "threads", "cpu only: threads of the team; all = one for each core" }
#define AS_AXIS_CACHE                                                                                                  \
    { "cache", "warm", false, false, "", "warm: operands as the last operation left them; cold: rotated" }

extern const as_suite as_matmul_suite;
extern const as_suite as_memcpy_suite;
extern const as_suite as_memory_suite;
extern const as_suite as_launch_suite;
extern const as_suite as_alloc_suite;
extern const as_suite as_offload_suite;
extern const as_suite as_attention_suite;
extern const as_suite as_inference_suite;
extern const as_suite as_synthetic_suite;
extern const as_suite as_ceiling_suite;

/* as_registry.ceilings_for: docs/method.md states the rule. */
int as_ceilings_for(const as_bound *b, const as_work *w, const as_params *p, const as_device *d, bool cold,
                    as_ceiling_ref out[AS_MAX_CEILING_REFS]);

/* as_registry.catalogue: `models`, the presets of kernels/inference/model.h by their shape. */
struct json_t *as_suites_catalogue(void);

/* Checks that every suite's describe shares: the axis cache, and threads on devices other than the cpu. */
as_status as_suite_check_common(const as_params *p, const as_device *d, as_error *e) AS_MUST_CHECK;
