/* Readings around a round and the rules that judge them. Readings are taken outside the timed region, when the
 * device has just become idle or is about to be used; the rules below are made for that.
 *
 *   throttled    The driver counts the time a policy held the clocks down. It grew by more than 1% of the time
 *                between the readings; or the reason stands in the second reading. A reason in the first reading
 *                alone belongs to whatever ran before. And the SM clock of the second reading, where its maximum is
 *                known, stands more than 1% below it: a card that just worked at its power limit reports the reason
 *                for a while with its clocks all but back, and the next case does not feel it.
 *   clocks moved The SM clocks of the two readings differ by over 5% of the larger, both were read while the device
 *                was in use (an idle device clocks down, which says nothing of the round), and no throttle reason
 *                explains it. A card that stays at 60% of its maximum is steady: nothing is said.
 *   other processes  More than one compute process in either reading. NVML may number them in another PID namespace,
 *                so that they are counted, not matched: this process has a context, the rest are others. */
#include "cuda.h"
#include "internal.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const double VIOLATION_SHARE = 0.01, CLOCK_SHARE = 0.05, HELD_SHARE = 0.01;

static const struct {
    int64_t bits;
    const char *name;
    const char *time; /* the driver's counter of it in a reading; NULL: none */
} reasons[] = {
    {AS_THROTTLE_POWER_CAP, "power cap", "power_violation_ns"},
    {AS_THROTTLE_SW_THERMAL | AS_THROTTLE_HW_THERMAL, "thermal", "thermal_violation_ns"},
    {AS_THROTTLE_POWER_BRAKE, "power brake", NULL},
    {AS_THROTTLE_HW_SLOWDOWN, "hardware slowdown", NULL},
    {AS_THROTTLE_SYNC_BOOST, "sync boost", "sync_boost_violation_ns"},
    {AS_THROTTLE_DISPLAY, "display clock", NULL},
};
enum { REASONS = sizeof reasons / sizeof *reasons };

static void put(json_t *o, const char *key, double value) {
    if (isfinite(value))
        json_object_set_new(o, key, json_real(value));
}

json_t *as_cuda_counters(as_device *d) {
    as_nvml_reading r;
    struct timespec t;
    json_t *o = json_object();
    const as_cuda_impl *c = as_cuda_of(d);
    if (!c->nvml)
        return o;
    as_nvml_read(c->nvml, &r);
    clock_gettime(CLOCK_MONOTONIC, &t);
    put(o, "time_ns", (double)t.tv_sec * 1e9 + (double)t.tv_nsec);
    put(o, "sm_clock_hz", r.sm_clock_hz);
    put(o, "sm_clock_max_hz", r.sm_clock_max_hz);
    put(o, "memory_clock_hz", r.memory_clock_hz);
    put(o, "power_watts", r.power_watts);
    put(o, "temperature_c", r.temperature_c);
    put(o, "power_violation_ns", r.power_violation_ns);
    put(o, "thermal_violation_ns", r.thermal_violation_ns);
    put(o, "sync_boost_violation_ns", r.sync_boost_violation_ns);
    if (r.processes >= 0)
        json_object_set_new(o, "other_processes", json_integer(r.processes > 1 ? r.processes - 1 : 0));
    if (r.throttle >= 0) {
        char names[160] = "";
        for (int i = 0; i < REASONS; i++)
            if (r.throttle & reasons[i].bits)
                snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", names[0] ? ", " : "",
                         reasons[i].name);
        json_object_set_new(o, "throttle_mask", json_integer(r.throttle));
        json_object_set_new(o, "throttle_reasons", json_string(names));
    }
    return o;
}

static double number(const json_t *o, const char *key) {
    const json_t *v = json_object_get(o, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

/* -1 where the reading has none. */
static int64_t mask_of(const json_t *o) {
    const json_t *v = json_object_get(o, "throttle_mask");
    return json_is_integer(v) ? json_integer_value(v) : -1;
}

static bool violated(const json_t *before, const json_t *after, const char *key) {
    const double elapsed_ns = number(after, "time_ns") - number(before, "time_ns");
    const double held_ns = number(after, key) - number(before, key);
    return elapsed_ns > 0 && held_ns > VIOLATION_SHARE * elapsed_ns; /* false where either is NaN */
}

/* True also where a clock is unknown. */
static bool held_down(const json_t *reading) {
    return !(number(reading, "sm_clock_hz") >= (1 - HELD_SHARE) * number(reading, "sm_clock_max_hz"));
}

static bool judge_throttle(const json_t *before, const json_t *after, json_t *flags) {
    if (!held_down(after))
        return false;
    const int64_t mask = mask_of(after) < 0 ? 0 : mask_of(after);
    bool any = false;
    for (int i = 0; i < REASONS; i++) {
        const bool held =
            (mask & reasons[i].bits) != 0 || (reasons[i].time && violated(before, after, reasons[i].time));
        if (held)
            json_array_append_new(flags, json_sprintf("throttled: %s", reasons[i].name));
        any = any || held;
    }
    return any;
}

static bool in_use(const json_t *reading) {
    const int64_t mask = mask_of(reading);
    return mask >= 0 && !(mask & AS_THROTTLE_IDLE);
}

void as_cuda_judge(const json_t *before, const json_t *after, json_t *flags) {
    const bool throttled = judge_throttle(before, after, flags);
    const double first = number(before, "sm_clock_hz"), second = number(after, "sm_clock_hz");
    if (!throttled && in_use(before) && in_use(after) && fabs(first - second) > CLOCK_SHARE * fmax(first, second))
        json_array_append_new(flags, json_string("clocks moved"));
    if (number(before, "other_processes") > 0 || number(after, "other_processes") > 0)
        json_array_append_new(flags, json_string("other processes on the GPU"));
}
