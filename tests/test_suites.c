/* The tables of the suites: every point names axes and variants that exist and describes a case; ids are unique;
 * the quick plan keeps its limits; formulas; and which ceiling serves which case. */
#include "kernels/ceiling/ceiling.h"
#include "kernels/ceiling/levels.h"
#include "kernels/inference/model.h"
#include "kernels/isa.h"
#include "suites/suites.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_CASES = 4096, QUICK_LIMIT = 95 };

/* A device of the kind "cuda" as describe and ceilings_for see it; nothing runs on it. */
static const as_device_driver cuda_kind = {.kind = "cuda"};
static const as_device cuda = {.driver = &cuda_kind, .name = "cuda0", .last_level_cache_bytes = 60 << 20};
static const as_device cpu = {.driver = &as_cpu_driver, .name = "cpu", .last_level_cache_bytes = 32 << 20};

static const as_suite *const suites[] = {
    &as_ceiling_suite, &as_matmul_suite,  &as_memcpy_suite,    &as_memory_suite,    &as_launch_suite,
    &as_alloc_suite,   &as_offload_suite, &as_attention_suite, &as_inference_suite, &as_synthetic_suite};
enum { SUITES = sizeof suites / sizeof *suites };

static const as_device *device_of(const char *kind) { return strcmp(kind, "cpu") == 0 ? &cpu : &cuda; }

/* ---- all cases of all points, in the order of the tables ---- */

typedef struct found {
    char id[AS_ID_MAX];
    as_profile from;
    bool on_cpu, by_itself; /* of a plan that names no suite */
    as_work work;
} found;

static found *cases;
static int n_cases;

static bool listed(const char *list, const char *name) {
    char copy[256], *rest = copy;
    if (strcmp(list, "*") == 0)
        return true;
    snprintf(copy, sizeof copy, "%s", list);
    for (char *item; (item = strsep(&rest, ","));)
        if (strcmp(item, name) == 0)
            return true;
    return false;
}

static void add_case(const as_suite *s, const as_variant *v, const as_point *point, const as_params *p) {
    const as_device *d = device_of(v->on);
    as_error e;
    assert_in_range(n_cases, 0, MAX_CASES - 1);
    found *f = &cases[n_cases++];
    as_case_id(f->id, s->name, v->name, p, d->name);
    f->from = point->from;
    f->on_cpu = d == &cpu;
    f->by_itself = !s->only_if_named;
    if (s->describe(p, v, d, &f->work, &e) != AS_OK)
        fail_msg("%s: %s", f->id, e.message);
}

/* Cross product of the axes that `rest` still names. */
static void expand(const as_suite *s, const as_variant *v, const as_point *point, as_params p, const char *rest) {
    if (!*rest) {
        add_case(s, v, point, &p);
        return;
    }
    char axis[512], *values = axis, *name;
    size_t length = strcspn(rest, ";");
    snprintf(axis, sizeof axis, "%.*s", (int)length, rest);
    name = strsep(&values, "=");
    assert_non_null(values);
    for (char *value; (value = strsep(&values, ","));) {
        as_error e;
        if (as_params_set(&p, name, value, &e) != AS_OK)
            fail_msg("%s: %s", s->name, e.message);
        expand(s, v, point, p, rest + length + (rest[length] == ';'));
    }
}

static int read_tables(void **state) {
    (void)state;
    cases = calloc(MAX_CASES, sizeof *cases);
    if (!cases)
        return -1;
    for (int i = 0; i < SUITES; i++)
        for (const as_point *point = suites[i]->points; point->variants; point++)
            for (const as_variant *v = suites[i]->variants; v->name; v++) {
                as_params p;
                as_error e;
                if (strcmp(v->on, point->on) != 0 || !listed(point->variants, v->name))
                    continue;
                if (as_params_init(&p, suites[i]->axes, suites[i]->n_axes, &e) != AS_OK)
                    return -1;
                expand(suites[i], v, point, p, point->axes);
            }
    return 0;
}

static int free_tables(void **state) {
    (void)state;
    free(cases);
    return 0;
}

static bool has_variants_on(const as_suite *s, const char *on) {
    for (const as_variant *v = s->variants; v->name; v++)
        if (strcmp(v->on, on) == 0)
            return true;
    return false;
}

