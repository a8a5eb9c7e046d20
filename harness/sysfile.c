#include "sysfile.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

FILE *as_sysfile_open(const char *sysroot, const char *path) {
    char full[PATH_MAX];
    const int n = snprintf(full, sizeof full, "%s%s", sysroot, path);
    return n > 0 && (size_t)n < sizeof full ? fopen(full, "re") : NULL;
}

bool as_sysfile_read(const char *sysroot, const char *path, char *text, size_t size) {
    char full[PATH_MAX];
    text[0] = '\0';
    int n = snprintf(full, sizeof full, "%s%s", sysroot, path);
    if (n < 0 || (size_t)n >= sizeof full)
        return false;
    int fd = open(full, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t used = 0;
    while (used < size - 1) {
        ssize_t got = read(fd, text + used, size - 1 - used);
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    close(fd);
    while (used > 0 && isspace((unsigned char)text[used - 1]))
        used--;
    text[used] = '\0';
    return used > 0;
}

bool as_sysfile_uint(const char *sysroot, const char *path, uint64_t *out) {
    char text[64];
    if (!as_sysfile_read(sysroot, path, text, sizeof text) || !isdigit((unsigned char)text[0]))
        return false;
    char *end;
    *out = strtoull(text, &end, 10);
    return *end == '\0';
}

bool as_sysfile_field(const char *text, const char *name, char *value, size_t size) {
    size_t length = strlen(name);
    for (const char *line = text; line && *line; line = strchr(line, '\n'), line += line != NULL) {
        if (strncmp(line, name, length) != 0)
            continue;
        const char *p = line + length;
        p += strspn(p, " \t");
        if (*p++ != ':')
            continue;
        p += strspn(p, " \t");
        size_t n = strcspn(p, "\n");
        while (n > 0 && isspace((unsigned char)p[n - 1]))
            n--;
        n = n < size - 1 ? n : size - 1;
        memcpy(value, p, n);
        value[n] = '\0';
        return true;
    }
    value[0] = '\0';
    return false;
}

uint64_t as_sysfile_meminfo_bytes(const char *sysroot, const char *name) {
    char text[4096], value[64];
    if (!as_sysfile_read(sysroot, "/proc/meminfo", text, sizeof text) ||
        !as_sysfile_field(text, name, value, sizeof value) || !isdigit((unsigned char)value[0]))
        return 0;
    return strtoull(value, NULL, 10) * 1024; /* the kernel's "kB" are KiB */
}

bool as_sysfile_decimal(const char *text, const char **end, double *out) {
    double value = 0, unit = 1;
    const char *p = text;
    if (!isdigit((unsigned char)*p))
        return false;
    for (; isdigit((unsigned char)*p); p++)
        value = value * 10 + (*p - '0');
    if (*p == '.')
        for (p++; isdigit((unsigned char)*p); p++) {
            value = value * 10 + (*p - '0');
            unit *= 10;
        }
    *out = value / unit;
    if (end)
        *end = p;
    return true;
}

int as_sysfile_list_count(const char *list, int *first) {
    int count = 0;
    for (const char *p = list; isdigit((unsigned char)*p);) {
        char *end;
        long low = strtol(p, &end, 10), high = low;
        if (*end == '-')
            high = strtol(end + 1, &end, 10);
        if (high < low || high > INT_MAX / 2)
            return 0;
        if (first && (count == 0 || low < *first))
            *first = (int)low;
        count += (int)(high - low + 1);
        if (*end == '\0')
            return count;
        if (*end != ',')
            return 0;
        p = end + 1;
    }
    return 0;
}
