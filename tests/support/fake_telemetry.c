/* The telemetry of the fake device. FAKE_SAMPLER=crash, hang or stop: its monitor kills the sampler's process when it is
 * opened, hangs there, or hangs in the first reading. Other processes are spared. */
#include "fake_device.h"

#include "process.h"
#include "telemetry.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { POWER, MASK, THROTTLED, NOTHING };

static const as_telemetry_column columns[] = {
    [POWER] = {"power_watts", AS_GAUGE, 1, "power", "W", 1, 1},
    [MASK] = {"throttle_mask", AS_MASK, 1, "why", "bits", 1, 0},
    [THROTTLED] = {"throttle_fraction", AS_RATE, 1e-9, "thr", "%", 100, 1},
    [NOTHING] = {"memory_temperature_c", AS_GAUGE, 1, "mtemp", "C", 1, 0},
    {0},
};

typedef struct monitor {
    int64_t step; /* of the energy counter, seen last */
    double joules;
} monitor;

static bool asked(const char *what) {
    const char *value = getenv("FAKE_SAMPLER");
    return fake.sampler && value && strcmp(value, what) == 0;
}

static void *fake_monitor_open(const json_t *description) {
    if (!json_object_get(description, "model"))
        return NULL;
    if (asked("crash"))
        abort();
    while (asked("hang"))
        pause();
    return calloc(1, sizeof(monitor));
}

/* Half of the time is throttled. */
static void fake_monitor_read(void *m, double *values) {
    (void)m;
    while (asked("stop"))
        pause();
    values[POWER] = 123.456;
    values[MASK] = 4;
    values[THROTTLED] = (double)as_now_ns() / 2;
    values[NOTHING] = NAN;
}

/* What the machine takes at rest, and what each operation of this process adds, as of the last step. */
static bool fake_monitor_energy(void *monitor_, double *joules, char reason[160]) {
    monitor *m = monitor_;
    if (fake.energy_step_ns == 0) {
        snprintf(reason, 160, "the fake counter is off");
        return false;
    }
    const int64_t now = as_now_ns(), step = now / fake.energy_step_ns;
    if (step != m->step)
        m->joules = fake.idle_watts * (double)(step * fake.energy_step_ns) * 1e-9 + fake.op_joules * fake.operations;
    m->step = step;
    *joules = m->joules;
    return true;
}

const as_device_telemetry fake_telemetry = {
    .columns = columns,
    .open = fake_monitor_open,
    .close = free,
    .read = fake_monitor_read,
    .energy = fake_monitor_energy,
};