static void points_name_variants_that_exist(void **state) {
    (void)state;
    for (int i = 0; i < SUITES; i++)
        for (const as_point *point = suites[i]->points; point->variants; point++) {
            if (!has_variants_on(suites[i], point->on))
                continue; /* built without that device */
            char copy[256], *rest = copy;
            snprintf(copy, sizeof copy, "%s", point->variants);
            for (char *name; (name = strsep(&rest, ","));) {
                bool exists = strcmp(name, "*") == 0;
                for (const as_variant *v = suites[i]->variants; v->name; v++)
                    exists |= strcmp(v->on, point->on) == 0 && strcmp(v->name, name) == 0;
                if (!exists)
                    fail_msg("%s: no variant %s on %s", suites[i]->name, name, point->on);
            }
        }
}

static void ids_are_unique(void **state) {
    (void)state;
    assert_true(n_cases > 100);
    for (int i = 0; i < n_cases; i++)
        for (int j = 0; j < i; j++)
            if (strcmp(cases[i].id, cases[j].id) == 0)
                fail_msg("%s stands twice in the points", cases[i].id);
}

static void quick_plan_is_small(void **state) {
    (void)state;
    int on_cpu = 0, on_cuda = 0;
    for (int i = 0; i < n_cases; i++) {
        if (cases[i].from != AS_QUICK || !cases[i].by_itself)
            continue;
        *(cases[i].on_cpu ? &on_cpu : &on_cuda) += 1;
        if (!(cases[i].work.predicted_ns > 0 && cases[i].work.predicted_ns <= 1e8))
            fail_msg("%s is predicted to take %g ns", cases[i].id, cases[i].work.predicted_ns);
    }
    print_message("quick: %d cpu and %d cuda cases; all profiles: %d\n", on_cpu, on_cuda, n_cases);
    assert_in_range(on_cpu, 1, QUICK_LIMIT);
    assert_in_range(on_cuda, 0, QUICK_LIMIT);
}

/* What the harness relies on, for every case. */
static void works_are_complete(void **state) {
    (void)state;
    for (int i = 0; i < n_cases; i++) {
        const as_work *w = &cases[i].work;
        bool good = w->convention && w->predicted_ns > 0 && (w->bounds > 0 || w->fixed_ns > 0 || w->no_ceiling);
        if (w->check == AS_CHECK_REFERENCE)
            good &= w->tolerance > 0 && w->operand[w->operands - 1].count == w->rows * w->columns;
        if (w->check == AS_CHECK_COPY)
            good &= w->operand[0].count == w->operand[w->operands - 1].count;
        if (w->check == AS_CHECK_EFFECT)
            good &= w->expected_count > 0;
        for (int k = 0; k < w->bounds; k++)
            good &= w->bound[k].amount > 0;
        for (int k = 0; k < w->operands; k++)
            for (int other = 0; other < k; other++)
                good &= w->operand[k].role != AS_IN || w->operand[k].key != w->operand[other].key;
        if (!good)
            fail_msg("%s: its description lacks something", cases[i].id);
    }
}

/* ---- single cases ---- */

static as_status describe(const as_suite *s, const char *variant, const char *axes, const as_device *d, as_params *p,
                          as_work *w) {
    const as_variant *v = s->variants;
    while (v->name && (strcmp(v->name, variant) != 0 || strcmp(v->on, d->driver->kind) != 0))
        v++;
    /* Formulas depend on name and device of a variant only: they hold in builds without it too. */
    as_variant absent = {.name = variant, .on = d->driver->kind};
    as_error e = {0};
    char copy[256], *rest = copy;
    assert_int_equal(as_params_init(p, s->axes, s->n_axes, &e), AS_OK);
    snprintf(copy, sizeof copy, "%s", axes);
    for (char *pair; *axes && (pair = strsep(&rest, ";"));) {
        char *value = strchr(pair, '=');
        assert_non_null(value);
        *value++ = '\0';
        if (as_params_set(p, pair, value, &e) != AS_OK)
            fail_msg("%s", e.message);
    }
    as_status status = s->describe(p, v->name ? v : &absent, d, w, &e);
    if (status != AS_OK)
        assert_true(strlen(e.message) > 10);
    return status;
}

static as_work work_of(const as_suite *s, const char *variant, const char *axes, const as_device *d) {
    as_params p;
    as_work w;
    if (describe(s, variant, axes, d, &p, &w) != AS_OK)
        fail_msg("%s/%s %s is refused", s->name, variant, axes);
    return w;
}

