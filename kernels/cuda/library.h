/* Libraries of the CUDA toolkit, loaded at run time: a machine without one has its reason recorded and everything else
 * works. */
#pragma once

#include "../../harness/status.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Opens STEM.so.13 or .12, where the loader finds it or where the toolkit installs itself, and gives it to `resolve`,
 * which fills its caller's table of entry points and says whether all are there. A library that serves stays loaded: its
 * teardown order against the CUDA runtime is undefined. AS_EABSENT with the reason and the remedy where none does.
 * `what`: its name for people. */
as_status as_library_find(const char *what, const char *stem, bool (*resolve)(void *file), as_error *e) AS_MUST_CHECK;

#ifdef __cplusplus
}
#endif
