#include "parts.h"
#include "process.h"
#include "stats.h"

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* One row: a path in one layer, or (layer -1) over all its layers. */
typedef struct row {
    as_part part; /* texts and layer; ns unused */
    double *ns;   /* of each occurrence */
    size_t count, room;
    double bytes, flops; /* of all occurrences */
    int last_layer;      /* layer -1: of the part that was added last */
} row;

struct as_parts {
    row *row;
    int rows, room;
    double total_ns; /* of all operations */
    int64_t operations;
    bool fresh;  /* no part of this operation was added yet */
    bool broken; /* out of memory */
};

int64_t as_parts_now_ns(void) { return as_now_ns(); }

as_status as_parts_create(as_parts **out, as_error *e) {
    *out = calloc(1, sizeof **out);
    return *out ? AS_OK : as_fail(e, AS_ENOMEM, "no memory for a breakdown");
}

void as_parts_free(as_parts *p) {
    for (int i = 0; p && i < p->rows; i++)
        free(p->row[i].ns);
    if (p)
        free(p->row);
    free(p);
}

int64_t as_parts_operations(const as_parts *p) { return p->operations; }

static row *row_of(as_parts *p, const as_part *part, int layer) {
    for (int i = 0; i < p->rows; i++) {
        const as_part *have = &p->row[i].part;
        if (have->layer == layer && strcmp(have->path, part->path) == 0 && strcmp(have->phase, part->phase) == 0 &&
            strcmp(have->where, part->where) == 0)
            return &p->row[i];
    }
    if (p->rows == p->room) {
        const int room = p->room ? 2 * p->room : 64;
        row *grown = realloc(p->row, sizeof *grown * (size_t)room);
        if (!grown)
            return NULL;
        p->row = grown;
        p->room = room;
    }
    row *r = &p->row[p->rows++];
    *r = (row){.part = *part, .last_layer = -1};
    r->part.layer = layer;
    return r;
}

/* A new occurrence, or (same) more of the last one. */
static bool put(row *r, const as_part *part, bool same) {
    if (!same || r->count == 0) {
        if (r->count == r->room) {
            const size_t room = r->room ? 2 * r->room : 64;
            double *grown = realloc(r->ns, sizeof *grown * room);
            if (!grown)
                return false;
            r->ns = grown;
            r->room = room;
        }
        r->ns[r->count++] = 0;
    }
    r->ns[r->count - 1] += part->ns;
    r->bytes += part->bytes;
    r->flops += part->flops;
    return true;
}

/* Layers over which a path is summed grow; one that does not begins another occurrence, as does a new operation. */
void as_parts_add(as_parts *p, const as_part *part) {
    if (p->fresh)
        for (int i = 0; i < p->rows; i++)
            p->row[i].last_layer = -1;
    p->fresh = false;
    row *all = row_of(p, part, -1);
    const bool same = all && part->layer >= 0 && all->last_layer >= 0 && part->layer > all->last_layer;
    if (!all || !put(all, part, same)) {
        p->broken = true;
        return;
    }
    all->last_layer = part->layer;
    if (part->layer < 0)
        return;
    row *one = row_of(p, part, part->layer);
    if (!one || !put(one, part, false))
        p->broken = true;
}

void as_parts_total(as_parts *p, double ns) {
    p->total_ns += ns;
    p->operations++;
    p->fresh = true;
}

static json_t *row_json(const row *r) {
    double *sorted = malloc(sizeof *sorted * r->count), total = 0;
    if (!sorted)
        return NULL;
    memcpy(sorted, r->ns, sizeof *sorted * r->count);
    as_stats_sort(sorted, r->count);
    for (size_t i = 0; i < r->count; i++)
        total += sorted[i];
    const double count = (double)r->count;
    json_t *out = json_pack(
        "{s:s, s:s, s:o, s:s, s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:s?}", "phase", r->part.phase, "path",
        r->part.path, "layer", r->part.layer < 0 ? json_null() : json_integer(r->part.layer), "where", r->part.where,
        "source", r->part.source, "count", (json_int_t)r->count, "total_ns", total, "mean_ns", total / count, "p50_ns",
        as_stats_quantile_sorted(sorted, r->count, 0.5), "p99_ns", as_stats_quantile_sorted(sorted, r->count, 0.99),
        "bytes", r->bytes / count, "flops", r->flops / count, "ceiling", r->part.ceiling);
    free(sorted);
    return out;
}

json_t *as_parts_json(const as_parts *p) {
    json_t *rows = json_array();
    if (p->broken || p->operations == 0) {
        json_decref(rows);
        return NULL;
    }
    for (int i = 0; i < p->rows; i++)
        if (json_array_append_new(rows, row_json(&p->row[i])) != 0) {
            json_decref(rows);
            return NULL;
        }
    return json_pack("{s:I, s:f, s:o}", "operations", (json_int_t)p->operations, "instrumented_ns",
                     p->total_ns / (double)p->operations, "rows", rows);
}