static void formulas_hold(void **state) {
    (void)state;
    as_work w = work_of(&as_matmul_suite, "tiled", "n=33;m=1000;k=17", &cpu);
    assert_true(w.flops == 2.0 * 33 * 1000 * 17);
    assert_true(w.bytes_read == 4.0 * (1000 * 17 + 17 * 33) && w.bytes_written == 4.0 * 1000 * 33);
    assert_int_equal(w.operand[0].count, 1000 * 17);
    assert_int_equal(w.operand[1].count, 17 * 33);
    assert_int_equal(w.rows, 1000);
    assert_int_equal(w.columns, 33);
    assert_true(fabs(w.tolerance - 4 * sqrt(17.0) / 16777216) < 1e-18);
    w = work_of(&as_matmul_suite, "mma", "n=33;m=1000;k=17;type=e4m3", &cuda);
    assert_true(w.bytes_read == 1000 * 17 + 17 * 33 && w.bytes_written == 2.0 * 1000 * 33);
    assert_int_equal(w.operand[0].type, AS_F8E4M3);
    assert_int_equal(w.operand[2].type, AS_BF16);
    assert_string_equal(w.bound[0].ceiling, "flops.e4m3");
    w = work_of(&as_matmul_suite, "wgmma", "n=64;type=s8", &cuda);
    assert_true(w.bytes_read == 2.0 * 64 * 64 && w.bytes_written == 4.0 * 64 * 64 && w.tolerance < 1);

    w = work_of(&as_memcpy_suite, "libc", "bytes=4096", &cpu);
    assert_true(w.bytes_read == 4096 && w.bytes_written == 4096 && w.bound[0].amount == 8192);
    assert_string_equal(w.bound[0].ceiling, "memory");
    assert_string_equal(w.convention, "read + written");
    w = work_of(&as_memcpy_suite, "async", "bytes=4096;dir=d2h;memory=pageable", &cuda);
    assert_true(w.bytes_read + w.bytes_written == 4096 && w.bound[0].amount == 4096);
    assert_string_equal(w.bound[0].ceiling, "link.d2h");
    assert_string_equal(w.convention, "copied once");
    assert_int_equal(w.operand[0].memory, AS_MEM_DEVICE);
    assert_int_equal(w.operand[1].memory, AS_MEM_PAGEABLE);
    w = work_of(&as_memcpy_suite, "async", "bytes=4096;dir=h2d", &cuda);
    assert_int_equal(w.operand[0].memory, AS_MEM_PINNED);
    assert_int_equal(w.operand[1].memory, AS_MEM_DEVICE);
    w = work_of(&as_memcpy_suite, "kernel", "bytes=4096;dir=d2d", &cuda);
    assert_true(w.bound[0].amount == 8192);

    w = work_of(&as_launch_suite, "graph", "chain=64", &cuda);
    assert_true(w.items == 64 && w.expected_count == 64 && w.bound[0].amount == 64 && w.fixed_ns == 0);
    w = work_of(&as_launch_suite, "eager", "chain=64;kernel=10us", &cuda);
    assert_true(w.fixed_ns == 640000 && w.bounds == 0);
    w = work_of(&as_launch_suite, "graph_first_launch", "chain=64", &cuda);
    assert_true(w.expected_count == 128 && w.bounds == 0 && w.no_ceiling);
    w = work_of(&as_launch_suite, "pool", "chain=8;threads=all", &cpu);
    assert_true(w.expected_count == 8 && w.no_ceiling);
    w = work_of(&as_launch_suite, "wake_futex", "chain=8;threads=2", &cpu);
    assert_true(w.expected_count == 16 && w.items == 16);
    w = work_of(&as_launch_suite, "graph", "chain=64;shape=fan_out", &cuda);
    assert_true(w.expected_count == 64 && w.bounds == 0 && w.no_ceiling);
    w = work_of(&as_launch_suite, "graph", "chain=64;shape=fan_out;kernel=10us", &cuda);
    assert_true(w.fixed_ns == 30000); /* three levels, however wide */
    w = work_of(&as_launch_suite, "workers_stream", "chain=8;workers=4;kernel=10us", &cuda);
    assert_true(w.expected_count == 32 && w.fixed_ns == 320000);
    w = work_of(&as_launch_suite, "workers_streams", "chain=8;workers=4;kernel=10us", &cuda);
    assert_true(w.expected_count == 32 && w.fixed_ns == 80000);
    w = work_of(&as_launch_suite, "config_compute", "n=4096", &cuda);
    assert_true(w.bytes_read == 16384 && w.bytes_written == 16384 && w.rows * w.columns == 4096);
    assert_true(w.operand[0].key != work_of(&as_launch_suite, "config_memory", "n=4096", &cuda).operand[0].key);
    w = work_of(&as_launch_suite, "misuse", "misuse=other_thread", &cuda);
    assert_true(w.expected_count == 1 && w.items == 0);

    w = work_of(&as_synthetic_suite, "spin", "us=50", &cpu);
    assert_true(w.items == 50 * 800 && w.rows == 1 && w.no_ceiling);
    w = work_of(&as_synthetic_suite, "spin_all", "us=50", &cuda);
    assert_true(w.items == 50 * 100 * 131072.0 && w.rows == 131072);
    w = work_of(&as_synthetic_suite, "stream", "bytes=524288;passes=64", &cpu);
    assert_true(w.bytes_read == 33554432 && w.bytes_written == 0 && w.bound[0].amount == 33554432 && w.rows == 2048);
    assert_true(w.working_set_bytes == 524288);
}

