/* Device discovery. The parent runs this same binary as `assay __probe` and reads one JSON document from its
 * standard output: a driver that crashes or hangs on initialisation takes the probe with it, not the run. */
#include "address_space.h"
#include "plan.h"
#include "process.h"
#include "telemetry.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void add_absent(json_t *absent, const char *kind, const char *reason, bool broken) {
    json_array_append_new(absent, json_pack("{s:s, s:s, s:b}", "kind", kind, "reason", reason, "broken", (int)broken));
}

/* Why the energy counter of a device cannot be read; null where it can. */
static json_t *no_energy(const as_device_driver *driver, const json_t *description) {
    const as_device_telemetry *t = driver->telemetry;
    void *monitor = t && t->energy ? t->open(description) : NULL;
    if (!monitor)
        return json_string("this device has no energy counter that can be read");
    double joules;
    char reason[160] = "";
    const bool readable = t->energy(monitor, &joules, reason);
    t->close(monitor);
    return readable ? json_null() : json_string(reason);
}

static void probe_driver(const as_device_driver *driver, json_t *devices, json_t *absent) {
    as_error e = {0};
    char reason[256] = "no device";
    int n = 0;
    if (driver->count(&n, reason, &e) != AS_OK) {
        add_absent(absent, driver->kind, e.message, true);
        return;
    }
    if (n == 0)
        add_absent(absent, driver->kind, reason, false);
    for (int i = 0; i < n; i++) {
        as_device d = {0};
        if (driver->open(i, &d, &e) != AS_OK) {
            add_absent(absent, driver->kind, e.message, true);
            continue;
        }
        size_t free_bytes = 0, total = 0;
        if (driver->memory(&d, &free_bytes, &total, &e) != AS_OK)
            free_bytes = 0;
        json_t *description = driver->describe(&d);
        json_array_append_new(
            devices, json_pack("{s:s, s:s, s:i, s:I, s:I, s:o, s:o}", "name", d.name, "kind", driver->kind, "index", i,
                               "cache", (json_int_t)d.last_level_cache_bytes, "free", (json_int_t)free_bytes,
                               "no_energy", no_energy(driver, description), "description", description));
        driver->close(&d);
    }
}

int as_probe_child(const as_registry *registry) {
    json_t *devices = json_array(), *absent = json_array();
    probe_driver(&as_cpu_driver, devices, absent);
    for (const as_device_driver *const *d = registry->drivers; d && *d; d++)
        probe_driver(*d, devices, absent);
    for (const as_absent_kind *k = registry->absent; k && k->kind; k++)
        add_absent(absent, k->kind, k->reason, false);
    json_t *all = json_pack("{s:o, s:o}", "devices", devices, "absent", absent);
    int rc = all && json_dumpf(all, stdout, JSON_COMPACT) == 0 ? 0 : 3;
    json_decref(all);
    return rc;
}

static const as_device_driver *find_driver(const as_registry *registry, const char *kind) {
    if (strcmp(kind, as_cpu_driver.kind) == 0)
        return &as_cpu_driver;
    for (const as_device_driver *const *d = registry->drivers; d && *d; d++)
        if (strcmp((*d)->kind, kind) == 0)
            return *d;
    return NULL;
}

as_status as_probe(as_machine *out, const as_registry *registry, as_error *e) {
    memset(out, 0, sizeof *out);
    char *text = NULL;
    AS_TRY(as_process_self_output("__probe", &text, 60000, e));
    json_error_t je;
    json_t *all = json_loads(text, JSON_REJECT_DUPLICATES, &je);
    free(text);
    if (!all)
        return as_fail(e, AS_EENV, "the device probe died or printed no JSON; run `assay __probe` to see why");
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(all, "devices"), i, row) {
        const as_device_driver *driver = find_driver(registry, json_string_value(json_object_get(row, "kind")));
        if (!driver || out->devices == AS_MAX_DEVICES)
            continue;
        as_device *d = &out->device[out->devices];
        *d = (as_device){.driver = driver, .index = (int)json_integer_value(json_object_get(row, "index"))};
        snprintf(d->name, sizeof d->name, "%s", json_string_value(json_object_get(row, "name")));
        d->last_level_cache_bytes = (size_t)json_integer_value(json_object_get(row, "cache"));
        size_t free_bytes = (size_t)json_integer_value(json_object_get(row, "free"));
        const size_t room = driver == &as_cpu_driver ? as_address_space_room_bytes() : SIZE_MAX;
        out->free_bytes[out->devices] = free_bytes < room ? free_bytes : room;
        out->no_energy[out->devices] = json_incref(json_object_get(row, "no_energy"));
        out->description[out->devices++] = json_incref(json_object_get(row, "description"));
    }
    out->absent = json_incref(json_object_get(all, "absent"));
    json_decref(all);
    return AS_OK;
}

void as_machine_free(as_machine *m) {
    for (int i = 0; i < m->devices; i++)
        json_decref(m->description[i]), json_decref(m->no_energy[i]);
    json_decref(m->absent);
    memset(m, 0, sizeof *m);
}
