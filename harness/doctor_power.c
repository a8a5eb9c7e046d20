/* Heat and power supply. Kernel documentation: ABI/testing/sysfs-devices-system-cpu (thermal_throttle),
 * driver-api/thermal/sysfs-api.rst, ABI/testing/sysfs-class-power. */
#include "doctor_internal.h"
#include "sysfile.h"

#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Distance to the lowest trip point; a zone that tells none is taken to act at LIMIT_C, as most processors do. */
static const double MARGIN_C = 10, LIMIT_C = 100;

void as_check_thermal_throttling(const as_doctor_view *v, as_finding *f) {
    if (!v->after->has_throttles || !v->before->has_throttles) {
        char path[128];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/thermal_throttle/core_throttle_count",
                 v->place->cpu[0]);
        as_doctor_unreadable(v, f, path);
        return;
    }
    const uint64_t total = v->after->throttles, now = total - v->before->throttles;
    as_found(f,
             now > 0     ? AS_FIT_WARNING
             : total > 0 ? AS_FIT_NOTE
                         : AS_FIT_OK,
             "%llu events in the sample, %llu since boot", (unsigned long long)now, (unsigned long long)total);
    if (total > 0)
        as_remedy(f, "better cooling: fans, dust, ambient temperature; then see that the count stands still under "
                     "load");
}

/* ---- thermal zones ---- */

/* Lowest trip point at which the kernel or the firmware acts; NaN if there is none. */
static double trip_point(const as_doctor_view *v, const char *zone) {
    double lowest = NAN;
    for (int k = 0; k < 16; k++) {
        char path[192], type[32], text[32];
        snprintf(path, sizeof path, "/sys/class/thermal/%.64s/trip_point_%d_type", zone, k);
        if (!as_sysfile_read(v->sysroot, path, type, sizeof type))
            break;
        snprintf(path, sizeof path, "/sys/class/thermal/%.64s/trip_point_%d_temp", zone, k);
        if (strcmp(type, "active") == 0 || !as_sysfile_read(v->sysroot, path, text, sizeof text))
            continue;
        const double c = (double)strtol(text, NULL, 10) * 1e-3;
        if (c > 0) /* an unused trip point is 0 or below */
            lowest = fmin(c, lowest);
    }
    return lowest;
}

typedef struct zone {
    double c, margin_c; /* of the zone nearest to its limit */
    bool trip;          /* the limit is a trip point of its own */
    char type[32];
    int known;
} zone;

static void read_zone(const as_doctor_view *v, const char *name, zone *nearest) {
    char path[192], text[32], type[32];
    snprintf(path, sizeof path, "/sys/class/thermal/%.64s/temp", name);
    if (!as_sysfile_read(v->sysroot, path, text, sizeof text))
        return;
    const double c = (double)strtol(text, NULL, 10) * 1e-3, trip = trip_point(v, name);
    const double margin = (isnan(trip) ? LIMIT_C : trip) - c;
    snprintf(path, sizeof path, "/sys/class/thermal/%.64s/type", name);
    if (!as_sysfile_read(v->sysroot, path, type, sizeof type))
        snprintf(type, sizeof type, "%.31s", name);
    if (nearest->known++ > 0 && margin >= nearest->margin_c)
        return;
    nearest->c = c;
    nearest->margin_c = margin;
    nearest->trip = !isnan(trip);
    snprintf(nearest->type, sizeof nearest->type, "%s", type);
}

static DIR *open_folder(const as_doctor_view *v, const char *path) {
    char full[PATH_MAX];
    const int n = snprintf(full, sizeof full, "%s%s", v->sysroot, path);
    return n > 0 && (size_t)n < sizeof full ? opendir(full) : NULL;
}

void as_check_temperature(const as_doctor_view *v, as_finding *f) {
    zone nearest = {0};
    DIR *dir = open_folder(v, "/sys/class/thermal");
    for (struct dirent *d; dir && (d = readdir(dir));)
        if (strncmp(d->d_name, "thermal_zone", 12) == 0)
            read_zone(v, d->d_name, &nearest);
    if (dir)
        closedir(dir);
    if (nearest.known == 0) {
        as_doctor_unreadable(v, f, "/sys/class/thermal/thermal_zone0/temp");
        return;
    }
    const bool hot = nearest.margin_c < MARGIN_C;
    as_found(f, hot ? AS_FIT_WARNING : AS_FIT_OK, "%s at %.0f C, %.0f C below %s; the nearest of %d zones",
             nearest.type, nearest.c, nearest.margin_c, nearest.trip ? "its trip point" : "100 C (no trip point told)",
             nearest.known);
    if (hot)
        as_remedy(f, "let it cool down before the run; better cooling if it is idle now");
}

/* ---- battery ---- */

static bool supply_text(const as_doctor_view *v, const char *name, const char *file, char *text, size_t size) {
    char path[192];
    snprintf(path, sizeof path, "/sys/class/power_supply/%.64s/%s", name, file);
    return as_sysfile_read(v->sysroot, path, text, size);
}

void as_check_power_supply(const as_doctor_view *v, as_finding *f) {
    char text[32];
    int batteries = 0, discharging = 0, mains = 0, plugged = 0;
    DIR *dir = open_folder(v, "/sys/class/power_supply");
    if (!dir) {
        DIR *classes = open_folder(v, "/sys/class");
        if (classes) { /* a kernel without this class has no battery to tell of */
            closedir(classes);
            as_found(f, AS_FIT_OK, "no battery");
        } else {
            as_doctor_unreadable(v, f, "/sys/class/power_supply");
        }
        return;
    }
    for (struct dirent *d; (d = readdir(dir));) {
        if (d->d_name[0] == '.' || !supply_text(v, d->d_name, "type", text, sizeof text))
            continue;
        char scope[32];
        if (supply_text(v, d->d_name, "scope", scope, sizeof scope) && strcmp(scope, "Device") == 0)
            continue; /* of a mouse, not of the machine */
        if (strcmp(text, "Battery") == 0) {
            batteries++;
            discharging += supply_text(v, d->d_name, "status", text, sizeof text) && strcmp(text, "Discharging") == 0;
        } else if (supply_text(v, d->d_name, "online", text, sizeof text)) {
            mains++;
            plugged += text[0] != '0';
        }
    }
    closedir(dir);
    const bool unplugged = discharging > 0 || (batteries > 0 && mains > 0 && plugged == 0);
    if (unplugged)
        as_found(f, AS_FIT_WARNING, "on battery: %d of %d batteries discharge, %d of %d adapters are plugged in",
                 discharging, batteries, plugged, mains);
    else
        as_found(f, AS_FIT_OK, batteries ? "on mains" : "no battery");
    if (unplugged)
        as_remedy(f, "plug the adapter in and let the battery charge");
}