static void senseless_parameters_are_usage_errors(void **state) {
    (void)state;
    const struct {
        const as_suite *suite;
        const char *variant, *axes;
        const as_device *d;
    } bad[] = {
        {&as_matmul_suite, "tiled", "", &cpu},
        {&as_matmul_suite, "naive", "n=4;threads=all", &cpu},
        {&as_matmul_suite, "tiled", "n=4;threads=0", &cpu},
        {&as_matmul_suite, "tiled", "n=4;cache=luke", &cpu},
        {&as_matmul_suite, "tiled", "n=4000000000", &cpu},
        {&as_matmul_suite, "cublas", "n=4;threads=2", &cuda},
        {&as_matmul_suite, "cublas", "n=4;config=128x256x16t16x8s3", &cuda},
        {&as_matmul_suite, "warptiled", "n=4;config=128x256", &cuda},
        {&as_matmul_suite, "wgmma", "n=4", &cuda},
        {&as_matmul_suite, "wgmma", "n=8;type=bf16;config=128x256w8s4", &cuda},
        {&as_matmul_suite, "wgmma", "n=64;k=20;type=bf16", &cuda},
        {&as_matmul_suite, "wmma", "n=16;type=e4m3", &cuda},
        {&as_matmul_suite, "mma", "n=16;type=f8", &cuda},
        {&as_matmul_suite, "mma", "n=16;k=131073;type=s8", &cuda},
        {&as_matmul_suite, "cublas", "n=16;type=bf16", &cuda},
        {&as_matmul_suite, "packed", "n=16;type=f16", &cpu},
        {&as_matmul_suite, "packed", "n=16;type=bf16;config=tiles", &cpu},
        {&as_matmul_suite, "packed", "n=16;config=amx", &cpu},
        {&as_matmul_suite, "tiled", "n=16;type=bf16", &cpu},
        {&as_memcpy_suite, "libc", "", &cpu},
        {&as_memcpy_suite, "libc", "bytes=8;dir=h2d", &cpu},
        {&as_memcpy_suite, "libc", "bytes=8;dir=up", &cpu},
        {&as_memcpy_suite, "libc", "bytes=8;memory=pageable", &cpu},
        {&as_memcpy_suite, "async", "bytes=8", &cuda},
        {&as_memcpy_suite, "async", "bytes=8;dir=h2d;memory=soft", &cuda},
        {&as_memcpy_suite, "kernel", "bytes=8;dir=h2h", &cuda},
        {&as_launch_suite, "direct", "chain=0", &cpu},
        {&as_launch_suite, "direct", "chain=100001", &cpu},
        {&as_launch_suite, "direct", "threads=2", &cpu},
        {&as_launch_suite, "pool", "kernel=20us", &cpu},
        {&as_launch_suite, "pool", "cache=cold", &cpu},
        {&as_launch_suite, "call_static", "kernel=10us", &cpu},
        {&as_launch_suite, "wake_spin", "chain=8", &cpu},
        {&as_launch_suite, "wake_spin", "threads=0", &cpu},
        {&as_launch_suite, "process_fork", "threads=2", &cpu},
        {&as_launch_suite, "graph", "shape=star", &cuda},
        {&as_launch_suite, "eager", "shape=fan_out", &cuda},
        {&as_launch_suite, "wait_event", "schedule=spin", &cuda},
        {&as_launch_suite, "wait_poll_event", "schedule=blocking", &cuda},
        {&as_launch_suite, "workers_graph", "workers=65", &cuda},
        {&as_launch_suite, "eager", "workers=2", &cuda},
        {&as_launch_suite, "priority_idle", "priority=middle", &cuda},
        {&as_launch_suite, "config_memory", "block=33", &cuda},
        {&as_launch_suite, "config_memory", "n=0", &cuda},
        {&as_launch_suite, "config_memory", "chain=2", &cuda},
        {&as_launch_suite, "cold_module", "image=fatbin", &cuda},
        {&as_launch_suite, "misuse", "", &cuda},
        {&as_launch_suite, "misuse", "misuse=theft", &cuda},
        {&as_synthetic_suite, "spin", "us=19", &cpu},
        {&as_synthetic_suite, "spin", "us=1000001", &cpu},
        {&as_synthetic_suite, "spin", "threads=2", &cpu},
        {&as_synthetic_suite, "spin", "cache=cold", &cpu},
        {&as_synthetic_suite, "stream", "", &cpu},
        {&as_synthetic_suite, "stream", "bytes=16777217", &cpu},
        {&as_synthetic_suite, "stream", "bytes=4194304;passes=3", &cpu},
        {&as_synthetic_suite, "stream", "bytes=4194304;passes=0", &cpu},
        {&as_synthetic_suite, "stream", "bytes=4194304;passes=1048577", &cpu},
        {&as_synthetic_suite, "stream", "bytes=8388608", &cuda},
        {&as_ceiling_suite, "read", "", &cpu},
        {&as_ceiling_suite, "read", "level=hbm", &cpu},
        {&as_ceiling_suite, "read", "level=l3", &cuda},
        {&as_ceiling_suite, "write", "level=l1", &cuda},
        {&as_ceiling_suite, "copy", "level=shared", &cpu},
        {&as_ceiling_suite, "fma", "type=bf16", &cuda},
        {&as_ceiling_suite, "fma", "type=f32;width=64", &cpu},
        {&as_ceiling_suite, "tensor", "type=f16", &cpu},
        {&as_ceiling_suite, "atomic", "level=l1", &cpu},
        {&as_ceiling_suite, "atomic", "", &cuda},
        {&as_ceiling_suite, "fma", "type=f8", &cpu},
        {&as_ceiling_suite, "tensor", "type=f32", &cuda},
        {&as_ceiling_suite, "link", "dir=h2h", &cuda},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        as_params p;
        as_work w;
        if (describe(bad[i].suite, bad[i].variant, bad[i].axes, bad[i].d, &p, &w) != AS_EUSAGE)
            fail_msg("%s/%s '%s' is not refused", bad[i].suite->name, bad[i].variant, bad[i].axes);
    }
}

