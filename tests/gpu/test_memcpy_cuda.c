/* Suite memcpy on a GPU: every variant at ragged sizes against its source, twice, into poisoned outputs; guards around
 * the copy kernel; the times that variants take by themselves. */
#include "gpu_device.h"
#include "host_case.h"

#include "kernels/memcpy/memcpy.h"
#include "suites/suites.h"

#include <math.h>
#include <string.h>

enum { POISON = 0xFF, SEED = 11 };

/* One case, prepared. */
typedef struct bench {
    const as_variant *variant;
    as_params params;
    as_work work;
    void *operand[AS_MAX_OPERANDS], *state;
    double own_ns, extra[AS_MAX_EXTRA];
    as_call call;
} bench;

static size_t bytes_of(const as_operand *o) { return (size_t)o->count * as_dtype_bytes(o->type); }

static void tear_down(bench *b) {
    if (b->variant->finish && b->state)
        b->variant->finish(b->state);
    for (int i = 0; i < b->work.operands; i++)
        DRIVER.release(&device, b->work.operand[i].memory, b->operand[i]);
}

static void make_operands(bench *b) {
    for (int i = 0; i < b->work.operands; i++) {
        const as_operand *o = &b->work.operand[i];
        assert_ok(DRIVER.alloc(&device, o->memory, bytes_of(o), &b->operand[i], e));
        if (o->role == AS_IN)
            assert_ok(
                DRIVER.fill(&device, o->memory, b->operand[i], o->type, o->dist, (uint64_t)o->count, SEED, o->key, e));
    }
}

/* False where this machine lacks what the case needs: its reason is printed. */
static bool set_up(bench *b, const char *variant, const char *axes) {
    as_error e = {0};
    *b = (bench){.variant = case_variant(&as_memcpy_suite, "cuda", variant)};
    if (b->variant->available && b->variant->available(&device, &e) != AS_OK) {
        print_message("%s: %s\n", variant, e.message);
        return false;
    }
    b->params = case_params(&as_memcpy_suite, axes);
    assert_ok(as_memcpy_suite.describe(&b->params, b->variant, &device, &b->work, e));
    make_operands(b);
    b->call = (as_call){.params = &b->params,
                        .operand = b->operand,
                        .device = &device,
                        .stream = stream,
                        .extra = b->extra,
                        .own_ns = &b->own_ns};
    const as_status s = b->variant->prepare ? b->variant->prepare(&b->call, &b->state, &e) : AS_OK;
    if (s != AS_OK && s != AS_EABSENT)
        fail_msg("%s %s: %s", variant, axes, e.message);
    if (s == AS_EABSENT) {
        print_message("%s %s: %s\n", variant, axes, e.message);
        tear_down(b);
        return false;
    }
    b->call.state = b->state;
    return true;
}

/* The output against the seeded bytes, or the end of the walk. */
static void check_output(bench *b, const char *axes) {
    const int last = b->work.operands - 1;
    const as_operand *out = &b->work.operand[last];
    unsigned char *got = malloc(bytes_of(out) + 1), *want = malloc(bytes_of(out) + 1);
    assert_true(got && want);
    assert_ok(DRIVER.copy(&device, got, b->operand[last], bytes_of(out), e));
    if (b->work.check == AS_CHECK_REFERENCE) {
        const int64_t row = 0;
        double expected, scale;
        const as_reference r = {&b->params, &b->work, NULL, &row, 1, &expected, &scale, NULL};
        uint32_t end;
        assert_ok(as_memcpy_suite.reference(&r, e));
        memcpy(&end, got, sizeof end);
        assert_true((double)end == expected);
    } else {
        const as_operand *in = &b->work.operand[0];
        as_rng_fill(want, in->type, in->dist, 0, (uint64_t)in->count, SEED, in->key);
        if (memcmp(got, want, bytes_of(out)) != 0)
            fail_msg("%s %s: the copy differs from its source", b->variant->name, axes);
    }
    free(got);
    free(want);
}

static void run(bench *b) {
    const int last = b->work.operands - 1;
    assert_ok(DRIVER.set(&device, b->operand[last], POISON, bytes_of(&b->work.operand[last]), e));
    b->own_ns = NAN;
    assert_ok(b->variant->run(&b->call, e));
    assert_ok(DRIVER.stream_sync(&device, stream, e));
    if (b->variant->flags & AS_OWN_CLOCK)
        assert_true(b->own_ns > 0 && b->own_ns < 1e10);
}

/* Two runs: the second finds what the first left behind. False where the case does not exist here. */
static bool check(const char *variant, const char *axes) {
    bench b;
    if (!set_up(&b, variant, axes))
        return false;
    for (int again = 0; again < 2; again++) {
        run(&b);
        check_output(&b, axes);
    }
    tear_down(&b);
    return true;
}

#define CHECK_ALL(variant, ...)                                                                                        \
    do {                                                                                                               \
        static const char *const all_[] = {__VA_ARGS__};                                                               \
        for (size_t i_ = 0; i_ < sizeof all_ / sizeof *all_; i_++)                                                     \
            assert_true(check(variant, all_[i_]));                                                                     \
    } while (0)

