/* Convolutional networks on the host: shapes and work as published, every rung against the float64 reference on ragged
 * shapes, operations against operations, images against one another, faults, and the breakdown's sums. */
#include "host_case.h"
#include "kernels/inference/cnn_cpu.h"
#include "kernels/inference/cnn_window.h"
#include "kernels/isa.h"
#include "suites/inference/inference.h"
#include "suites/suites.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- shapes and work ---- */

/* torchvision's resnet18 has 11,689,512 parameters, of which 9,600 are factors and sums of its normalisations; folded,
 * each of its 4,800 convolution channels keeps a bias. 1.814e9 multiply-adds. */
static void resnet18_is_as_published(void **state) {
    (void)state;
    as_cnn_net n;
    as_cnn_build(as_cnn_named("resnet18"), &n);
    assert_int_equal(n.parameters, 11689512 - 9600 + 4800);
    const as_cnn_step s = {.model = n.model, .type = AS_F16, .batch = 2};
    assert_true(fabs(as_cnn_flops(&n, &s) / 2 - 2 * 1814073344.0) < 1);
    assert_true(as_cnn_bytes_read(&n, &s) == 2 * ((double)n.parameters + 2.0 * 224 * 224 * 3));
    assert_true(as_cnn_bytes_written(&n, &s) == 2 * 4 * 1000);
    int convolutions = 0;
    for (int i = 0; i < n.ops; i++) {
        const as_cnn_op *o = &n.op[i];
        convolutions += o->kind == AS_CNN_CONVOLVE;
        assert_true(o->kind != AS_CNN_CONVOLVE || (o->weights % 128 == 0 && o->bias % 128 == 0));
        if (o->add != AS_CNN_NOTHING)
            assert_int_equal(o->add, o->to);
        assert_int_not_equal(o->from, o->to);
    }
    assert_int_equal(convolutions, 21); /* 17, 3 projections, the head */
    assert_int_equal(n.op[n.ops - 2].in_side, 7);
    assert_int_equal(n.op[1].out_side, 56);
}

/* What an operation leaves and what it then reads are of one shape. */
static void operations_fit_together(void **state) {
    (void)state;
    for (const as_cnn *m = as_cnns; m->name; m++) {
        as_cnn_net n;
        int64_t elements[AS_CNN_BUFFERS + 2] = {0};
        as_cnn_build(m, &n);
        elements[AS_CNN_IMAGES] = as_cnn_inputs(&n.op[0]);
        assert_in_range(n.ops, 1, AS_CNN_MOST_OPS);
        for (int i = 0; i < n.ops; i++) {
            const as_cnn_op *o = &n.op[i];
            assert_int_equal(elements[o->from], as_cnn_inputs(o));
            if (o->add != AS_CNN_NOTHING)
                assert_int_equal(elements[o->add], as_cnn_outputs(o));
            elements[o->to] = as_cnn_outputs(o);
        }
        assert_int_equal(elements[AS_CNN_LOGITS], m->classes);
    }
}

static void refuse(const char *variant, const char *axes, const char *why) {
    const as_params p = case_params(&as_inference_suite, axes);
    as_work w;
    as_error e = {0};
    assert_int_equal(as_inference_suite.describe(&p, host_variant(&as_inference_suite, variant), &cpu, &w, &e),
                     AS_EUSAGE);
    if (!strstr(e.message, why))
        fail_msg("%s: '%s' does not say '%s'", axes, e.message, why);
}

static void nonsense_is_refused(void **state) {
    (void)state;
    refuse("simd", "model=resnet18;phase=forward;context=8", "language models");
    refuse("simd", "model=resnet18;phase=prefill", "phase:forward");
    refuse("simd", "model=resnet18", "phase:forward");
    refuse("simd", "model=tiny;phase=forward", "phase is");
    refuse("simd", "model=resnet18;phase=forward;type=f8", "type is");
    refuse("simd", "model=resnet18;phase=forward;type=tf32", "take type:f32");
    refuse("simd", "model=resnet18;phase=forward;batch=0", "batch is");
    refuse("simd", "model=resnet18;phase=forward;batch=2000", "batch is");
    refuse("simd", "model=resnet18;phase=forward;transfers=some", "transfers is");
    refuse("simd", "model=resnet18;phase=forward;transfers=yes", "leave transfers out");
    refuse("simd", "model=tiny;transfers=yes", "for images");
    refuse("naive", "model=resnet18;phase=forward;threads=2", "one thread");
    refuse("openblas", "model=resnet18;phase=forward", "type:f32");
}

