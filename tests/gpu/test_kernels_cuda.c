/* Every CUDA launcher against the host's float64 reference, its source buffer or a count, at sizes that fit no tile.
 * Written against the suites' tables alone: a variant added there is tested here. */
#include "gpu_test.h"

#include "kernels/cuda/internal.h"
#include "kernels/launch/launch.h"
#include "kernels/matmul/mma.h"
#include "kernels/matmul/warptiled.h"
#include "kernels/matmul/wgmma.h"
#include "suites/suites.h"

#include <math.h>
#include <string.h>

#define DRIVER as_cuda_driver
enum { POISON = 0xFF };

static as_device device;
static as_stream stream;

static int open_device(void **state) {
    (void)state;
    as_error e = {0};
    if (DRIVER.open(0, &device, &e) == AS_OK && DRIVER.stream_create(&device, &stream, &e) == AS_OK)
        return 0;
    fprintf(stderr, "%s\n", e.message);
    return -1;
}

static int close_device(void **state) {
    (void)state;
    DRIVER.stream_destroy(&device, stream);
    DRIVER.close(&device);
    return 0;
}

/* A prepared case: operands on the device, inputs also on the host. */
typedef struct bench {
    const as_suite *suite;
    const as_variant *variant;
    as_params params;
    as_work work;
    void *operand[AS_MAX_OPERANDS], *host[AS_MAX_OPERANDS];
    void *counter, *state;
    double extra[AS_MAX_EXTRA];
    as_call call;
} bench;

static size_t bytes_of(const as_operand *o) { return (size_t)o->count * as_dtype_bytes(o->type); }

static void tear_down(bench *b) {
    if (b->variant->finish)
        b->variant->finish(b->state);
    for (int i = 0; i < b->work.operands; i++) {
        DRIVER.release(&device, b->work.operand[i].memory, b->operand[i]);
        free(b->host[i]);
    }
    if (b->counter)
        DRIVER.release(&device, AS_MEM_DEVICE, b->counter);
}

/* axes: "n=17;m=5". False where this machine lacks what the variant needs. */
static bool set_up(bench *b, const as_suite *suite, const as_variant *v, const char *axes, bool counted) {
    char text[128], *save = NULL;
    *b = (bench){.suite = suite, .variant = v};
    as_error e = {0};
    if (v->available && v->available(&device, &e) == AS_EABSENT) {
        print_message("%s: %s\n", v->name, e.message);
        return false;
    }
    assert_ok(as_params_init(&b->params, suite->axes, suite->n_axes, e));
    snprintf(text, sizeof text, "%s", axes);
    for (char *one = strtok_r(text, ";", &save); one; one = strtok_r(NULL, ";", &save)) {
        char *value = strchr(one, '=');
        assert_non_null(value);
        *value++ = '\0';
        assert_ok(as_params_set(&b->params, one, value, e));
    }
    const as_status described = suite->describe(&b->params, v, &device, &b->work, &e);
    if (described == AS_EUSAGE) /* of another type, or a shape that it does not take: the suites' tests say which */
        return false;
    if (described != AS_OK)
        fail_msg("%s %s: %s", v->name, axes, e.message);
    for (int i = 0; i < b->work.operands; i++) {
        const as_operand *o = &b->work.operand[i];
        b->host[i] = malloc(bytes_of(o) + 1);
        assert_non_null(b->host[i]);
        assert_ok(DRIVER.alloc(&device, o->memory, bytes_of(o), &b->operand[i], e));
        if (o->role == AS_OUT) {
            assert_ok(DRIVER.set(&device, b->operand[i], POISON, bytes_of(o), e));
            continue;
        }
        as_rng_fill(b->host[i], o->type, o->dist, 0, (uint64_t)o->count, 11, o->key);
        assert_ok(DRIVER.copy(&device, b->operand[i], b->host[i], bytes_of(o), e));
    }
    if (counted) {
        assert_ok(DRIVER.alloc(&device, AS_MEM_DEVICE, sizeof(uint64_t), &b->counter, e));
        assert_ok(DRIVER.set(&device, b->counter, 0, sizeof(uint64_t), e));
    }
    b->call = (as_call){.params = &b->params,
                        .operand = b->operand,
                        .device = &device,
                        .stream = stream,
                        .counter = b->counter,
                        .extra = b->extra};
    const as_status prepared = v->prepare ? v->prepare(&b->call, &b->state, &e) : AS_OK;
    if (prepared == AS_EABSENT) {
        print_message("%s %s: %s\n", v->name, axes, e.message);
        tear_down(b);
        return false;
    }
    if (prepared != AS_OK)
        fail_msg("%s %s: %s", v->name, axes, e.message);
    b->call.state = b->state;
    return true;
}

