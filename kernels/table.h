/* Tables of variants by X-macro: one row makes both the prototype of a launcher and its entry in the suite's table.
 * A launcher without a row has no prototype and fails under -Wmissing-prototypes; a row without a launcher fails
 * to link. A row is X(operation, variant, flags, summary); the list that it stands in says which hooks it has:
 *
 *   AS_<OP>_<KIND>          as_<op>_<variant>_<kind>                       the run hook alone
 *   AS_<OP>_<KIND>_STATE    the same and ..._prepare_<kind>, ..._finish_<kind>
 *   AS_<OP>_CPU_AVAILABLE   the run hook and ..._available_cpu: AS_EABSENT where the machine lacks what it needs
 *   AS_<OP>_<KIND>_LIBRARY  the same and ..._available_<kind>: AS_EABSENT where the machine lacks what it needs
 *
 * Rows with extra series end in them: X(operation, variant, flags, summary, {"name", "unit", false}, ...):
 *
 *   AS_<OP>_CUDA_SERIES     the run hook, AS_<OP>_CUDA_EXTRA the hooks of _STATE
 *
 * and where they have a breakdown, too: AS_<OP>_<KIND>_BREAKDOWN, the hooks of _STATE and ..._breakdown_<kind>. */
#pragma once

#include "../harness/suite.h"

#define AS_RUN_PROTOTYPE(kind, op, variant) as_status as_##op##_##variant##_##kind(const as_call *call, as_error *e);
#define AS_STATE_PROTOTYPE(kind, op, variant)                                                                          \
    AS_RUN_PROTOTYPE(kind, op, variant)                                                                                \
    as_status as_##op##_##variant##_prepare_##kind(const as_call *call, void **state, as_error *e);                    \
    void as_##op##_##variant##_finish_##kind(void *state);
#define AS_LIBRARY_PROTOTYPE(kind, op, variant)                                                                        \
    AS_STATE_PROTOTYPE(kind, op, variant)                                                                              \
    as_status as_##op##_##variant##_available_##kind(as_device *device, as_error *e);

#define AS_AVAILABLE_PROTOTYPE(kind, op, variant)                                                                      \
    AS_RUN_PROTOTYPE(kind, op, variant)                                                                                \
    as_status as_##op##_##variant##_available_##kind(as_device *device, as_error *e);

#define AS_BREAKDOWN_PROTOTYPE(kind, op, variant)                                                                      \
    AS_STATE_PROTOTYPE(kind, op, variant)                                                                              \
    as_status as_##op##_##variant##_breakdown_##kind(const as_call *call, as_parts *parts, as_error *e);

#define AS_PROTOTYPE_CPU(op, variant, ...) AS_RUN_PROTOTYPE(cpu, op, variant)
#define AS_PROTOTYPE_CPU_STATE(op, variant, ...) AS_STATE_PROTOTYPE(cpu, op, variant)
#define AS_PROTOTYPE_CPU_AVAILABLE(op, variant, ...) AS_AVAILABLE_PROTOTYPE(cpu, op, variant)
#define AS_PROTOTYPE_CPU_LIBRARY(op, variant, ...) AS_LIBRARY_PROTOTYPE(cpu, op, variant)
#define AS_PROTOTYPE_CUDA(op, variant, ...) AS_RUN_PROTOTYPE(cuda, op, variant)
#define AS_PROTOTYPE_CUDA_STATE(op, variant, ...) AS_STATE_PROTOTYPE(cuda, op, variant)
#define AS_PROTOTYPE_CUDA_LIBRARY(op, variant, ...) AS_LIBRARY_PROTOTYPE(cuda, op, variant)
#define AS_PROTOTYPE_CPU_BREAKDOWN(op, variant, ...) AS_BREAKDOWN_PROTOTYPE(cpu, op, variant)
#define AS_PROTOTYPE_CUDA_BREAKDOWN(op, variant, ...) AS_BREAKDOWN_PROTOTYPE(cuda, op, variant)

/* Entries of as_variant tables; C only. */
#define AS_RUN_ROW(kind, op, variant, flag, text)                                                                      \
    .name = #variant, .on = #kind, .summary = (text), .flags = (flag), .run = as_##op##_##variant##_##kind
#define AS_STATE_ROW(kind, op, variant, flag, text)                                                                    \
    AS_RUN_ROW(kind, op, variant, flag, text), .prepare = as_##op##_##variant##_prepare_##kind,                        \
                                               .finish = as_##op##_##variant##_finish_##kind
#define AS_LIBRARY_ROW(kind, op, variant, flag, text)                                                                  \
    AS_STATE_ROW(kind, op, variant, flag, text), .available = as_##op##_##variant##_available_##kind

#define AS_ROW_CPU(op, variant, flags, summary) {AS_RUN_ROW(cpu, op, variant, flags, summary)},
#define AS_ROW_CPU_STATE(op, variant, flags, summary) {AS_STATE_ROW(cpu, op, variant, flags, summary)},
#define AS_ROW_CPU_AVAILABLE(op, variant, flag, text)                                                                  \
    {AS_RUN_ROW(cpu, op, variant, flag, text), .available = as_##op##_##variant##_available_cpu},
#define AS_ROW_CPU_LIBRARY(op, variant, flags, summary) {AS_LIBRARY_ROW(cpu, op, variant, flags, summary)},
#define AS_ROW_CUDA(op, variant, flags, summary) {AS_RUN_ROW(cuda, op, variant, flags, summary)},
#define AS_ROW_CUDA_STATE(op, variant, flags, summary) {AS_STATE_ROW(cuda, op, variant, flags, summary)},
#define AS_ROW_CUDA_LIBRARY(op, variant, flags, summary) {AS_LIBRARY_ROW(cuda, op, variant, flags, summary)},
#define AS_ROW_CUDA_SERIES(op, variant, flags, summary, ...)                                                           \
    {AS_RUN_ROW(cuda, op, variant, flags, summary), .extra = {__VA_ARGS__}},
#define AS_ROW_CPU_EXTRA(op, variant, flags, summary, ...)                                                             \
    {AS_STATE_ROW(cpu, op, variant, flags, summary), .extra = {__VA_ARGS__}},
#define AS_ROW_CUDA_EXTRA(op, variant, flags, summary, ...)                                                            \
    {AS_STATE_ROW(cuda, op, variant, flags, summary), .extra = {__VA_ARGS__}},
#define AS_BREAKDOWN_ROW(kind, op, variant, flag, text, ...)                                                           \
    {AS_STATE_ROW(kind, op, variant, flag, text), .extra = {__VA_ARGS__},                                              \
     .breakdown = as_##op##_##variant##_breakdown_##kind},
#define AS_ROW_CPU_BREAKDOWN(op, variant, flags, summary, ...)                                                         \
    AS_BREAKDOWN_ROW(cpu, op, variant, flags, summary, __VA_ARGS__)
#define AS_ROW_CUDA_BREAKDOWN(op, variant, flags, summary, ...)                                                        \
    AS_BREAKDOWN_ROW(cuda, op, variant, flags, summary, __VA_ARGS__)