/* ---- ceilings ---- */

/* Two packages of 8 cores: 32 KiB, 1 MiB, 32 MiB. */
static const as_levels machine = {.l1_bytes = 32 << 10,
                                  .l2_bytes = 1 << 20,
                                  .l3_bytes = 32 << 20,
                                  .l3_instances = 2,
                                  .l3_cores = 8,
                                  .cores = 16,
                                  .memory_bytes = INT64_C(64) << 30};

static void level_follows_working_set(void **state) {
    (void)state;
    const int64_t kib = 1 << 10, mib = 1 << 20;
    assert_int_equal(as_level_serving(&machine, 48 * kib, 1, false), AS_LEVEL_L1);
    assert_int_equal(as_level_serving(&machine, 48 * kib + 1, 1, false), AS_LEVEL_L2);
    assert_int_equal(as_level_serving(&machine, 1536 * kib, 1, false), AS_LEVEL_L2);
    assert_int_equal(as_level_serving(&machine, 1536 * kib + 1, 1, false), AS_LEVEL_L3);
    assert_int_equal(as_level_serving(&machine, 128 * mib, 1, false), AS_LEVEL_L3);
    assert_int_equal(as_level_serving(&machine, 128 * mib + 1, 1, false), AS_LEVEL_DRAM);
    /* all = 16 cores: each holds its share, and both packages' caches count */
    assert_int_equal(as_level_serving(&machine, 16 * 48 * kib, -1, false), AS_LEVEL_L1);
    assert_int_equal(as_level_serving(&machine, 16 * 1536 * kib, -1, false), AS_LEVEL_L2);
    assert_int_equal(as_level_serving(&machine, 256 * mib, -1, false), AS_LEVEL_L3);
    assert_int_equal(as_level_serving(&machine, 256 * mib + 1, -1, false), AS_LEVEL_DRAM);
    assert_int_equal(as_level_serving(&machine, 256 * mib, 8, false), AS_LEVEL_DRAM);
    assert_int_equal(as_level_serving(&machine, 4096, 1, true), AS_LEVEL_DRAM);
    as_levels no_l3 = machine;
    no_l3.l3_bytes = 0;
    assert_int_equal(as_level_serving(&no_l3, 4 * mib, 1, false), AS_LEVEL_L2);
    assert_int_equal(as_level_serving(&no_l3, 4 * mib + 1, 1, false), AS_LEVEL_DRAM);
}