static void run(bench *b) {
    assert_ok(b->variant->run(&b->call, e));
    assert_ok(DRIVER.stream_sync(&device, stream, e));
    for (int i = 0; i < b->work.operands; i++)
        if (b->work.operand[i].role == AS_OUT)
            assert_ok(DRIVER.copy(&device, b->host[i], b->operand[i], bytes_of(&b->work.operand[i]), e));
}

static double element(const as_operand *o, const void *data, int64_t i) {
    switch (o->type) {
    case AS_F32: return ((const float *)data)[i];
    case AS_F64: return ((const double *)data)[i];
    case AS_U32: return ((const uint32_t *)data)[i];
    case AS_I32: return ((const int32_t *)data)[i];
    case AS_BF16: return (double)as_bf16_to_f32(((const uint16_t *)data)[i]);
    case AS_F16: return (double)as_f16_to_f32(((const uint16_t *)data)[i]);
    default: fail_msg("outputs of type %s are not read here", as_dtype_name(o->type));
    }
    return NAN;
}

/* The output against the suite's host reference: all rows, or of many every fifth, which meets every row of a tile. */
static void check_reference(const bench *b, const char *axes) {
    const as_work *w = &b->work;
    const int64_t step = w->rows > 600 ? 5 : 1, n_rows = (w->rows + step - 1) / step, n = n_rows * w->columns;
    const as_operand *out = &w->operand[w->operands - 1];
    assert_int_equal(out->count, w->rows * w->columns);
    double *expected = malloc((size_t)n * sizeof *expected), *scale = malloc((size_t)n * sizeof *scale);
    int64_t *rows = malloc((size_t)n_rows * sizeof *rows);
    const void *input[AS_MAX_OPERANDS] = {0};
    assert_true(expected && scale && rows);
    for (int64_t i = 0; i < n_rows; i++)
        rows[i] = i == n_rows - 1 ? w->rows - 1 : i * step;
    for (int i = 0; i < w->operands; i++)
        input[i] = w->operand[i].role == AS_IN ? b->host[i] : NULL;
    const as_reference r = {&b->params, w, input, rows, n_rows, expected, scale, NULL};
    assert_ok(b->suite->reference(&r, e));
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = rows[i / w->columns] * w->columns + i % w->columns;
        const double got = element(out, b->host[w->operands - 1], at);
        if (!(fabs(got - expected[i]) <= w->tolerance * scale[i])) /* NaN fails */
            fail_msg("%s/%s %s: element %lld is %.9g, expected %.9g", b->suite->name, b->variant->name, axes,
                     (long long)at, got, expected[i]);
    }
    free(expected);
    free(scale);
    free(rows);
}

/* Two runs: the second finds what state the first left behind. False where the case does not exist here. */
static bool check(const as_suite *suite, const as_variant *v, const char *axes) {
    bench b;
    const bool counted = strcmp(suite->name, "launch") == 0 || strcmp(v->name, "launch") == 0;
    if (!set_up(&b, suite, v, axes, counted))
        return false;
    for (int again = 0; again < 2; again++) {
        run(&b);
        if (b.work.check == AS_CHECK_REFERENCE) {
            check_reference(&b, axes);
        } else if (b.work.check == AS_CHECK_COPY) {
            if (memcmp(b.host[0], b.host[1], bytes_of(&b.work.operand[0])) != 0)
                fail_msg("%s/%s %s: the copy differs from its source", suite->name, v->name, axes);
        } else {
            uint64_t count = 0;
            assert_ok(DRIVER.copy(&device, &count, b.counter, sizeof count, e));
            if (count != (uint64_t)(b.work.expected_count * (again + 1)))
                fail_msg("%s/%s %s: %llu executions, expected %lld", suite->name, v->name, axes,
                         (unsigned long long)count, (long long)b.work.expected_count * (again + 1));
        }
    }
    tear_down(&b);
    return true;
}

