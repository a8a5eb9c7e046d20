#include "host_case.h"
#include "place.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

as_device cpu;
as_team *team_of_one, *team_of_three;

int host_open(void **state) {
    (void)state;
    as_placement real, p;
    as_error e = {0};
    if (as_cpu_driver.open(0, &cpu, &e) != AS_OK || as_place_resolve(NULL, &real, &e) != AS_OK)
        goto failed;
    cpu.last_level_cache_bytes = 32 << 20; /* sizes that follow it are the same on every machine */
    p = real;
    p.cpus = HOST_TEAM;
    for (int k = 0; k < HOST_TEAM; k++)
        p.cpu[k] = real.cpu[k % real.cpus];
    if (as_team_create(&team_of_one, 1, &p, &e) == AS_OK && as_team_create(&team_of_three, HOST_TEAM, &p, &e) == AS_OK)
        return 0;
failed:
    fprintf(stderr, "%s\n", e.message);
    return -1;
}

int host_close(void **state) {
    (void)state;
    as_team_destroy(team_of_one);
    as_team_destroy(team_of_three);
    as_cpu_driver.close(&cpu);
    return 0;
}

const as_variant *case_variant(const as_suite *suite, const char *on, const char *name) {
    for (const as_variant *v = suite->variants; v->name; v++)
        if (strcmp(v->on, on) == 0 && strcmp(v->name, name) == 0)
            return v;
    fail_msg("no %s variant %s in %s", on, name, suite->name);
    return NULL;
}

const as_variant *host_variant(const as_suite *suite, const char *name) { return case_variant(suite, "cpu", name); }

as_params case_params(const as_suite *suite, const char *axes) {
    as_params p;
    as_error e = {0};
    char copy[256], *rest = copy;
    assert_int_equal(as_params_init(&p, suite->axes, suite->n_axes, &e), AS_OK);
    assert_in_range(snprintf(copy, sizeof copy, "%s", axes), 0, sizeof copy - 1);
    for (char *pair; (pair = strsep(&rest, ";"));) {
        if (!*pair)
            continue;
        char *value = strchr(pair, '=');
        assert_non_null(value);
        *value++ = '\0';
        if (as_params_set(&p, pair, value, &e) != AS_OK)
            fail_msg("%s", e.message);
    }
    return p;
}

static as_work work_of(const as_suite *suite, const as_variant *v, const as_params *p, const char *axes) {
    as_work w;
    as_error e = {0};
    if (suite->describe(p, v, &cpu, &w, &e) != AS_OK)
        fail_msg("%s/%s %s: %s", suite->name, v->name, axes, e.message);
    return w;
}

as_work host_work(const as_suite *suite, const char *variant, const char *axes) {
    const as_params p = case_params(suite, axes);
    return work_of(suite, host_variant(suite, variant), &p, axes);
}

static size_t bytes_of(const as_operand *o) { return (size_t)o->count * as_dtype_bytes(o->type); }

void host_begin(host_case *c, const as_suite *suite, const as_variant *v, const char *axes, as_team *team) {
    as_error e = {0};
    *c = (host_case){.suite = suite, .variant = v, .params = case_params(suite, axes)};
    c->work = work_of(suite, v, &c->params, axes);
    for (int i = 0; i < c->work.operands; i++) {
        const as_operand *o = &c->work.operand[i];
        c->operand[i] = aligned_alloc(4096, (bytes_of(o) + 4095) / 4096 * 4096 + 4096);
        assert_non_null(c->operand[i]);
        memset(c->operand[i], 0xFF, bytes_of(o)); /* a NaN in every float type */
        if (o->role == AS_IN)
            as_rng_fill(c->operand[i], o->type, o->dist, 0, (uint64_t)o->count, HOST_SEED, o->key);
    }
    c->call = (as_call){.params = &c->params, .operand = c->operand, .device = &cpu, .team = team, .extra = c->extra};
    if (c->work.check == AS_CHECK_EFFECT)
        c->call.counter = &c->counter;
    if (v->prepare && v->prepare(&c->call, &c->call.state, &e) != AS_OK)
        fail_msg("%s/%s %s: %s", suite->name, v->name, axes, e.message);
}