static double bytes_of(const char *axes) {
    const as_work w = host_work(&as_inference_suite, "simd", axes);
    double sum = (double)w.state_bytes;
    for (int i = 0; i < w.operands; i++)
        sum += (double)w.operand[i].count * (double)as_dtype_bytes(w.operand[i].type);
    return sum;
}

/* The remedy's own figure: what it names fits, one more does not. */
static void the_largest_that_fits_is_named(void **state) {
    (void)state;
    const as_params p = case_params(&as_inference_suite, "model=resnet18;phase=forward;batch=512;type=f32");
    long long batch = 0;
    char text[160], axes[96];
    as_inference_suite.largest(&p, host_variant(&as_inference_suite, "simd"), &cpu, 1e9, text);
    assert_int_equal(sscanf(text, "the largest that fits is batch:%lld", &batch), 1);
    for (int more = 0; more < 2; more++) {
        snprintf(axes, sizeof axes, "model=resnet18;phase=forward;batch=%lld;type=f32", batch + more);
        assert_int_equal(bytes_of(axes) <= 1e9, !more);
    }
    as_inference_suite.largest(&p, host_variant(&as_inference_suite, "simd"), &cpu, 1e6, text);
    assert_non_null(strstr(text, "no batch"));
}

/* ---- one prepared operation ---- */

static void trial_begin(host_case *t, const char *variant, const char *axes, as_team *team) {
    host_begin(t, &as_inference_suite, host_variant(&as_inference_suite, variant), axes, team);
}

static as_cnn_cpu *network_of(const host_case *t) { return as_route_state(t->call.state); }

static void accept(const char *variant, const char *axes, as_team *team) {
    host_case t;
    trial_begin(&t, variant, axes, team);
    host_run(&t);
    host_run(&t); /* borders and shortcuts of a second operation find what the first one left */
    const double worst = host_worst(&t);
    if (!(worst <= 1))
        fail_msg("%s %s: %.3g of the tolerance, %d threads", variant, axes, worst, as_team_size(team));
    if (getenv("ASSAY_TEST_SHOW"))
        print_message("%s %s: %.3g of the tolerance\n", variant, axes, worst);
    assert_true(isnan(t.extra[0]) && isnan(t.extra[1])); /* series of language models */
    host_end(&t);
}

static void rungs_match_the_reference(void **state) {
    (void)state;
    static const char *const types[] = {"f32", "bf16", "f16"};
    static const int batches[] = {1, 2, 5};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            char axes[96], all[128];
            snprintf(axes, sizeof axes, "model=tiny-cnn;phase=forward;batch=%d;type=%s", batches[i], types[k]);
            snprintf(all, sizeof all, "%s;threads=all", axes);
            accept("naive", axes, team_of_one);
            for (int isa = AS_ISA_BASE; isa <= AS_ISA_AVX512; isa++) {
                as_isa_limit((as_isa)isa);
                accept("simd", axes, team_of_one);
                accept("simd", all, team_of_three);
            }
            if (k == 0) {
                accept("openblas", axes, team_of_one);
                accept("openblas", all, team_of_three);
            }
        }
    accept("simd", "model=tiny-cnn;phase=forward;batch=64;type=f32;threads=all", team_of_three);
    accept("openblas", "model=tiny-cnn;phase=forward;batch=64;type=f32;threads=all", team_of_three);
}

/* ---- faults ---- */

typedef enum fault { WHOLE, SWAPPED, NOT_A_NUMBER, UNWRITTEN, OTHER_IMAGE, SHIFTED, SHORTCUT, BIAS, FAULTS } fault;

