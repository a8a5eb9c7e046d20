/* Rows of a kernel's table of configurations, by name. */
#pragma once

#include <string.h>

/* The row's number, -1 for auto, -2 where there is no such row. */
static inline int as_config_row(const char *const names[], int count, const char *name) {
    if (strcmp(name, "auto") == 0)
        return -1;
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -2;
}
