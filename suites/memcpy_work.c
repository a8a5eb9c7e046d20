/* Which parameters each variant of memcpy takes, as a table, and the work of one operation. */
#include "memcpy.h"

/* Axes that a variant takes besides bytes and dir. The others stand at their default. */
enum { MEMORY = 1, PIECES = 2, USES = 4, COPIES = 8, BY = 16, PEER = 32, NODE = 64, THREADS = 128, CACHE = 256 };

typedef enum kind { PLAIN, LATENCY, REUSED, MANAGED, REQUEST } kind;

typedef struct rule {
    const char *on, *variant;
    const char *dirs;     /* those that it copies */
    const char *memories; /* of the host side; NULL: axis memory is not taken */
    int axes;
    kind work;
    int64_t most_bytes; /* 0: no limit */
} rule;

#define ANY_HOST "pinned,pageable,write_combined,registered"
#define MANAGED_BYTES ((int64_t)512 << 20)

static const rule rules[] = {
    {"cpu", "libc", "h2h", NULL, NODE | THREADS | CACHE, PLAIN, 0},
    {"cpu", "request_copy", "h2h", NULL, COPIES, REQUEST, AS_MEMCPY_REQUEST_BYTES},
    {"cpu", "request_straight", "h2h", NULL, 0, REQUEST, AS_MEMCPY_REQUEST_BYTES},
    {"cpu", NULL, "h2h", NULL, THREADS | CACHE, PLAIN, 0},
    {"cuda", "sync", "h2d,d2h,d2d", ANY_HOST, MEMORY | CACHE, PLAIN, 0},
    {"cuda", "async", "h2d,d2h,d2d", ANY_HOST, MEMORY | NODE | CACHE, PLAIN, 0},
    {"cuda", "kernel", "h2d,d2h,d2d", "pinned,write_combined", MEMORY | CACHE, PLAIN, 0},
    {"cuda", "many", "h2d,d2h", NULL, PIECES, PLAIN, 0},
    {"cuda", "batch", "h2d,d2h", NULL, PIECES, PLAIN, 0},
    {"cuda", "resident", "h2d", NULL, USES, REUSED, 0},
    {"cuda", "resend", "h2d", NULL, USES, REUSED, 0},
    {"cuda", "latency", "h2d,p2d", NULL, PEER, LATENCY, 64 << 20},
    {"cuda", "bidirectional", "h2d,d2h", NULL, BY, PLAIN, 0},
    {"cuda", "all", "h2d,d2h", NULL, BY, PLAIN, 0},
    {"cuda", "all_bidirectional", "h2d,d2h", NULL, BY, PLAIN, 0},
    {"cuda", "peer", "p2d,d2p", NULL, BY | PEER, PLAIN, 0},
    {"cuda", "peer_bidirectional", "p2d,d2p", NULL, BY | PEER, PLAIN, 0},
    {"cuda", "all_to_one", "p2d,d2p", NULL, BY, PLAIN, 0},
    {"cuda", "one_to_all", "p2d,d2p", NULL, BY, PLAIN, 0},
    {"cuda", "overlap", "h2d,d2h", "pinned,pageable,registered", MEMORY, PLAIN, 0},
    {"cuda", "managed_fault", "h2d", NULL, 0, MANAGED, MANAGED_BYTES},
    {"cuda", "managed_prefetch", "h2d", NULL, 0, MANAGED, MANAGED_BYTES},
    {"cuda", "managed_advise", "h2d", NULL, 0, MANAGED, MANAGED_BYTES},
    {"cuda", "request_copy", "h2d", NULL, COPIES, REQUEST, AS_MEMCPY_REQUEST_BYTES},
    {"cuda", NULL, "h2d", NULL, 0, REQUEST, AS_MEMCPY_REQUEST_BYTES},
};

static const rule *rule_of(const as_variant *v) {
    const rule *r = rules;
    while (strcmp(r->on, v->on) != 0 || (r->variant && strcmp(r->variant, v->name) != 0))
        r++;
    return r;
}

static bool listed(const char *list, const char *word) {
    const size_t length = strlen(word);
    const char *at = list;
    while (length && (at = strstr(at, word))) {
        const bool begins = at == list || at[-1] == ',', ends = at[length] == ',' || at[length] == '\0';
        if (begins && ends)
            return true;
        at += length;
    }
    return false;
}