/* Returns how many cases were checked: at least one. */
static int check_all(const as_suite *suite, const char *only, const char *const *axes) {
    int cases = 0;
    for (const as_variant *v = suite->variants; v->name; v++) {
        if (strcmp(v->on, "cuda") != 0 || (only && strcmp(v->name, only) != 0))
            continue;
        for (const char *const *a = axes; *a; a++)
            cases += check(suite, v, *a);
    }
    assert_true(cases > 0);
    return cases;
}

/* Rows that are whole quads and that are not; less than a tile, whole tiles, one more and one less. */
static const char *const matmul_shapes[] = {"n=1",
                                            "n=2;m=1;k=3",
                                            "n=17",
                                            "n=33",
                                            "n=7;m=100;k=65",
                                            "n=65;m=1;k=300",
                                            "n=1;m=300;k=64",
                                            "n=260;m=130;k=36",
                                            "n=257;m=31;k=1",
                                            "n=1000",
                                            "n=1025;m=1023;k=1027",
                                            "n=512;m=256;k=16",
                                            "n=256;k=8",
                                            NULL};

static void test_matmul(void **state) {
    (void)state;
    const int shapes = (int)(sizeof matmul_shapes / sizeof *matmul_shapes) - 1;
    /* The ten rungs in float32; cublas and cublaslt where the libraries are. */
    assert_true(check_all(&as_matmul_suite, NULL, matmul_shapes) >= 10 * shapes);
}

/* Tiles of 64, 128 and 256, whole and ragged; k shorter than a slab, than all stages, longer; rows of C that the copy
 * engine takes and that it does not; and for the rungs that take any k, rows that no 16 bytes divide. */
static const char *const tensor_shapes[] = {"n=256;m=128;k=64",
                                            "n=512;m=512;k=512",
                                            "n=64;m=64;k=16",
                                            "n=264;m=130;k=1040",
                                            "n=255;m=257;k=272",
                                            "n=1;m=1;k=16",
                                            "n=1000;m=333;k=48",
                                            "n=1030;m=1;k=2064",
                                            "n=1;m=600;k=144",
                                            "n=1296;m=700;k=400",
                                            "n=33;m=70;k=7",
                                            "n=129;m=257;k=333",
                                            NULL};
static const char *const tensor_types[] = {"tf32", "bf16", "f16", "e4m3", "s8"};

static int check_types(const char *variant, const char *config) {
    int cases = 0;
    for (size_t t = 0; t < sizeof tensor_types / sizeof *tensor_types; t++)
        for (const char *const *shape = tensor_shapes; *shape; shape++)
            for (const as_variant *v = as_matmul_suite.variants; v->name; v++) {
                char axes[128];
                snprintf(axes, sizeof axes, "%s;type=%s;config=%s", *shape, tensor_types[t], config);
                if (strcmp(v->on, "cuda") == 0 && strcmp(v->name, variant) == 0)
                    cases += check(&as_matmul_suite, v, axes);
            }
    return cases;
}

static int capability(void) {
    const struct cudaDeviceProp *d = &as_cuda_of(&device)->properties;
    return 10 * d->major + d->minor;
}

static void test_matmul_tensor(void **state) {
    (void)state;
    const int shapes = (int)(sizeof tensor_shapes / sizeof *tensor_shapes) - 1, cc = capability();
    assert_true(check_types("wmma", "auto") == shapes * (cc >= 80 ? 4 : 2));
    assert_true(check_types("mma", "auto") == shapes * (cc >= 89 ? 5 : cc >= 80 ? 4 : 0));
    check_types("cublaslt", "auto"); /* takes what it takes */
#define CONFIG(name, ...) name,
    static const char *const mma[] = {AS_MATMUL_MMA(CONFIG)}, *const wgmma[] = {AS_MATMUL_WGMMA(CONFIG)};
#undef CONFIG
    for (size_t i = 0; i < sizeof mma / sizeof *mma; i++)
        check_types("mma", mma[i]);
    for (size_t i = 0; i < sizeof wgmma / sizeof *wgmma; i++)
        assert_true(check_types("wgmma", wgmma[i]) == (cc == 90 ? 5 * (shapes - 2) : 0));
}

