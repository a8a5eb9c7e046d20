/* libassay_foreign.so: the callee of call_library, found with dlopen beside the program. */
#include "launch.h"

long as_foreign_abs(long x) { return x < 0 ? -x : x; }
