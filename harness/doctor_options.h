/* The command line of `assay doctor`: a table of its own, since most options of `run` mean nothing to it. */
#pragma once

#include "status.h"
#include "suite.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct as_doctor_options {
    const char *device, *cpus, *out;
    const char *profile_name, *sample; /* as written */
    as_profile profile;
    int64_t sample_ns;
    bool json, help;
} as_doctor_options;

/* Fills `o` from argv[2..], into which it points. AS_EUSAGE names the option and the remedy; a device is of a kind that
 * the registry knows, there or not. */
as_status as_doctor_options_parse(as_doctor_options *o, const as_registry *registry, int argc, char **argv,
                                  as_error *e) AS_MUST_CHECK;
void as_doctor_help(void);
/* True for a device that --device names, by itself or by its kind; for every device without the option. */
bool as_doctor_asks(const as_doctor_options *o, const char *name, const char *kind);
