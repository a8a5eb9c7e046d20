#include "library.h"

#include <dlfcn.h>
#include <stdio.h>

static void *open_library(const char *name) {
    char path[128];
    void *file = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (file)
        return file;
    snprintf(path, sizeof path, "/usr/local/cuda/lib64/%s", name);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

as_status as_library_find(const char *what, const char *stem, bool (*resolve)(void *file), as_error *e) {
    static const int versions[] = {13, 12};
    const char *why = "not found";
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s.so.%d", stem, versions[i]);
        void *file = open_library(name);
        if (!file)
            continue;
        if (resolve(file))
            return AS_OK;
        why = "an entry point is missing";
        dlclose(file);
    }
    return as_fail(e, AS_EABSENT, "no usable %s (%s); put %s.so.13 or .12 on LD_LIBRARY_PATH", what, why, stem);
}
