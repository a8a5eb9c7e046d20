/* Parameters of a case: axis names with values, and the case's id made from them. */
#pragma once

#include "status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { AS_MAX_AXES = 12, AS_AXIS_TEXT = 48, AS_ID_MAX = 1024 };

/* One axis of a suite. `fallback` is the released default (never changed later): an axis at its
 * default is left out of the id, so that a new axis breaks no baseline.
 * `integer`: values are whole numbers >= 0 ("all" is allowed where `all` is set); else free text. */
typedef struct as_axis {
    const char *name;     /* as it stands in ids and JSON: "n", "bytes", "threads" */
    const char *fallback; /* default value as text */
    bool integer;
    bool all;         /* the word "all" is legal too (threads) */
    const char *unit; /* "" | "bytes" | "elements" ... for people */
    const char *help;
} as_axis;

typedef struct as_param {
    const as_axis *axis;
    int64_t number; /* -1 for text and for "all" */
    char text[AS_AXIS_TEXT];
} as_param;

/* All axes of the suite, defaults filled in, in the suite's axis order. */
typedef struct as_params {
    int count;
    as_param value[AS_MAX_AXES];
} as_params;

as_status as_params_init(as_params *p, const as_axis *axes, int n_axes, as_error *e) AS_MUST_CHECK;
/* Sets one axis from text; AS_EUSAGE names the axis and what is legal. */
as_status as_params_set(as_params *p, const char *name, const char *text, as_error *e) AS_MUST_CHECK;
/* Value of an integer axis; -1 for "all". The axis must exist (an absent one is our bug: assert). */
int64_t as_params_int(const as_params *p, const char *name);
const char *as_params_text(const as_params *p, const char *name);
bool as_params_has(const as_params *p, const char *name);
/* True if every value equals its axis's default for that axis. */
bool as_param_is_default(const as_param *v);

/* suite/variant/axis:value.../dev:name, default axes left out. Returns the length; `out` holds AS_ID_MAX bytes.
 * A length of AS_ID_MAX or more did not fit and `out` holds no id: the plan refuses such a case. */
size_t as_case_id(char out[AS_ID_MAX], const char *suite, const char *variant, const as_params *p, const char *device);

/* Whole text is one decimal integer in [min, max]; no sign, blank or suffix is let through. */
as_status as_parse_int(const char *text, int64_t min, int64_t max, int64_t *out, as_error *e) AS_MUST_CHECK;

#ifdef __cplusplus
}
#endif