/* ---- what is legal ---- */

static as_status check_axes(const as_params *p, const as_variant *v, const rule *r, as_error *e) {
    static const struct {
        const char *name;
        int bit;
    } axes[] = {{"memory", MEMORY}, {"pieces", PIECES}, {"uses", USES},       {"copies", COPIES}, {"by", BY},
                {"peer", PEER},     {"node", NODE},     {"threads", THREADS}, {"cache", CACHE}};
    for (int i = 0; i < p->count; i++)
        for (int k = 0; k < AS_COUNT(axes); k++)
            if (!(r->axes & axes[k].bit) && strcmp(p->value[i].axis->name, axes[k].name) == 0 &&
                !as_param_is_default(&p->value[i]))
                return as_fail(e, AS_EUSAGE, "memcpy/%s takes no %s: leave it out", v->name, axes[k].name);
    return AS_OK;
}

static as_status check_words(const as_params *p, const as_variant *v, const rule *r, as_error *e) {
    const char *dir = as_params_text(p, "dir"), *memory = as_params_text(p, "memory"),
               *peer = as_params_text(p, "peer");
    if (as_memcpy_dir_of(p) == AS_DIR_UNKNOWN)
        return as_fail(e, AS_EUSAGE, "memcpy: dir is h2h, h2d, d2h, d2d, p2d or d2p, not '%s'", dir);
    if (!listed(r->dirs, dir))
        return as_fail(e, AS_EUSAGE, "memcpy/%s: dir is %s on %s", v->name, r->dirs, v->on);
    if (strcmp(memory, "mapped") == 0)
        return as_fail(e, AS_EUSAGE, "memcpy: pinned memory is mapped: variant kernel copies it in place");
    if (strcmp(memory, "managed") == 0)
        return as_fail(e, AS_EUSAGE,
                       "memcpy: managed memory has variants of its own: managed_fault, managed_prefetch, "
                       "managed_advise");
    if (r->memories && !listed(r->memories, memory))
        return as_fail(e, AS_EUSAGE, "memcpy/%s: memory is %s, not '%s'", v->name, r->memories, memory);
    if (strcmp(dir, "d2d") == 0 && strcmp(memory, "pinned") != 0)
        return as_fail(e, AS_EUSAGE, "memcpy: memory is for h2d and d2h: leave it out");
    if (!listed("near,far", as_params_text(p, "node")))
        return as_fail(e, AS_EUSAGE, "memcpy: node is near or far, not '%s'", as_params_text(p, "node"));
    if (!listed("ce,sm", as_params_text(p, "by")))
        return as_fail(e, AS_EUSAGE, "memcpy: by is ce or sm, not '%s'", as_params_text(p, "by"));
    if (strcmp(peer, "next") != 0 && !(strlen(peer) <= 3 && strspn(peer, "0123456789") == strlen(peer) && *peer))
        return as_fail(e, AS_EUSAGE, "memcpy: peer is next or the number of a GPU, not '%s'", peer);
    return AS_OK;
}

static as_status check_numbers(const as_params *p, const as_variant *v, const rule *r, as_error *e) {
    const int64_t bytes = as_params_int(p, "bytes"), pieces = as_params_int(p, "pieces"),
                  uses = as_params_int(p, "uses"), copies = as_params_int(p, "copies");
    if (bytes == 0)
        return as_fail(e, AS_EUSAGE, "memcpy: bytes must be given (bytes:4096)");
    if (r->most_bytes && bytes > r->most_bytes)
        return as_fail(e, AS_EUSAGE, "memcpy/%s: bytes goes up to %lld", v->name, (long long)r->most_bytes);
    if (pieces < 1 || pieces > AS_MEMCPY_MOST_PIECES || pieces > bytes)
        return as_fail(e, AS_EUSAGE, "memcpy: pieces is 1 to %d, at most one a byte", AS_MEMCPY_MOST_PIECES);
    if (uses < 1 || uses > 10000)
        return as_fail(e, AS_EUSAGE, "memcpy: uses is 1 to 10000");
    if (copies < 2 || copies > 3)
        return as_fail(e, AS_EUSAGE, "memcpy: copies is 2 or 3; request_straight has the one copy that is left");
    if (r->work == LATENCY && (bytes % AS_MEMCPY_LINE_BYTES || bytes < 2 * AS_MEMCPY_LINE_BYTES))
        return as_fail(e, AS_EUSAGE, "memcpy/latency: bytes is a multiple of %d, two at least", AS_MEMCPY_LINE_BYTES);
    return AS_OK;
}

