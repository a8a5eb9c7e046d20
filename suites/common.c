#include "suites.h"

#include <string.h>

as_status as_suite_check_common(const as_params *p, const as_device *d, as_error *e) {
    bool cpu = strcmp(d->driver->kind, "cpu") == 0;
    if (as_params_has(p, "cache")) {
        const char *cache = as_params_text(p, "cache");
        if (strcmp(cache, "warm") != 0 && strcmp(cache, "cold") != 0)
            return as_fail(e, AS_EUSAGE, "cache is warm or cold, not '%s'", cache);
    }
    if (as_params_int(p, "threads") == 0)
        return as_fail(e, AS_EUSAGE, "threads is at least 1, or all");
    if (!cpu && as_params_int(p, "threads") != 1)
        return as_fail(e, AS_EUSAGE, "threads is for the cpu: leave it out on %s", d->name);
    return AS_OK;
}