void host_run(host_case *c) {
    as_error e = {0};
    if (c->variant->run(&c->call, &e) != AS_OK)
        fail_msg("%s/%s: %s", c->suite->name, c->variant->name, e.message);
}

void host_end(host_case *c) {
    if (c->variant->finish)
        c->variant->finish(c->call.state);
    for (int i = 0; i < c->work.operands; i++)
        free(c->operand[i]);
}

void *host_output(const host_case *c) { return c->operand[c->work.operands - 1]; }

double case_element(as_dtype type, const void *data, int64_t i) {
    switch (type) {
    case AS_F32: return (double)((const float *)data)[i];
    case AS_F64: return ((const double *)data)[i];
    case AS_U32: return (double)((const uint32_t *)data)[i];
    case AS_I32: return (double)((const int32_t *)data)[i];
    case AS_BF16: return (double)as_bf16_to_f32(((const uint16_t *)data)[i]);
    case AS_F16: return (double)as_f16_to_f32(((const uint16_t *)data)[i]);
    default: fail_msg("outputs of type %s are not read here", as_dtype_name(type));
    }
    return NAN;
}

/* Each element's error as a share of its tolerance: the largest, infinite for a NaN; and how many are above 1. */
static double worst_of(const host_case *c, int64_t *wrong) {
    const as_work *w = &c->work;
    const size_t count = (size_t)(w->rows * w->columns);
    double *expected = malloc(count * sizeof *expected), *scale = malloc(count * sizeof *scale), worst = 0;
    int64_t *rows = malloc((size_t)w->rows * sizeof *rows);
    const void *input[AS_MAX_OPERANDS] = {0};
    as_error e = {0};
    assert_true(expected && scale && rows);
    for (int64_t i = 0; i < w->rows; i++)
        rows[i] = i;
    for (int i = 0; i < w->operands; i++)
        input[i] = w->operand[i].role == AS_IN ? c->operand[i] : NULL;
    const as_reference r = {.params = &c->params,
                            .work = w,
                            .input = input,
                            .rows = rows,
                            .n_rows = w->rows,
                            .expected = expected,
                            .scale = scale,
                            .output = w->follows_output ? host_output(c) : NULL};
    if (c->suite->reference(&r, &e) != AS_OK)
        fail_msg("%s/%s: %s", c->suite->name, c->variant->name, e.message);
    *wrong = 0;
    for (size_t i = 0; i < count; i++) {
        const double got = case_element(w->operand[w->operands - 1].type, host_output(c), (int64_t)i);
        const double share = fabs(got - expected[i]) / (w->tolerance * scale[i]);
        *wrong += !(share <= 1);
        if (!(share <= worst))
            worst = isnan(share) ? INFINITY : share;
    }
    free(expected);
    free(scale);
    free(rows);
    return worst;
}

double host_worst(const host_case *c) {
    int64_t ignored;
    return worst_of(c, &ignored);
}

int64_t host_wrong(const host_case *c) {
    int64_t wrong;
    worst_of(c, &wrong);
    return wrong;
}

static bool good(const host_case *c) {
    switch (c->work.check) {
    case AS_CHECK_REFERENCE: return host_wrong(c) == 0;
    case AS_CHECK_COPY: return memcmp(c->operand[0], host_output(c), bytes_of(&c->work.operand[0])) == 0;
    case AS_CHECK_EFFECT: return (int64_t)c->counter == c->work.expected_count;
    case AS_CHECK_EXIT: break;
    }
    return false;
}

bool host_accepts(const as_suite *suite, const as_variant *v, const char *axes, as_team *team) {
    host_case c;
    host_begin(&c, suite, v, axes, team);
    host_run(&c);
    const bool accepted = good(&c);
    host_end(&c);
    return accepted;
}

void host_accept(const as_suite *suite, const char *variant, const char *axes, as_team *team) {
    if (!host_accepts(suite, host_variant(suite, variant), axes, team))
        fail_msg("%s/%s refused at %s with %d threads", suite->name, variant, axes, as_team_size(team));
}
