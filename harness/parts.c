#include "parts.h"
#include "process.h"
#include "stats.h"

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct occurrence {
    double ns;
    int64_t operation;
} occurrence;

/* One row: a path in one layer, or (layer -1) over all its layers. */
typedef struct row {
    as_part part; /* texts and layer; ns unused */
    occurrence *occurrence;
    size_t count, room;
    double bytes, flops; /* of all occurrences */
    int last_layer;      /* layer -1: of the part that was added last */
} row;

struct as_parts {
    row *row;
    int rows, room;
    double *total_ns; /* of each operation */
    int64_t operations, operations_room;
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
        free(p->row[i].occurrence);
    if (p) {
        free(p->total_ns);
        free(p->row);
    }
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
static bool put(row *r, const as_part *part, int64_t operation, bool same) {
    if (!same || r->count == 0) {
        if (r->count == r->room) {
            const size_t room = r->room ? 2 * r->room : 64;
            occurrence *grown = realloc(r->occurrence, sizeof *grown * room);
            if (!grown)
                return false;
            r->occurrence = grown;
            r->room = room;
        }
        r->occurrence[r->count++] = (occurrence){0, operation};
    }
    r->occurrence[r->count - 1].ns += part->ns;
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
    if (!all || !put(all, part, p->operations, same)) {
        p->broken = true;
        return;
    }
    all->last_layer = part->layer;
    if (part->layer < 0)
        return;
    row *one = row_of(p, part, part->layer);
    if (!one || !put(one, part, p->operations, false))
        p->broken = true;
}

void as_parts_total(as_parts *p, double ns) {
    if (p->operations == p->operations_room) {
        const int64_t room = p->operations_room ? 2 * p->operations_room : 64;
        double *grown = realloc(p->total_ns, sizeof *grown * (size_t)room);
        if (!grown) {
            p->broken = true;
            return;
        }
        p->total_ns = grown;
        p->operations_room = room;
    }
    p->total_ns[p->operations++] = ns;
    p->fresh = true;
}

/* ---- the sums ---- */

/* Times of operations between the quartiles: their mean is near the median, as the series' figure is, and what a
 * disturbance adds to one operation stays out; unlike medians, means of parts add up to the mean of the whole. */
typedef struct middle {
    double low, high;
    double total_ns;
    int64_t operations;
} middle;

static bool within(const as_parts *p, const middle *m, int64_t operation) {
    return p->total_ns[operation] >= m->low && p->total_ns[operation] <= m->high;
}

static bool find_middle(const as_parts *p, middle *m) {
    const size_t n = (size_t)p->operations, cut = n / 4;
    double *sorted = malloc(sizeof *sorted * n);
    if (!sorted)
        return false;
    memcpy(sorted, p->total_ns, sizeof *sorted * n);
    as_stats_sort(sorted, n);
    *m = (middle){.low = sorted[cut], .high = sorted[n - 1 - cut]};
    free(sorted);
    for (int64_t i = 0; i < p->operations; i++)
        if (within(p, m, i)) {
            m->total_ns += p->total_ns[i];
            m->operations++;
        }
    return true;
}

/* Percentiles are of all operations, the other times of the middle ones. */
static json_t *row_json(const as_parts *p, const row *r, const middle *m) {
    double *sorted = malloc(sizeof *sorted * r->count), total = 0;
    size_t count = 0;
    if (!sorted)
        return NULL;
    for (size_t i = 0; i < r->count; i++) {
        const occurrence *o = &r->occurrence[i];
        sorted[i] = o->ns;
        if (within(p, m, o->operation)) {
            total += o->ns;
            count++;
        }
    }
    as_stats_sort(sorted, r->count);
    json_t *out =
        json_pack("{s:s, s:s, s:o, s:s, s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:s?}", "phase", r->part.phase, "path",
                  r->part.path, "layer", r->part.layer < 0 ? json_null() : json_integer(r->part.layer), "where",
                  r->part.where, "source", r->part.source, "count", (json_int_t)count, "total_ns", total, "mean_ns",
                  count > 0 ? total / (double)count : 0, "p50_ns", as_stats_quantile_sorted(sorted, r->count, 0.5),
                  "p99_ns", as_stats_quantile_sorted(sorted, r->count, 0.99), "bytes", r->bytes / (double)r->count,
                  "flops", r->flops / (double)r->count, "ceiling", r->part.ceiling);
    free(sorted);
    return out;
}

static bool in_middle(const as_parts *p, const row *r, const middle *m) {
    for (size_t i = 0; i < r->count; i++)
        if (within(p, m, r->occurrence[i].operation))
            return true;
    return false;
}

json_t *as_parts_json(const as_parts *p) {
    middle m;
    if (p->broken || p->operations == 0 || !find_middle(p, &m))
        return NULL;
    json_t *rows = json_array();
    for (int i = 0; i < p->rows; i++)
        if (in_middle(p, &p->row[i], &m) && json_array_append_new(rows, row_json(p, &p->row[i], &m)) != 0) {
            json_decref(rows);
            return NULL;
        }
    return json_pack("{s:I, s:f, s:o}", "operations", (json_int_t)m.operations, "instrumented_ns",
                     m.total_ns / (double)m.operations, "rows", rows);
}
