/* Internal to the environment's files: parts of `context`, each on a given file tree. */
#pragma once

#include "place.h"

#include <stddef.h>

struct json_t;

/* Model name as /proc/cpuinfo tells it, else the machine architecture; always valid UTF-8. */
void as_environment_cpu_model(const char *sysroot, char *out, size_t size);
/* String from bytes of unknown origin: what is no printable ASCII and no valid UTF-8 becomes '?'. */
struct json_t *as_environment_text(const char *bytes);

struct json_t *as_environment_machine(const char *sysroot, const as_topology_info *t);
struct json_t *as_environment_container(const char *sysroot);
struct json_t *as_environment_mitigations(const char *sysroot);