/* Every row of the table, whichever of them `auto` takes. */
static void test_matmul_configurations(void **state) {
    (void)state;
#define CONFIG(name, ...) name,
    static const char *const configs[] = {AS_MATMUL_WARPTILED(CONFIG)};
#undef CONFIG
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        char axes[128];
        for (const char *const *shape = matmul_shapes; *shape; shape++) {
            snprintf(axes, sizeof axes, "%s;config=%s", *shape, configs[i]);
            check_all(&as_matmul_suite, "warptiled", (const char *const[]){axes, NULL});
        }
    }
}

/* The device reference is itself checked against the host's. */
static void test_matmul_device_reference(void **state) {
    (void)state;
    static const char *const axes[] = {"n=1",
                                       "n=33",
                                       "n=7;m=100;k=65",
                                       "n=7;m=100;k=65;type=tf32",
                                       "n=7;m=100;k=65;type=bf16",
                                       "n=7;m=100;k=65;type=f16",
                                       "n=7;m=100;k=65;type=e4m3",
                                       "n=7;m=100;k=65;type=s8",
                                       NULL};
    as_variant v = {.name = "cublaslt", .on = "cuda"}; /* takes every type; nothing of it is run */
    for (const char *const *a = axes; *a; a++) {
        bench b;
        assert_true(set_up(&b, &as_matmul_suite, &v, *a, false));
        const int64_t n = b.work.rows * b.work.columns;
        void *out[2];
        double *got[2], *want[2];
        int64_t *rows = malloc((size_t)b.work.rows * sizeof *rows);
        for (int64_t i = 0; i < b.work.rows; i++)
            rows[i] = i;
        for (int i = 0; i < 2; i++) {
            got[i] = malloc((size_t)n * sizeof(double));
            want[i] = malloc((size_t)n * sizeof(double));
            assert_ok(DRIVER.alloc(&device, AS_MEM_DEVICE, (size_t)n * sizeof(double), &out[i], e));
            assert_ok(DRIVER.set(&device, out[i], POISON, (size_t)n * sizeof(double), e));
        }
        void *operand[] = {b.operand[0], b.operand[1], out[0], out[1]};
        as_call call = b.call;
        call.operand = operand;
        assert_ok(as_matmul_suite.device_reference(&call, e));
        assert_ok(DRIVER.stream_sync(&device, stream, e));
        const void *input[] = {b.host[0], b.host[1], NULL};
        const as_reference r = {&b.params, &b.work, input, rows, b.work.rows, want[0], want[1], NULL};
        assert_ok(as_matmul_suite.reference(&r, e));
        for (int i = 0; i < 2; i++) {
            assert_ok(DRIVER.copy(&device, got[i], out[i], (size_t)n * sizeof(double), e));
            for (int64_t x = 0; x < n; x++)
                assert_true(fabs(got[i][x] - want[i][x]) <= 1e-12 * want[1][x]); /* NaN fails */
            DRIVER.release(&device, AS_MEM_DEVICE, out[i]);
        }
        for (int i = 0; i < 2; i++) {
            free(got[i]);
            free(want[i]);
        }
        free(rows);
        tear_down(&b);
    }
}

/* With and without an injection; the second share adds whole passes and a part of one. */
static void test_synthetic(void **state) {
    (void)state;
    setenv("ASSAY_INJECT", "0.05,1.3", 1);
    for (int again = 0; again < 2; again++) {
        check_all(&as_synthetic_suite, "spin",
                  (const char *const[]){"us=20", "us=50;inject=1", "us=50;inject=2", NULL});
        check_all(&as_synthetic_suite, "spin_all", (const char *const[]){"us=20", "us=50;inject=1", NULL});
        check_all(&as_synthetic_suite, "stream",
                  (const char *const[]){"bytes=16777216", "bytes=16777216;inject=1", "bytes=262144;passes=64;inject=2",
                                        NULL});
        unsetenv("ASSAY_INJECT");
    }
}

static void test_launch(void **state) {
    (void)state;
    check_all(
        &as_launch_suite, NULL,
        (const char *const[]){"chain=1", "chain=3", "chain=512", "chain=1;kernel=10us", "chain=7;kernel=10us", NULL});
}