static void assert_refs_of(const as_device *d, const char *bound, const as_work *w, const char *threads, bool cold,
                           const char *expected) {
    as_params p;
    as_error e;
    as_ceiling_ref ref[AS_MAX_CEILING_REFS];
    char text[512] = "";
    assert_int_equal(as_params_init(&p, as_matmul_suite.axes, as_matmul_suite.n_axes, &e), AS_OK);
    assert_int_equal(as_params_set(&p, "threads", threads, &e), AS_OK);
    const as_bound b = {bound, 1};
    int n = as_ceilings_for(&b, w, &p, d, cold, ref);
    for (int i = 0; i < n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s[%s] ", ref[i].variant, ref[i].axes);
    assert_string_equal(text, expected);
}

static void assert_refs(const as_device *d, const char *bound, int64_t working_set, const char *threads, bool cold,
                        const char *expected) {
    assert_refs_of(d, bound, &(as_work){.working_set_bytes = working_set}, threads, cold, expected);
}

static void assert_mix(double read, double written, const char *on_cpu, const char *on_gpu) {
    const as_work w = {.working_set_bytes = INT64_C(1) << 40, .bytes_read = read, .bytes_written = written};
    assert_refs_of(&cpu, "memory", &w, "1", true, on_cpu);
    assert_refs_of(&cuda, "memory", &w, "1", true, on_gpu);
}

/* Within 5% of a mix that is measured that one alone, else the two around it; each with both kinds of stores. */
static void bandwidth_follows_the_mix(void **state) {
    (void)state;
#define DRAM(variant) variant "[level=dram;threads=1] "
#define BOTH(variant) DRAM(variant) variant "[level=dram;threads=1;stores=temporal] "
    assert_mix(1000, 0, DRAM("read"), "read[level=hbm] ");
    assert_mix(1000, 52, DRAM("read"), "read[level=hbm] ");
    assert_mix(1000, 53, DRAM("read") BOTH("triad"), "read[level=hbm] triad[level=hbm] ");
    assert_mix(2000, 1000, BOTH("triad"), "triad[level=hbm] ");
    assert_mix(1400, 1000, BOTH("triad") BOTH("copy"), "triad[level=hbm] copy[level=hbm] ");
    assert_mix(1000, 1000, BOTH("copy"), "copy[level=hbm] ");
    assert_mix(1000, 2000, BOTH("copy") BOTH("write"), "copy[level=hbm] write[level=hbm] ");
    assert_mix(0, 1000, BOTH("write"), "write[level=hbm] ");
#undef DRAM
#undef BOTH
    const as_work copy = {.working_set_bytes = 4096, .bytes_read = 2048, .bytes_written = 2048};
    assert_refs_of(&cpu, "memory", &copy, "1", false, "copy[level=l1;threads=1] ");
    assert_refs_of(&cuda, "memory", &copy, "1", false, "read[level=l2] copy[level=l2] ");
}

/* In the last level stores around the caches may be the faster ones: both count. */
static void l3_counts_both_kinds_of_stores(void **state) {
    (void)state;
    as_levels l;
    as_error e;
    assert_int_equal(as_levels_read(&l, &e), AS_OK);
    if (!l.l3_bytes)
        skip();
    const as_work copy = {.working_set_bytes = 2 * l.l3_bytes, .bytes_read = 1, .bytes_written = 1};
    assert_refs_of(&cpu, "memory", &copy, "1", false, "copy[level=l3;threads=1] copy[level=l3;threads=1;stores=nt] ");
}

static int allow_all(void **state) {
    (void)state;
    as_isa_allow_bf16(true);
    as_isa_allow_tiles(true);
    return 0;
}

/* bf16 by each unit of the host that takes it, and by f32, which may be faster. */
static void bf16_takes_the_units_that_there_are(void **state) {
    (void)state;
    const char *f32 = "fma[type=f32;threads=1] ", *fma = "fma[type=bf16;threads=1] ",
               *tiles = "tensor[type=bf16;threads=1] ";
    char expected[256];
    for (int allowed = 0; allowed < 4; allowed++) {
        as_isa_allow_bf16(allowed & 1);
        as_isa_allow_tiles(allowed & 2);
        snprintf(expected, sizeof expected, "%s%s%s", f32, as_isa_bf16() ? fma : "", as_isa_tiles() ? tiles : "");
        assert_refs(&cpu, "flops.bf16", 0, "1", false, expected);
    }
}

static void bounds_name_their_ceilings(void **state) {
    (void)state;
    assert_refs(&cpu, "flops.f32", 0, "all", false, "fma[type=f32;threads=all] ");
    assert_refs(&cpu, "flops.f64", 0, "1", false, "fma[type=f64;threads=1] ");
    assert_refs(&cpu, "memory", 8, "1", false, "read[level=l1;threads=1] ");
    assert_refs(&cpu, "memory", 8, "all", true, "read[level=dram;threads=all] ");
    assert_refs(&cpu, "memory", INT64_C(1) << 40, "4", false, "read[level=dram;threads=4] ");
    assert_refs(&cpu, "link.h2d", 8, "1", false, "");
    assert_refs(&cuda, "flops.f32", 0, "1", false, "fma[type=f32] ");
    assert_refs(&cuda, "flops.bf16", 0, "1", false, "tensor[type=bf16] ");
    assert_refs(&cuda, "memory", INT64_C(240) << 20, "1", false, "read[level=l2] ");
    assert_refs(&cuda, "memory", (INT64_C(240) << 20) + 1, "1", false, "read[level=hbm] ");
    assert_refs(&cuda, "memory", 8, "1", true, "read[level=hbm] ");
    assert_refs(&cuda, "link.h2d", 8, "1", false, "link[dir=h2d] ");
    assert_refs(&cuda, "link.d2h", 8, "1", false, "link[dir=d2h] ");
    assert_refs(&cuda, "launch", 8, "1", false, "launch[level=none] ");
    assert_refs(&cuda, "link.both", 8, "1", false, "link[dir=both] ");
    assert_refs(&cuda, "atomics", 8, "1", false, "atomic[level=l2] ");
    assert_refs(&cpu, "atomics", 8, "all", false, "atomic[level=none;threads=all] ");
    assert_refs(&cuda, "no.such", 8, "1", false, "");
}

/* Each ceiling that a planned case names exists, and gives the resource that was asked for. */
static void every_bound_finds_its_resource(void **state) {
    (void)state;
    int seen = 0;
    for (int i = 0; i < n_cases; i++) {
        const as_device *d = cases[i].on_cpu ? &cpu : &cuda;
        as_params p, cp;
        as_error e;
        assert_int_equal(as_params_init(&p, as_matmul_suite.axes, as_matmul_suite.n_axes, &e), AS_OK);
        if (strstr(cases[i].id, "threads:all"))
            assert_int_equal(as_params_set(&p, "threads", "all", &e), AS_OK);
        for (int k = 0; k < cases[i].work.bounds; k++) {
            as_ceiling_ref ref[AS_MAX_CEILING_REFS];
            const as_bound *b = &cases[i].work.bound[k];
            int n = as_ceilings_for(b, &cases[i].work, &p, d, false, ref);
            if (n == 0)
                fail_msg("%s: nothing serves %s", cases[i].id, b->ceiling);
            for (int r = 0; r < n; r++, seen++) {
                as_work w;
                as_status s = describe(&as_ceiling_suite, ref[r].variant, ref[r].axes, d, &cp, &w);
                if (s != AS_OK)
                    fail_msg("%s: ceiling %s %s is refused", cases[i].id, ref[r].variant, ref[r].axes);
                assert_int_equal(w.bounds, 1);
                const bool widened = cases[i].on_cpu && strcmp(b->ceiling, "flops.bf16") == 0 && r == 0;
                assert_string_equal(w.bound[0].ceiling, widened ? "flops.f32" : b->ceiling);
                assert_true(w.bound[0].amount > 0);
            }
        }
    }
    assert_true(seen > 50);
}

static void ceiling_sizes_follow_the_rules(void **state) {
    (void)state;
    as_levels l;
    as_error e;
    assert_int_equal(as_levels_read(&l, &e), AS_OK);
    as_work w = work_of(&as_ceiling_suite, "read", "level=l1", &cpu);
    assert_in_range(w.working_set_bytes, 4096, l.l1_bytes / 2);
    w = work_of(&as_ceiling_suite, "copy", "level=l2", &cpu);
    assert_in_range(w.working_set_bytes, 8192, l.l2_bytes / 4);
    assert_true(w.bound[0].amount == w.bytes_read + w.bytes_written);
    w = work_of(&as_ceiling_suite, "read", "level=dram", &cpu);
    assert_true(w.working_set_bytes >= 256 << 20 || w.working_set_bytes >= l.memory_bytes / 8 - 4096);
    assert_true(w.bytes_read == (double)w.working_set_bytes);
    w = work_of(&as_ceiling_suite, "read", "level=l2", &cuda);
    assert_int_equal(w.working_set_bytes, 15 << 20);
    assert_true(w.bytes_read == 64.0 * (15 << 20));
    w = work_of(&as_ceiling_suite, "read", "level=hbm", &cuda);
    assert_true(w.working_set_bytes == INT64_C(2) << 30);
    w = work_of(&as_ceiling_suite, "fma", "type=f32", &cuda);
    assert_true(w.flops == 2.0 * 4096 * 8 * (1 << 20));
    w = work_of(&as_ceiling_suite, "launch", "", &cuda);
    assert_true(w.bound[0].amount == 512 && w.expected_count == 512);
}

/* `assay size` reads the shapes from here: every key of each model, and the counts that their makers publish. */
static void catalogue_holds_the_models(void **unused) {
    (void)unused;
    static const struct {
        const char *name;
        json_int_t parameters;
    } published[] = {
        {"llama-1b", 1235814400}, {"llama-8b", 8030261248}, {"llama-70b", 70553706496}, {"mixtral-8x7b", 46702792704}};
    json_t *catalogue = as_suites_catalogue();
    const json_t *models = json_object_get(catalogue, "models");
    size_t at = 0;
    for (const as_model *m = as_models; m->name; m++, at++) {
        const json_t *j = json_array_get(models, at);
        assert_int_equal(json_object_size(j), 14);
        assert_string_equal(json_string_value(json_object_get(j, "name")), m->name);
        assert_string_equal(json_string_value(json_object_get(j, "family")),
                            m->family == AS_DECODER ? "decoder" : "encoder");
        assert_int_equal(json_integer_value(json_object_get(j, "kv_heads")), m->kv_heads);
        assert_int_equal(json_is_true(json_object_get(j, "tied")), m->tied);
        assert_int_equal(json_integer_value(json_object_get(j, "experts_per_token")), m->experts_per_token);
        for (size_t i = 0; i < sizeof published / sizeof *published; i++)
            if (strcmp(m->name, published[i].name) == 0)
                assert_int_equal(json_integer_value(json_object_get(j, "parameters")), published[i].parameters);
    }
    assert_int_equal(json_array_size(models), at);
    json_decref(catalogue);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_name_variants_that_exist),
        cmocka_unit_test(ids_are_unique),
        cmocka_unit_test(quick_plan_is_small),
        cmocka_unit_test(works_are_complete),
        cmocka_unit_test(formulas_hold),
        cmocka_unit_test(senseless_parameters_are_usage_errors),
        cmocka_unit_test(level_follows_working_set),
        cmocka_unit_test(bounds_name_their_ceilings),
        cmocka_unit_test(bandwidth_follows_the_mix),
        cmocka_unit_test(l3_counts_both_kinds_of_stores),
        cmocka_unit_test_teardown(bf16_takes_the_units_that_there_are, allow_all),
        cmocka_unit_test(every_bound_finds_its_resource),
        cmocka_unit_test(ceiling_sizes_follow_the_rules),
        cmocka_unit_test(catalogue_holds_the_models),
    };
    return cmocka_run_group_tests(tests, read_tables, free_tables);
}