/* Runs the plain rung with something wrong in it; true where the logits are accepted all the same. */
static bool passes_with(fault what) {
    host_case t;
    trial_begin(&t, "naive", "model=tiny-cnn;phase=forward;batch=2;type=f32", team_of_one);
    as_cnn_cpu *c = network_of(&t);
    float *images = t.operand[1], *logits = t.operand[2];
    const int64_t image = as_cnn_inputs(&c->net.op[0]), last = t.work.rows * t.work.columns - 1;
    float *keep = malloc((size_t)(2 * image) * sizeof *keep);
    assert_non_null(keep);
    memcpy(keep, images, (size_t)(2 * image) * sizeof *keep);
    if (what == OTHER_IMAGE)
        memcpy(images, images + image, (size_t)image * sizeof *images);
    if (what == SHIFTED) /* by one pixel */
        memmove(images, images + 3, (size_t)(image - 3) * sizeof *images);
    if (what == SHORTCUT) /* of the first block: its second convolution adds it */
        c->net.op[3].add = AS_CNN_NOTHING;
    if (what == BIAS) /* of the head: the neighbour's */
        c->net.op[c->net.ops - 1].bias++;
    host_run(&t);
    memcpy(images, keep, (size_t)(2 * image) * sizeof *keep);
    free(keep);
    const float first = logits[0];
    if (what == SWAPPED)
        logits[0] = logits[last], logits[last] = first;
    if (what == NOT_A_NUMBER)
        logits[last / 2] = NAN;
    if (what == UNWRITTEN)
        memset(&logits[last], 0xFF, sizeof *logits);
    const bool passed = host_worst(&t) <= 1;
    host_end(&t);
    return passed;
}

static void faults_are_refused(void **state) {
    (void)state;
    assert_true(passes_with(WHOLE));
    for (int f = SWAPPED; f < FAULTS; f++)
        if (passes_with((fault)f))
            fail_msg("fault %d passed", f);
}

/* ---- images and layers ---- */

/* Each image of a batch alone gives, bit by bit, what it gives among the others. */
static void check_images(const char *variant, as_team *team) {
    host_case all, one;
    trial_begin(&all, variant, "model=tiny-cnn;phase=forward;batch=5;type=f32", team);
    host_run(&all);
    const size_t image = (size_t)as_cnn_inputs(&network_of(&all)->net.op[0]);
    for (size_t n = 0; n < 5; n++) {
        trial_begin(&one, variant, "model=tiny-cnn;phase=forward;type=f32", team);
        memcpy(one.operand[1], (float *)all.operand[1] + n * image, image * sizeof(float));
        host_run(&one);
        assert_memory_equal(one.operand[2], (float *)all.operand[2] + n * 10, 10 * sizeof(float));
        host_end(&one);
    }
    host_end(&all);
}

static void images_do_not_influence_one_another(void **state) {
    (void)state;
    as_isa_limit(AS_ISA_AVX512);
    check_images("naive", team_of_one);
    check_images("simd", team_of_one);
    check_images("simd", team_of_three);
}

typedef struct dump {
    float *values; /* of all operations, one after another */
    int64_t begin[AS_CNN_MOST_OPS + 1];
    int ops;
} dump;

static void take(void *context, const as_cnn_op *o, const as_cnn_tensor *out, int64_t batch) {
    dump *d = context;
    const int64_t row = (int64_t)o->out_side * o->out_channels;
    int64_t at = d->begin[d->ops];
    d->values = realloc(d->values, (size_t)(at + batch * as_cnn_outputs(o)) * sizeof *d->values);
    assert_non_null(d->values);
    for (int64_t n = 0; n < batch; n++)
        for (int y = 0; y < o->out_side; y++, at += row)
            memcpy(d->values + at, as_cnn_pixel(out, n, y, 0), (size_t)row * sizeof *d->values);
    d->begin[++d->ops] = at;
}

static dump dump_of(const char *variant, const char *axes, as_team *team) {
    host_case t;
    dump d = {0};
    trial_begin(&t, variant, axes, team);
    as_cnn_cpu *c = network_of(&t);
    c->tap = take;
    c->tap_context = &d;
    host_run(&t);
    host_end(&t);
    return d;
}

