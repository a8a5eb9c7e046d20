/* Which ceilings serve a bound of a case: docs/method.md 13 states the rule. */
#include "../kernels/ceiling/levels.h"
#include "../kernels/isa.h"
#include "../kernels/matmul/types.h"
#include "suites.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct choice {
    as_ceiling_ref *ref; /* AS_MAX_CEILING_REFS */
    int n;
    const char *threads; /* NULL on a GPU */
} choice;

static void add(choice *c, const char *variant, const char *axis, const char *value, const char *more) {
    as_ceiling_ref *r = &c->ref[c->n++];
    r->variant = variant;
    snprintf(r->axes, sizeof r->axes, "%s=%s%s%s%s", axis, value, c->threads ? ";threads=" : "",
             c->threads ? c->threads : "", more);
}

/* ---- memory ---- */

/* Ceilings of memory by the share of their bytes that they write. */
static const struct mix {
    const char *variant;
    double written;
} mixes[] = {{"read", 0}, {"triad", 1.0 / 3}, {"copy", 0.5}, {"write", 1}};

/* Those of the case's own mix, or of the two that its mix lies between: kernels write and read at different rates, and
 * the two directions overlap, so that neither a read nor a copy bounds all others. Returns the first; *last is the last.
 */
static int mixes_for(const as_work *w, int *last) {
    const double bytes = w->bytes_read + w->bytes_written, written = bytes > 0 ? w->bytes_written / bytes : 0;
    int i = 0;
    while (i < AS_COUNT(mixes) - 1 && written > mixes[i + 1].written)
        i++;
    *last = i;
    if (fabs(written - mixes[i].written) < 0.05)
        return i;
    *last = i + 1;
    return fabs(written - mixes[i + 1].written) < 0.05 ? i + 1 : i;
}

/* Of data that no cache holds, stores around the caches are the usual ones, temporal ones the others; in the last level
 * the other way round. Which are faster depends on the machine; both count. */
static const char *other_stores(as_level level) {
    return level == AS_LEVEL_L3 ? ";stores=nt" : level == AS_LEVEL_DRAM ? ";stores=temporal" : NULL;
}

static void cpu_memory(choice *c, const as_work *w, const as_params *p, bool cold) {
    as_levels l;
    as_error ignored;
    if (as_levels_read(&l, &ignored) != AS_OK)
        return;
    const int64_t threads = as_params_has(p, "threads") ? as_params_int(p, "threads") : 1;
    const as_level level = as_level_serving(&l, w->working_set_bytes, threads, cold);
    int last;
    for (int i = mixes_for(w, &last); i <= last; i++) {
        add(c, mixes[i].variant, "level", as_level_name(level), "");
        if (mixes[i].written > 0 && other_stores(level))
            add(c, mixes[i].variant, "level", as_level_name(level), other_stores(level));
    }
}

/* In l2 reading counts beside any mix: it is the level's highest rate. */
static void cuda_memory(choice *c, const as_work *w, const as_device *d, bool cold) {
    const bool l2 = !cold && (double)w->working_set_bytes <= 4.0 * (double)d->last_level_cache_bytes;
    int last, first = mixes_for(w, &last);
    if (l2 && first > 0)
        add(c, "read", "level", "l2", "");
    for (int i = first; i <= last; i++)
        add(c, mixes[i].variant, "level", l2 ? "l2" : "hbm", "");
}

/* ---- the others ---- */

/* bf16 by whichever unit is the fastest: as it is, or widened to f32. (On a Xeon guest with AMX vdpbf16ps reaches half
 * of the rate of f32, the tiles thirteen times as much.) */
static void cpu_flops(choice *c, const char *type) {
    const bool bf16 = strcmp(type, "bf16") == 0, s8 = strcmp(type, "s8") == 0;
    if (!s8)
        add(c, "fma", "type", bf16 ? "f32" : type, "");
    if (bf16 && as_isa_bf16())
        add(c, "fma", "type", type, "");
    if (s8 || (bf16 && as_isa_tiles()))
        add(c, "tensor", "type", type, "");
}

static void cpu_ceilings(choice *c, const as_bound *b, const as_work *w, const as_params *p, bool cold) {
    c->threads = as_params_has(p, "threads") ? as_params_text(p, "threads") : "1";
    if (strncmp(b->ceiling, "flops.", 6) == 0)
        cpu_flops(c, b->ceiling + 6);
    else if (strcmp(b->ceiling, "memory") == 0)
        cpu_memory(c, w, p, cold);
    else if (strcmp(b->ceiling, "atomics") == 0)
        add(c, "atomic", "level", "none", "");
}

static void cuda_ceilings(choice *c, const as_bound *b, const as_work *w, const as_device *d, bool cold) {
    const char *type = b->ceiling + 6;
    if (strncmp(b->ceiling, "flops.", 6) == 0) {
        const as_matmul_type *t = as_matmul_type_named(type);
        add(c, t && t->element != AS_MM_F32 ? "tensor" : "fma", "type", type, "");
    } else if (strncmp(b->ceiling, "link.", 5) == 0)
        add(c, "link", "dir", b->ceiling + 5, "");
    else if (strcmp(b->ceiling, "launch") == 0)
        add(c, "launch", "level", "none", "");
    else if (strcmp(b->ceiling, "atomics") == 0)
        add(c, "atomic", "level", "l2", "");
    else if (strcmp(b->ceiling, "atomics.shared") == 0)
        add(c, "atomic", "level", "shared", "");
    else if (strcmp(b->ceiling, "memory") == 0)
        cuda_memory(c, w, d, cold);
}

int as_ceilings_for(const as_bound *b, const as_work *w, const as_params *p, const as_device *d, bool cold,
                    as_ceiling_ref out[AS_MAX_CEILING_REFS]) {
    choice c = {.ref = out};
    if (strcmp(d->driver->kind, "cpu") == 0)
        cpu_ceilings(&c, b, w, p, cold);
    else if (strcmp(d->driver->kind, "cuda") == 0)
        cuda_ceilings(&c, b, w, d, cold);
    return c.n;
}