/* What two axes must agree on. */
static as_status check_pairs(const as_params *p, as_error *e) {
    const int64_t bytes = as_params_int(p, "bytes");
    const char *dir = as_params_text(p, "dir"), *memory = as_params_text(p, "memory");
    const bool far = strcmp(as_params_text(p, "node"), "far") == 0;
    if (strcmp(as_params_text(p, "by"), "sm") == 0 && bytes % 16)
        return as_fail(e, AS_EUSAGE, "memcpy: by:sm takes a multiple of 16 bytes");
    if (far && (strcmp(memory, "pinned") != 0 || strcmp(dir, "d2d") == 0))
        return as_fail(e, AS_EUSAGE,
                       "memcpy: node:far has page-locked memory of its own: leave memory out, h2d or d2h");
    if (strcmp(memory, "write_combined") == 0 && strcmp(dir, "d2h") == 0 && bytes > 16 << 20)
        return as_fail(e, AS_EUSAGE,
                       "memcpy: write_combined d2h goes up to 16 MiB: the host reads it back very slowly");
    if (strcmp(as_params_text(p, "peer"), "next") != 0 && strcmp(dir, "p2d") != 0 && strcmp(dir, "d2p") != 0)
        return as_fail(e, AS_EUSAGE, "memcpy: peer is for p2d and d2p: leave it out");
    return AS_OK;
}

static as_status check(const as_params *p, const as_variant *v, const rule *r, const as_device *d, as_error *e) {
    AS_TRY(as_suite_check_common(p, d, e));
    AS_TRY(check_words(p, v, r, e));
    AS_TRY(check_axes(p, v, r, e));
    AS_TRY(check_numbers(p, v, r, e));
    return check_pairs(p, e);
}

/* ---- work ---- */

static as_memory host_memory(const as_params *p) {
    static const struct {
        const char *name;
        as_memory memory;
    } kinds[] = {{"pinned", AS_MEM_PINNED},
                 {"pageable", AS_MEM_PAGEABLE},
                 {"write_combined", AS_MEM_WRITE_COMBINED},
                 {"registered", AS_MEM_REGISTERED}};
    if (strcmp(as_params_text(p, "node"), "far") == 0)
        return AS_MEM_PAGEABLE; /* moved, then locked, by the variant */
    for (int i = 0; i < AS_COUNT(kinds); i++)
        if (strcmp(kinds[i].name, as_params_text(p, "memory")) == 0)
            return kinds[i].memory;
    return AS_MEM_PINNED;
}

/* Sides that are moved or advised are not those of other cases: inputs are shared by their key. */
static uint32_t key_of(const as_params *p, const as_variant *v) {
    if (strcmp(as_params_text(p, "node"), "far") == 0)
        return 2;
    return strcmp(v->name, "managed_fault") == 0      ? 3
           : strcmp(v->name, "managed_prefetch") == 0 ? 4
           : strcmp(v->name, "managed_advise") == 0   ? 5
                                                      : 1;
}

static void operands(const as_params *p, const as_variant *v, const rule *r, as_work *w) {
    const as_memcpy_dir dir = as_memcpy_dir_of(p);
    const int64_t bytes = as_params_int(p, "bytes");
    as_memory from = AS_MEM_DEVICE, to = AS_MEM_DEVICE;
    if (dir == AS_H2D)
        from = r->work == REQUEST ? AS_MEM_PAGEABLE : r->work == MANAGED ? AS_MEM_MANAGED : host_memory(p);
    if (dir == AS_D2H)
        to = host_memory(p);
    if (strcmp(v->name, "huge") == 0)
        from = to = AS_MEM_HUGE;
    w->operand[w->operands++] = (as_operand){"source", AS_IN, from, AS_U8, AS_BITS, bytes, key_of(p, v)};
    w->operand[w->operands++] = (as_operand){"destination", AS_OUT, to, AS_U8, AS_BITS, bytes, 0};
    w->check = AS_CHECK_COPY;
    w->rows = 1;
    w->columns = bytes;
    w->working_set_bytes = 2 * bytes;
}

static void bound(as_work *w, const char *ceiling, double amount) {
    w->bound[w->bounds++] = (as_bound){ceiling, amount};
}

