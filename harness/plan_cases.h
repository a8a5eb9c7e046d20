/* From points to cases: internal to the plan. */
#pragma once

#include "plan.h"

/* Adds every case that the options select, and the ceilings that these cases name. AS_EUSAGE where nothing matches,
 * AS_EABSENT or AS_EENV where an asked device is not there or broken. */
as_status as_plan_add_cases(as_plan *plan, as_error *e) AS_MUST_CHECK;
bool as_case_is_cold(const as_case *c);

/* Is it in the list? An empty list holds every name. */
bool as_names_hold(const as_names *list, const char *name);
/* AS_EUSAGE with the names that there are where --suite names another. */
/* Suite number i of those that people may name: the registry's, then its ceilings; NULL behind the last. */
const as_suite *as_registry_suite(const as_registry *registry, int i);
as_status as_registry_check_suites(const as_registry *registry, const as_names *suites, as_error *e) AS_MUST_CHECK;
/* Is it among --device and --gpu? A whole kind may be named. */
bool as_plan_device_wanted(const as_options *o, const as_device *d);
/* A name of --device against what the probe found: AS_EABSENT, AS_EENV (broken) or AS_EUSAGE (unknown). */
as_status as_plan_check_device(const as_plan *plan, const char *name, as_error *e) AS_MUST_CHECK;
