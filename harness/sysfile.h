/* Internal: small files of /proc and /sys, read below a root so that tests can bring a tree of their own.
 * Every function tolerates a missing file. Number parsing does not depend on the locale. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* sysroot + path for reading line by line; NULL if it cannot be opened. Closed by the caller. */
FILE *as_sysfile_open(const char *sysroot, const char *path);
/* First size - 1 bytes of sysroot + path, without trailing white space; false (and "") if missing or empty. */
bool as_sysfile_read(const char *sysroot, const char *path, char *text, size_t size);
/* A file that holds one unsigned decimal number and nothing else. */
bool as_sysfile_uint(const char *sysroot, const char *path, uint64_t *out);
/* Value of the first line "name<blanks>:<blanks>value" (cpuinfo, meminfo, status); false if there is none. */
bool as_sysfile_field(const char *text, const char *name, char *value, size_t size);
/* Bytes of a "name:  123 kB" line of /proc/meminfo; 0 if unknown. */
uint64_t as_sysfile_meminfo_bytes(const char *sysroot, const char *name);
/* Non-negative decimal such as "0.25" whatever LC_NUMERIC says; false where no digit stands first. */
bool as_sysfile_decimal(const char *text, const char **end, double *out);
/* Number of indices in a kernel list such as "0-3,8"; 0 if it is no such list. `first` (NULL allowed): the lowest. */
int as_sysfile_list_count(const char *list, int *first);
