/* What the plan reserves: memory groups and the budget. Internal to the plan. */
#pragma once

#include "plan.h"

/* Sizes every case and packs them into groups that fit 60% of their device's free memory: first the ceilings of a
 * device, then its cases, since the two are never prepared at the same time. */
void as_plan_pack(as_plan *plan);
/* Reserves preparation, verification and the least number of rounds for each case, by declared priority, and for the
 * ceilings that it names, all of them together within 15% of the budget. What does not fit gets a drop_reason. */
as_status as_plan_allot(as_plan *plan, as_error *e) AS_MUST_CHECK;
/* The allocation for people: what is reserved at which level, and what is free. */
void as_plan_print_allocation(const as_plan *plan, FILE *to);