static void test_plain_copies(void **state) {
    (void)state;
    CHECK_ALL("sync", "bytes=1;dir=h2d", "bytes=4097;dir=d2h", "bytes=1000003;dir=d2d",
              "bytes=1000003;dir=h2d;memory=pageable", "bytes=77;dir=d2h;memory=pageable",
              "bytes=1000003;dir=h2d;memory=write_combined", "bytes=63;dir=d2h;memory=write_combined",
              "bytes=4097;dir=h2d;memory=registered", "bytes=1000003;dir=d2h;memory=registered");
    CHECK_ALL("async", "bytes=1;dir=d2d", "bytes=1000003;dir=h2d", "bytes=1000003;dir=d2h",
              "bytes=4097;dir=h2d;memory=pageable", "bytes=4097;dir=d2h;memory=pageable",
              "bytes=63;dir=h2d;memory=write_combined", "bytes=63;dir=h2d;memory=registered");
    CHECK_ALL("kernel", "bytes=1;dir=d2d", "bytes=15;dir=d2d", "bytes=16;dir=d2d", "bytes=16383;dir=d2d",
              "bytes=16384;dir=d2d", "bytes=16401;dir=d2d", "bytes=1000003;dir=d2d", "bytes=1;dir=h2d",
              "bytes=4097;dir=h2d", "bytes=1000003;dir=d2h", "bytes=63;dir=d2h",
              "bytes=1000003;dir=h2d;memory=write_combined");
}

/* Present only where there is a second NUMA node. */
static void test_far_node(void **state) {
    (void)state;
    if (!check("async", "bytes=1000003;dir=h2d;node=far"))
        skip();
    assert_true(check("async", "bytes=4097;dir=d2h;node=far"));
}

static void test_pieces(void **state) {
    (void)state;
    CHECK_ALL("many", "bytes=1;dir=h2d", "bytes=1000003;dir=h2d;pieces=7", "bytes=4097;dir=d2h;pieces=4097");
    if (check("batch", "bytes=1;dir=h2d"))
        CHECK_ALL("batch", "bytes=1000003;dir=h2d;pieces=7", "bytes=4097;dir=d2h;pieces=4097",
                  "bytes=1048576;dir=d2h;pieces=1024");
}

static void test_uses(void **state) {
    (void)state;
    CHECK_ALL("resident", "bytes=63;dir=h2d", "bytes=1000003;dir=h2d;uses=3");
    CHECK_ALL("resend", "bytes=63;dir=h2d", "bytes=1000003;dir=h2d;uses=3");
}

static void test_several_streams(void **state) {
    (void)state;
    CHECK_ALL("bidirectional", "bytes=63;dir=h2d", "bytes=1000003;dir=d2h", "bytes=16;dir=h2d;by=sm",
              "bytes=16400;dir=h2d;by=sm", "bytes=1000000;dir=d2h;by=sm");
    CHECK_ALL("all", "bytes=1000003;dir=h2d", "bytes=4097;dir=d2h", "bytes=1000000;dir=h2d;by=sm");
    CHECK_ALL("all_bidirectional", "bytes=1000003;dir=h2d", "bytes=1000000;dir=d2h;by=sm");
}

/* Skipped on a machine with one GPU: these paths need two. */
static void test_peers(void **state) {
    (void)state;
    static const char *const variants[] = {"peer", "peer_bidirectional", "all_to_one", "one_to_all"};
    static const char *const axes[] = {"bytes=1000003;dir=p2d", "bytes=1000003;dir=d2p", "bytes=1000000;dir=p2d;by=sm",
                                       "bytes=1000000;dir=d2p;by=sm"};
    int checked = 0;
    for (int v = 0; v < 4; v++)
        for (int a = 0; a < 4; a++)
            checked += check(variants[v], axes[a]);
    checked += check("latency", "bytes=2097152;dir=p2d");
    if (checked == 0)
        skip();
    assert_int_equal(checked, 17);
}

static void test_latency(void **state) {
    (void)state;
    CHECK_ALL("latency", "bytes=256;dir=h2d", "bytes=1280;dir=h2d", "bytes=2097152;dir=h2d");
}

static void test_managed(void **state) {
    (void)state;
    if (!check("managed_fault", "bytes=1;dir=h2d"))
        skip();
    static const char *const variants[] = {"managed_fault", "managed_prefetch", "managed_advise"};
    for (int v = 0; v < 3; v++)
        CHECK_ALL(variants[v], "bytes=63;dir=h2d", "bytes=4097;dir=h2d", "bytes=8388609;dir=h2d");
}

static void test_requests(void **state) {
    (void)state;
    CHECK_ALL("request_copy", "bytes=1;dir=h2d", "bytes=4097;dir=h2d;copies=2", "bytes=602112;dir=h2d",
              "bytes=1048576;dir=h2d");
    static const char *const variants[] = {"request_straight", "request_register", "request_mapped"};
    for (int v = 0; v < 3; v++)
        CHECK_ALL(variants[v], "bytes=1;dir=h2d", "bytes=4097;dir=h2d", "bytes=602112;dir=h2d",
                  "bytes=1048576;dir=h2d");
}