/* The extra series of graphs are host times that were really taken. */
static void test_launch_extra_series(void **state) {
    (void)state;
    int series = 0;
    for (const as_variant *v = as_launch_suite.variants; v->name; v++) {
        if (strcmp(v->on, "cuda") != 0 || !v->extra[0].name)
            continue;
        bench b;
        if (!set_up(&b, &as_launch_suite, v, "chain=64", false)) /* takes no chain: test_launch.c has it */
            continue;
        run(&b);
        for (int i = 0; i < AS_MAX_EXTRA && v->extra[i].name; i++, series++) {
            print_message("%s: %s %.0f ns\n", v->name, v->extra[i].name, b.extra[i]);
            assert_true(b.extra[i] > 500 && b.extra[i] < 1e9);
        }
        tear_down(&b);
    }
    assert_true(series >= 2);
}

static void test_ceilings(void **state) {
    (void)state;
    check_all(&as_ceiling_suite, "read", (const char *const[]){"level=l2", "level=hbm", NULL});
    check_all(&as_ceiling_suite, "copy", (const char *const[]){"level=hbm", NULL});
    check_all(&as_ceiling_suite, "fma", (const char *const[]){"type=f32", "type=f64", NULL});
    if (capability() >= 80)
        check_all(&as_ceiling_suite, "tensor",
                  (const char *const[]){"type=tf32", "type=bf16", "type=f16", "type=e4m3", "type=s8", NULL});
    check_all(&as_ceiling_suite, "link", (const char *const[]){"dir=h2d", "dir=d2h", NULL});
    check_all(&as_ceiling_suite, "launch", (const char *const[]){"", NULL});
}

/* ---- rates, as a plausibility check: a wrong count of bytes or operations shows as an absurd one ---- */

static double rate_of(const char *variant, const char *axes) {
    const as_variant *v = as_ceiling_suite.variants;
    while (v->name && !(strcmp(v->on, "cuda") == 0 && strcmp(v->name, variant) == 0))
        v++;
    assert_non_null(v->name);
    bench b;
    as_event from, to;
    double best_ns = INFINITY, ns;
    assert_true(set_up(&b, &as_ceiling_suite, v, axes, false));
    assert_ok(DRIVER.event_create(&device, &from, e));
    assert_ok(DRIVER.event_create(&device, &to, e));
    for (int i = 0; i < 10; i++) {
        assert_ok(DRIVER.event_record(&device, from, stream, e));
        assert_ok(v->run(&b.call, e));
        assert_ok(DRIVER.event_record(&device, to, stream, e));
        assert_ok(DRIVER.stream_sync(&device, stream, e));
        assert_ok(DRIVER.event_elapsed(&device, from, to, &ns, e));
        best_ns = ns < best_ns ? ns : best_ns;
    }
    const double rate = b.work.bound[0].amount / best_ns;
    print_message("ceiling/%s %s: %.4g units/ns\n", variant, axes, rate);
    DRIVER.event_destroy(&device, from);
    DRIVER.event_destroy(&device, to);
    tear_down(&b);
    return rate;
}

static void test_ceiling_rates(void **state) {
    (void)state;
    const double hbm = rate_of("read", "level=hbm"), l2 = rate_of("read", "level=l2"),
                 copy = rate_of("copy", "level=hbm");
    const double f32 = rate_of("fma", "type=f32"), f64 = rate_of("fma", "type=f64");
    const double h2d = rate_of("link", "dir=h2d"), d2h = rate_of("link", "dir=d2h");
    assert_true(l2 > hbm); /* else it reads memory */
    assert_true(copy > 0.7 * hbm && copy < 1.1 * hbm);
    assert_true(f32 > 1000 && f32 < 1e6 && f64 <= 1.05 * f32);
    assert_true(h2d < hbm && d2h < hbm);
    assert_true(rate_of("launch", "") < 0.01); /* 10 ns a launch is beyond any device */
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], AS_LAUNCH_CHILD_COMMAND) == 0) /* a fresh process of suite launch */
        return as_launch_child_main(argc, argv);
    const int absent = without_device();
    if (absent)
        return absent;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matmul),
        cmocka_unit_test(test_matmul_configurations),
        cmocka_unit_test(test_matmul_tensor),
        cmocka_unit_test(test_matmul_device_reference),
        cmocka_unit_test(test_synthetic),
        cmocka_unit_test(test_launch),
        cmocka_unit_test(test_launch_extra_series),
        cmocka_unit_test(test_ceilings),
        cmocka_unit_test(test_ceiling_rates),
    };
    return cmocka_run_group_tests_name("cuda kernels", tests, open_device, close_device) != 0;
}
