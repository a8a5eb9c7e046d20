/* parts[] and the breakdown's closure as JSON: floors from the ceilings of the same run. */
#include "record.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

static double number(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }

/* What the part's bound takes at least for one occurrence; NaN where nothing bounds it or no ceiling was measured. */
static double floor_of(const as_run_state *s, int c, const json_t *row) {
    const as_work *w = &s->plan->cases[c].work;
    const char *bound = json_string_value(json_object_get(row, "ceiling"));
    for (int b = 0; bound && b < w->bounds; b++)
        if (strcmp(w->bound[b].ceiling, bound) == 0) {
            int which;
            const double amount = number(row, strncmp(bound, "flops.", 6) == 0 ? "flops" : "bytes");
            return amount > 0 ? amount / as_case_ceiling_rate(s, c, b, &which) : NAN;
        }
    return NAN;
}

json_t *as_record_parts(const as_run_state *s, int c) {
    const json_t *pass = s->outcome[c].parts;
    json_t *list = json_array(), *row;
    size_t i;
    const double all = number(pass, "instrumented_ns") * number(pass, "operations");
    json_array_foreach(json_object_get(pass, "rows"), i, row) {
        json_t *out = json_copy(row);
        const double floor_ns = floor_of(s, c, row), mean = number(row, "mean_ns");
        json_object_del(out, "ceiling");
        json_object_set_new(out, "share", json_real(number(row, "total_ns") / all));
        json_object_set_new(out, "floor_ns", isfinite(floor_ns) ? json_real(floor_ns) : json_null());
        json_object_set_new(out, "percent_of_floor",
                            isfinite(floor_ns) && mean > 0 ? json_real(100 * floor_ns / mean) : json_null());
        json_array_append_new(list, out);
    }
    return list;
}

json_t *as_record_breakdown(const as_run_state *s, int c, double series_ns) {
    const json_t *pass = s->outcome[c].parts;
    json_t *row;
    size_t i;
    double attributed = 0;
    if (!pass)
        return json_null();
    const double operations = number(pass, "operations"), instrumented = number(pass, "instrumented_ns");
    json_array_foreach(json_object_get(pass, "rows"), i, row) if (json_is_null(json_object_get(row, "layer")))
        attributed += number(row, "total_ns");
    attributed /= operations;
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:I}", "series_ns", series_ns, "instrumented_ns", instrumented,
                     "attributed_ns", attributed, "unattributed_ns", instrumented - attributed, "instrumentation_ns",
                     instrumented - series_ns, "operations", (json_int_t)operations);
}
