/* One variant of the suite stands for the variants of that name of all families: a case's model says which family's
 * hooks it has. */
#include "inference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const as_variant *as_family_variant(const as_family_suite *f, const char *name, const char *on) {
    for (const as_variant *v = f->variants; v->name; v++)
        if (strcmp(v->name, name) == 0 && strcmp(v->on, on) == 0)
            return v;
    return NULL;
}

typedef struct routed {
    const as_variant *v; /* the family's */
    void *state;
} routed;

as_status as_route_prepare(const as_variant *v, const as_call *call, void **state, as_error *e) {
    routed *r = malloc(sizeof *r);
    if (!r)
        return as_fail(e, AS_ENOMEM, "no memory for the state of a variant");
    *r = (routed){v, NULL};
    for (int i = 0; call->extra && i < AS_MAX_EXTRA; i++)
        call->extra[i] = NAN; /* a family that has no such series leaves it so */
    const as_status s = v->prepare(call, &r->state, e);
    if (s == AS_OK)
        *state = r;
    else
        free(r);
    return s;
}

void as_route_finish(void *state) {
    routed *r = state;
    r->v->finish(r->state);
    free(r);
}

as_status as_route_run(const as_call *call, as_error *e) {
    const routed *r = call->state;
    as_call inner = *call;
    inner.state = r->state;
    return r->v->run(&inner, e);
}

as_status as_route_breakdown(const as_call *call, as_parts *parts, as_error *e) {
    const routed *r = call->state;
    as_call inner = *call;
    inner.state = r->state;
    return r->v->breakdown(&inner, parts, e);
}

void *as_route_state(void *state) { return ((routed *)state)->state; }