static double size_of(const float *v, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)v[i] * (double)v[i];
    return sqrt(sum / (double)n);
}

static void check_layers(const char *variant, const char *axes, as_team *team) {
    as_cnn_net n;
    const dump plain = dump_of("naive", axes, team_of_one), fast = dump_of(variant, axes, team);
    as_cnn_build(as_cnn_named("tiny-cnn"), &n);
    assert_int_equal(plain.ops, n.ops);
    assert_int_equal(fast.ops, n.ops);
    for (int i = 0; i < n.ops; i++) {
        const int64_t from = plain.begin[i], count = plain.begin[i + 1] - from;
        const double size = size_of(plain.values + from, count), most = as_cnn_tolerance(&n, AS_F32) * size;
        assert_int_equal(fast.begin[i], from);
        if (!(size > 0.125 && size < 8))
            fail_msg("activations of %s %d are of size %.3g", n.op[i].path, n.op[i].layer, size);
        for (int64_t k = from; k < from + count; k++)
            if (!(fabs((double)plain.values[k] - (double)fast.values[k]) <= most))
                fail_msg("%s: %s %d differs at %lld: %g and %g", variant, n.op[i].path, n.op[i].layer,
                         (long long)(k - from), (double)plain.values[k], (double)fast.values[k]);
    }
    free(plain.values);
    free(fast.values);
}

static void every_layer_agrees(void **state) {
    (void)state;
    for (int isa = AS_ISA_BASE; isa <= AS_ISA_AVX512; isa++) {
        as_isa_limit((as_isa)isa);
        check_layers("simd", "model=tiny-cnn;phase=forward;batch=3;type=f32", team_of_three);
    }
    check_layers("openblas", "model=tiny-cnn;phase=forward;batch=3;type=f32", team_of_three);
}

/* Weights are scaled so that neither depth nor shortcuts blow activations up or let them die. */
static void activations_of_resnet18_stay_near_one(void **state) {
    (void)state;
    as_cnn_net n;
    as_cnn_build(as_cnn_named("resnet18"), &n);
    dump d = dump_of("simd", "model=resnet18;phase=forward;type=f32;threads=all", team_of_three);
    assert_int_equal(d.ops, n.ops);
    for (int i = 0; i < n.ops; i++) {
        const double size = size_of(d.values + d.begin[i], d.begin[i + 1] - d.begin[i]);
        if (getenv("ASSAY_TEST_SHOW"))
            print_message("%-20s %2d: %.3f\n", n.op[i].path, n.op[i].layer, size);
        if (!(size > 0.125 && size < 8))
            fail_msg("activations of %s %d are of size %.3g", n.op[i].path, n.op[i].layer, size);
    }
    free(d.values);
}

/* ---- the arithmetic of the GPU's kernels ---- */

/* As the tensor-core kernel's copiers walk (cnn_mma.cuh): thread by thread, slab by slab, a piece of `elements` each. */
static void check_walk(const as_cnn_window *w, int threads, int tile, uint32_t elements, uint32_t first) {
    const uint32_t slab = 8 * elements;
    for (int t = 0; t < threads; t++)
        for (int i = 0; i < tile; i += threads / 8) {
            const uint32_t pixel = first + (uint32_t)(t / 8 + i);
            as_cnn_term term = {0, 0, 0};
            if (pixel >= w->pixels)
                continue;
            const as_cnn_where at = as_cnn_window_at(w, pixel);
            as_cnn_term_move(w, &term, (uint32_t)(t % 8) * elements);
            for (uint32_t k = (uint32_t)(t % 8) * elements; k < w->terms; k += slab) {
                assert_int_equal(term.k, k);
                assert_int_equal(term.row + term.column, k / w->run * w->gap + k % w->run);
                assert_int_equal((at.in + term.row + term.column) % elements, 0); /* 16 bytes, aligned */
                assert_true(term.column + elements <= w->run);
                as_cnn_term_move(w, &term, slab);
            }
        }
}

