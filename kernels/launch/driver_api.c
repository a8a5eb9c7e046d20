#include "driver_api.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

as_status as_cu_open(const as_cu_api **out, as_error *e) {
    static as_cu_api api;
    static bool filled;
    *out = &api;
    if (filled)
        return AS_OK;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return as_fail(e, AS_EABSENT, "no NVIDIA driver library (libcuda.so.1)");
        /* ISO C has no cast from object to function pointers, hence memcpy. */
#define LOOK_UP(name, symbol, parameters)                                                                              \
    {                                                                                                                  \
        void *found = dlsym(library, symbol);                                                                          \
        if (!found)                                                                                                    \
            return as_fail(e, AS_EABSENT, "this NVIDIA driver lacks " symbol "; install a newer one");                 \
        memcpy((void *)&api.name, &found, sizeof found);                                                               \
    }
    AS_CU_CALLS(LOOK_UP)
#undef LOOK_UP
    filled = true;
    return AS_OK;
}
