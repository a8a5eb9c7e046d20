/* References on disk, beside the journal: the launches of one run share them. */
#pragma once

#include "verify.h"

/* Loads the reference of `c->key` and `columns` from `folder` into the empty cache. False where there is none, or a
 * file that is cut or of another key: then it is computed again. */
bool as_reference_load(as_reference_cache *c, const char *folder, int64_t columns);
/* Stores it, by a temporary file and rename. A failure costs the next launch some time and nothing else. */
void as_reference_store(const as_reference_cache *c, const char *folder, int64_t columns);