/* Every element of every window is the one that the formula names, and results tile their images. */
static void check_windows(const as_cnn_net *n, int op, int64_t batch) {
    const as_cnn_op *o = &n->op[op];
    const as_cnn_layout in = as_cnn_layout_of(n, o->from, o->in_side, o->in_channels),
                        out = as_cnn_layout_of(n, o->to, o->out_side, o->out_channels);
    const as_cnn_window w = as_cnn_window_of(o, batch, &in, &out);
    const int64_t all = batch * as_cnn_layout_image(&in) + AS_CNN_PIECE;
    uint32_t pixel = 0;
    for (int64_t image = 0; image < batch; image++)
        for (int y = 0; y < o->out_side; y++)
            for (int x = 0; x < o->out_side; x++, pixel++) {
                const as_cnn_where at = as_cnn_window_at(&w, pixel);
                assert_int_equal(at.out, image * as_cnn_layout_image(&out) + as_cnn_layout_at(&out, y, x));
                for (int row = 0; row < o->kernel; row++)
                    for (int column = 0; column<o->kernel; column += o->kernel - 1> 0 ? o->kernel - 1 : 1)
                        assert_int_equal(
                            at.in + (uint32_t)row * w.gap + (uint32_t)(column * in.pitch),
                            image * as_cnn_layout_image(&in) +
                                as_cnn_layout_at(&in, y * o->stride - o->pad + row, x * o->stride - o->pad + column));
                if (o->kind == AS_CNN_CONVOLVE)
                    assert_true(at.in + (uint32_t)(o->kernel - 1) * w.gap + w.run <= all);
            }
    assert_int_equal(pixel, w.pixels);
    for (uint32_t first = 0; o->kind == AS_CNN_CONVOLVE && first < w.pixels; first += w.pixels / 3 + 1) {
        check_walk(&w, 128, 128, 8, first);
        check_walk(&w, 128, 64, 4, first);
    }
}

static void windows_are_where_the_formula_says(void **state) {
    (void)state;
    for (const as_cnn *m = as_cnns; m->name; m++) {
        as_cnn_net n;
        as_cnn_build(m, &n);
        for (int i = 0; i < n.ops; i++)
            check_windows(&n, i, 2);
    }
}

/* ---- the breakdown ---- */

static void parts_add_up(void **state) {
    (void)state;
    enum { OPERATIONS = 9 };
    host_case t;
    as_parts *parts;
    as_error e;
    as_isa_limit(AS_ISA_AVX512);
    trial_begin(&t, "simd", "model=tiny-cnn;phase=forward;batch=4;type=f32", team_of_one);
    assert_int_equal(as_parts_create(&parts, &e), AS_OK);
    for (int i = 0; i < OPERATIONS; i++)
        assert_int_equal(t.variant->breakdown(&t.call, parts, &e), AS_OK);
    json_t *all = as_parts_json(parts), *row;
    const double operations = json_number_value(json_object_get(all, "operations"));
    double sum = 0, flops = 0;
    size_t i;
    json_array_foreach(json_object_get(all, "rows"), i, row) {
        if (!json_is_null(json_object_get(row, "layer")))
            continue;
        sum += json_number_value(json_object_get(row, "total_ns"));
        flops += json_number_value(json_object_get(row, "flops"));
    }
    const double instrumented = json_number_value(json_object_get(all, "instrumented_ns")) * operations;
    assert_true(sum > 0.95 * instrumented && sum <= instrumented * (1 + 1e-9));
    assert_true(fabs(flops - t.work.flops) <= 1e-9 * t.work.flops);
    json_decref(all);
    as_parts_free(parts);
    assert_true(host_worst(&t) <= 1); /* instruments change no value */
    host_end(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resnet18_is_as_published),
        cmocka_unit_test(operations_fit_together),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(the_largest_that_fits_is_named),
        cmocka_unit_test(rungs_match_the_reference),
        cmocka_unit_test(faults_are_refused),
        cmocka_unit_test(images_do_not_influence_one_another),
        cmocka_unit_test(every_layer_agrees),
        cmocka_unit_test(activations_of_resnet18_stay_near_one),
        cmocka_unit_test(windows_are_where_the_formula_says),
        cmocka_unit_test(parts_add_up),
    };
    return cmocka_run_group_tests_name("cnn", tests, host_open, host_close);
}
