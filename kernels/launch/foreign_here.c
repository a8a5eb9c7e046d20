/* The callee of call_static and call_pointer: in a file of its own, so that no compiler sees through the call. */
#include "launch.h"

long as_launch_abs_here(long x) { return x < 0 ? -x : x; }