static void plain_work(as_memcpy_dir dir, double bytes, as_work *w) {
    const bool inside = dir == AS_H2H || dir == AS_D2D;
    w->bytes_read = bytes;
    w->bytes_written = inside ? bytes : 0;
    w->convention = inside ? "read + written" : "copied once";
    if (inside)
        bound(w, "memory", 2 * bytes);
    else if (dir == AS_H2D || dir == AS_D2H)
        bound(w, dir == AS_H2D ? "link.h2d" : "link.d2h", bytes);
    else
        w->no_ceiling = "links between GPUs have no measured limit";
}

static void latency_work(as_work *w) {
    w->operand[w->operands++] = (as_operand){"end", AS_OUT, AS_MEM_DEVICE, AS_U32, AS_BITS, 1, 0};
    w->check = AS_CHECK_REFERENCE;
    w->tolerance = 0.25; /* a whole number */
    w->rows = w->columns = 1;
    w->items = AS_MEMCPY_CHASE_STEPS;
    w->item = "load";
    w->convention = "no data counted";
    w->no_ceiling = "a latency has no measured limit";
}

static void reused_work(const as_params *p, const as_variant *v, double bytes, as_work *w) {
    const double uses = (double)as_params_int(p, "uses"), sent = strcmp(v->name, "resident") == 0 ? 1 : uses;
    w->bytes_read = bytes * (sent + uses);
    w->bytes_written = bytes * uses;
    w->convention = "over the link at each sending, read + written at each use";
    bound(w, "link.h2d", bytes * sent);
    bound(w, "memory", 2 * bytes * uses);
}

static void request_work(const as_params *p, const as_variant *v, double bytes, as_work *w) {
    const double copies = strcmp(v->name, "request_copy") == 0 ? (double)as_params_int(p, "copies") : 1;
    if (strcmp(v->on, "cpu") != 0) {
        plain_work(AS_H2D, bytes, w);
        return;
    }
    w->bytes_read = w->bytes_written = bytes * copies;
    w->convention = "read + written at each copy";
    w->no_ceiling = "the rate of a pipe is not measured";
}

/* Rough nanoseconds, for the planner only. */
static double predict(const as_params *p, const as_variant *v, const rule *r, double bytes) {
    const as_memcpy_dir dir = as_memcpy_dir_of(p);
    const char *memory = as_params_text(p, "memory");
    const bool slow = strcmp(memory, "pageable") == 0;
    if (r->work == LATENCY)
        return AS_MEMCPY_CHASE_STEPS * 1200.0;
    if (r->work == MANAGED)
        return 5e4 + bytes / 2;
    if (dir == AS_H2H)
        return r->work == REQUEST ? 5000 + bytes / 2 : 50 + bytes / 4;
    if (dir == AS_D2D)
        return 4000 + bytes / 500;
    const double once = 9000 + bytes / (slow ? 7 : 20);
    if (r->work == REUSED)
        return strcmp(v->name, "resident") == 0 ? once + (double)as_params_int(p, "uses") * bytes / 500
                                                : (double)as_params_int(p, "uses") * (once + bytes / 500);
    if (r->axes & PIECES)
        return once + 2000.0 * (double)as_params_int(p, "pieces");
    if (strcmp(v->name, "overlap") == 0)
        return 3 * once;
    return r->axes & BY ? 50e3 + 4 * bytes / 50 : once;
}

as_status as_memcpy_describe(const as_params *p, const as_variant *v, const as_device *d, as_work *w, as_error *e) {
    const rule *r = rule_of(v);
    AS_TRY(check(p, v, r, d, e));
    const double bytes = (double)as_params_int(p, "bytes");
    *w = (as_work){.predicted_ns = predict(p, v, r, bytes)};
    if (r->work == LATENCY) {
        latency_work(w);
        w->working_set_bytes = as_params_int(p, "bytes");
        return AS_OK;
    }
    operands(p, v, r, w);
    switch (r->work) {
    case REUSED: reused_work(p, v, bytes, w); break;
    case REQUEST: request_work(p, v, bytes, w); break;
    case MANAGED:
        w->bytes_read = bytes;
        w->convention = "read by the device";
        w->no_ceiling = "how many pages move is what is measured";
        break;
    default: plain_work(as_memcpy_dir_of(p), bytes, w); break;
    }
    return AS_OK;
}