static void test_overlap(void **state) {
    (void)state;
    static const char *const axes[] = {"bytes=16777216;dir=h2d", "bytes=16777216;dir=d2h",
                                       "bytes=16777216;dir=h2d;memory=pageable",
                                       "bytes=16777217;dir=d2h;memory=registered"};
    for (int i = 0; i < 4; i++) {
        bench b;
        assert_true(set_up(&b, "overlap", axes[i]));
        run(&b);
        check_output(&b, axes[i]);
        print_message("overlap %s: copy %.0f ns, hidden %.0f permille, issue %.0f ns, both %.0f ns\n", axes[i],
                      b.extra[0], b.extra[1], b.extra[2], b.own_ns);
        assert_true(b.extra[0] > 0 && b.extra[2] > 0 && b.extra[1] < 1500 && b.own_ns >= 0.5 * b.extra[0]);
        tear_down(&b);
    }
}

/* Traffic the other way cannot make a copy faster, and a stream that starts behind a latch is timed without it. */
static void test_times_are_plausible(void **state) {
    (void)state;
    double ns[2] = {INFINITY, INFINITY};
    static const char *const variants[] = {"all", "bidirectional"};
    for (int v = 0; v < 2; v++) {
        bench b;
        assert_true(set_up(&b, variants[v], "bytes=67108864;dir=h2d"));
        for (int i = 0; i < 5; i++) {
            run(&b);
            ns[v] = fmin(ns[v], b.own_ns);
        }
        tear_down(&b);
    }
    print_message("64 MiB h2d: %.0f ns alone, %.0f ns beside d2h\n", ns[0], ns[1]);
    assert_true(ns[1] > 0.95 * ns[0] && ns[1] < 4 * ns[0]);
    assert_true(67108864 / ns[0] < 1000); /* 1 TB/s is beyond any link to a host */
}

/* The copy kernel at all pairs of misalignment, with guards on both sides of the destination. */
static void test_copy_kernel_alignments(void **state) {
    (void)state;
    enum { GUARD = 32, MOST = 40000, SIZES = 6 };
    static const int64_t sizes[SIZES] = {1, 3, 15, 17, 4099, 33333};
    const as_variant *v = case_variant(&as_memcpy_suite, "cuda", "kernel");
    unsigned char *want = malloc(MOST), *got = malloc(MOST);
    void *src, *dst;
    assert_true(want && got);
    assert_ok(DRIVER.alloc(&device, AS_MEM_DEVICE, MOST, &src, e));
    assert_ok(DRIVER.alloc(&device, AS_MEM_DEVICE, MOST, &dst, e));
    as_rng_fill(want, AS_U8, AS_BITS, 0, MOST, 5, 5);
    assert_ok(DRIVER.copy(&device, src, want, MOST, e));
    for (int s = 0; s < SIZES; s++)
        for (int from = 0; from < 17; from++)
            for (int to = 0; to < 17; to++) {
                as_params p;
                char bytes[24];
                snprintf(bytes, sizeof bytes, "%lld", (long long)sizes[s]);
                assert_ok(as_params_init(&p, as_memcpy_suite.axes, as_memcpy_suite.n_axes, e));
                assert_ok(as_params_set(&p, "bytes", bytes, e));
                assert_ok(as_params_set(&p, "dir", "d2d", e));
                assert_ok(DRIVER.set(&device, dst, 0x5A, MOST, e));
                void *operand[] = {(char *)src + from, (char *)dst + GUARD + to};
                const as_call call = {.params = &p, .operand = operand, .device = &device, .stream = stream};
                assert_ok(v->run(&call, e));
                assert_ok(DRIVER.stream_sync(&device, stream, e));
                assert_ok(DRIVER.copy(&device, got, dst, MOST, e));
                assert_memory_equal(got + GUARD + to, want + from, sizes[s]);
                for (int i = 0; i < GUARD + to; i++)
                    assert_int_equal(got[i], 0x5A);
                for (int i = 0; i < GUARD; i++)
                    assert_int_equal(got[GUARD + to + sizes[s] + i], 0x5A);
            }
    DRIVER.release(&device, AS_MEM_DEVICE, src);
    DRIVER.release(&device, AS_MEM_DEVICE, dst);
    free(want);
    free(got);
}

int main(void) {
    const int absent = without_device();
    if (absent)
        return absent;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_copies),
        cmocka_unit_test(test_far_node),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_uses),
        cmocka_unit_test(test_several_streams),
        cmocka_unit_test(test_peers),
        cmocka_unit_test(test_latency),
        cmocka_unit_test(test_managed),
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_times_are_plausible),
        cmocka_unit_test(test_copy_kernel_alignments),
    };
    return cmocka_run_group_tests_name("cuda memcpy", tests, open_device, close_device) != 0;
}
