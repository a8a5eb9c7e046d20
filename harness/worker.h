/* The worker process: opens one device and obeys the supervisor, one JSON line a command. The protocol is private to
 * one binary: the supervisor starts /proc/self/exe. */
#pragma once

#include "suite.h"

/* Body of the process started as `assay __worker`; returns its exit code. */
int as_worker_main(const as_registry *registry);
