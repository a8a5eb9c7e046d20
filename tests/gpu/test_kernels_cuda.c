/* Every CUDA launcher against the host's float64 reference, its source buffer or a count, at sizes that fit no tile.
 * Written against the suites' tables alone: a variant added there is tested here. */
#include "cases.h"

#include "kernels/launch/launch.h"
#include "kernels/matmul/mma.h"
#include "kernels/matmul/warptiled.h"
#include "kernels/matmul/wgmma.h"

#include <math.h>
#include <string.h>

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
    check_all(&as_ceiling_suite, "read",
              (const char *const[]){"level=shared", "level=l1", "level=l2", "level=hbm", NULL});
    static const char *const stores[] = {"write", "copy", "triad"};
    for (int i = 0; i < 3; i++)
        check_all(&as_ceiling_suite, stores[i], (const char *const[]){"level=shared", "level=l2", "level=hbm", NULL});
    check_all(&as_ceiling_suite, "atomic", (const char *const[]){"level=shared", "level=l2", NULL});
    check_all(&as_ceiling_suite, "fma", (const char *const[]){"type=f32", "type=f64", NULL});
    if (capability() >= 80)
        check_all(&as_ceiling_suite, "tensor",
                  (const char *const[]){"type=tf32", "type=bf16", "type=f16", "type=e4m3", "type=s8", NULL});
    check_all(&as_ceiling_suite, "link", (const char *const[]){"dir=h2d", "dir=d2h", "dir=both", NULL});
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
    assert_true(rate_of("read", "level=l1") > l2 && rate_of("read", "level=shared") > l2);
    static const char *const stores[] = {"write", "copy", "triad"};
    for (int i = 0; i < 3;
         i++) { /* and no store is lost in a register: reading is the fastest of all in shared memory */
        assert_true(rate_of(stores[i], "level=l2") > 0.7 * hbm);
        assert_true(rate_of(stores[i], "level=shared") < 1.1 * rate_of("read", "level=shared"));
    }
    assert_true(rate_of("link", "dir=both") > 1.2 * (h2d < d2h ? h2d : d2h)); /* else they take turns */
    assert_true(rate_of("atomic", "level=l2") < l2 && rate_of("atomic", "level=shared") > 100);
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
