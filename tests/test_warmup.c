/* The warm-up rule on synthetic series: what it says after n blocks, and where a warm-up that looks after every block
 * ends: too early (false settle) or not at all (never settled). docs/method.md quotes the rates that this prints. */
#include "rng.h"
#include "stats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>
#include <math.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static double uniform_open(as_rng *r) {
    return ((double)as_rng_below(r, (uint64_t)1 << 53) + 0.5) / 9007199254740992.0;
}
static double normal(as_rng *r) {
    const double radius = sqrt(-2.0 * log(uniform_open(r)));
    return radius * cos(6.283185307179586 * uniform_open(r));
}

/* Block i of a series, in ns. `truth` is what it would be without noise and passing disturbances. */
typedef enum { CONSTANT, NOISY, RAMP, SHORT_RAMP, DRIFT, FAST_DRIFT, TWO_STATES, HEAVY_TAIL, PERIODIC } series_kind;
static const char *const names[] = {"constant",   "noise",      "ramp",       "short ramp", "drift",
                                    "fast drift", "two states", "heavy tail", "periodic"};
enum { SWITCH = 7, LONG_SWITCH = 20 };

static double truth(series_kind kind, int i, int at) {
    switch (kind) {
    case RAMP: return 1000 * (1 + 2 * exp(-i / 10.0)); /* clocks rise: 3000 falls towards 1000 */
    case SHORT_RAMP: return 1000 * (1 + 2 * exp(-i));  /* over after 4 blocks */
    case DRIFT: return 1000 * (1 + 0.01 * i);          /* heats up for ever, 1% a block */
    case FAST_DRIFT: return 1000 * (1 + 0.02 * i);
    case TWO_STATES: return i < at ? 1300 : 1000; /* the clock steps up once */
    default: return 1000;
    }
}

static double block(series_kind kind, int i, int at, double noise, as_rng *r) {
    double x = truth(kind, i, at) * (1 + noise * normal(r));
    if (kind == HEAVY_TAIL && as_rng_below(r, 8) == 0)
        x *= 1 + 3 * uniform_open(r);
    if (kind == PERIODIC)
        x *= 1 + 0.10 * sin(6.283185307179586 * i / 4); /* a period of 4 blocks */
    return x;
}

/* ---- the rule at one length ---- */

static double warm_share(series_kind kind, int n, double noise) {
    enum { SERIES = 400, MOST = 200 };
    int warm = 0;
    for (uint64_t s = 0; s < SERIES; s++) {
        as_rng r = {.seed = s, .key = 5};
        double x[MOST];
        for (int i = 0; i < n; i++)
            x[i] = block(kind, i, LONG_SWITCH, noise, &r);
        warm += as_stats_warm(x, (size_t)n, 0.02);
    }
    return (double)warm / SERIES;
}

static void what_it_says_after_n_blocks(void **unused) {
    (void)unused;
    static const struct {
        series_kind kind;
        int n;
        double noise, least, most;
    } c[] = {
        {CONSTANT, 8, 0, 1, 1},           {CONSTANT, 200, 0, 1, 1},         {NOISY, 12, 0.005, 0.99, 1},
        {NOISY, 12, 0.10, 0.85, 1},       {NOISY, 100, 0.10, 0.85, 1},      {RAMP, 8, 0.005, 0, 0.01},
        {RAMP, 12, 0.005, 0, 0},          {RAMP, 30, 0.005, 0, 0},          {RAMP, 120, 0.005, 0.99, 1},
        {DRIFT, 12, 0.005, 0, 0.01},      {DRIFT, 60, 0.005, 0, 0},         {DRIFT, 200, 0.005, 0, 0},
        {TWO_STATES, 20, 0.005, 0.99, 1}, {TWO_STATES, 25, 0.005, 0, 0.01}, {TWO_STATES, 28, 0.005, 0, 0.01},
        {TWO_STATES, 60, 0.005, 0.99, 1}, {HEAVY_TAIL, 12, 0.005, 0.95, 1}, {HEAVY_TAIL, 100, 0.005, 0.95, 1},
        {PERIODIC, 12, 0.005, 0.95, 1},   {PERIODIC, 100, 0.005, 0.95, 1},
    };
    for (size_t i = 0; i < COUNT(c); i++) {
        const double share = warm_share(c[i].kind, c[i].n, c[i].noise);
        if (share < c[i].least || share > c[i].most)
            fail_msg("%s after %d blocks, noise %g: warm in %.3f", names[c[i].kind], c[i].n, c[i].noise, share);
    }
    const double few[7] = {1, 1, 1, 1, 1, 1, 1}, bad[8] = {1, 1, 1, NAN, 1, 1, 1, 1},
                 zero[8] = {1, 1, 1, 0, 1, 1, 1, 1};
    assert_false(as_stats_warm(few, 7, 0.02) || as_stats_warm(NULL, 0, 0.02));
    assert_false(as_stats_warm(bad, 8, 0.02) || as_stats_warm(zero, 8, 0.02));
}

/* ---- a warm-up: a look after every block ---- */

typedef struct ending {
    double false_settle; /* share that ended while the next 16 blocks still change by more than 10% */
    double never;        /* share that did not end within the 16 blocks that the limit holds */
    double blocks;       /* mean length */
} ending;

static ending warm_up(series_kind kind, double noise) {
    enum { SERIES = 2000, LIMIT = 16, AHEAD = 16 };
    static const double tolerance = 0.05; /* measure.c's */
    ending e = {0};
    for (uint64_t s = 0; s < SERIES; s++) {
        as_rng r = {.seed = s, .key = 6};
        const int at = 1 + (int)as_rng_below(&r, SWITCH); /* the step comes before the first look */
        double x[LIMIT];
        int n = 0;
        bool warm = false;
        while (n < LIMIT && !warm) {
            x[n] = block(kind, n, at, noise, &r);
            n++;
            warm = as_stats_warm(x, (size_t)n, tolerance);
        }
        const double now = truth(kind, n - 1, at), later = truth(kind, n - 1 + AHEAD, at);
        e.false_settle += warm && fabs(later - now) > 2 * tolerance * later;
        e.never += !warm;
        e.blocks += n;
    }
    e.false_settle /= SERIES;
    e.never /= SERIES;
    e.blocks /= SERIES;
    return e;
}

static void where_a_warm_up_ends(void **unused) {
    (void)unused;
    static const struct {
        series_kind kind;
        double noise, most_false, least_never, most_never;
    } c[] = {
        {CONSTANT, 0, 0, 0, 0},
        {NOISY, 0.01, 0, 0, 0},
        {NOISY, 0.10, 0, 0, 0.01},      /* noise alone keeps nobody */
        {SHORT_RAMP, 0.01, 0, 0, 0.05}, /* over in time: it ends, and not before */
        {SHORT_RAMP, 0.05, 0, 0, 0.08}, /* 12 blocks still hold it in the median of slopes: late, not early */
        {RAMP, 0.01, 0, 1, 1},          /* longer than the limit: it must not end */
        {RAMP, 0.05, 0.005, 0.99, 1},
        {FAST_DRIFT, 0.01, 0.001, 0.99, 1},
        {DRIFT, 0.01, 0.12, 0.88, 1}, /* 7% over the first look's window: near the tolerance */
        {TWO_STATES, 0.01, 0.001, 0, 0.05},
        {TWO_STATES, 0.05, 0.005, 0, 0.10},
        {HEAVY_TAIL, 0.01, 0, 0, 0.01},
        {PERIODIC, 0.01, 0, 0, 0.01},
    };
    for (size_t i = 0; i < COUNT(c); i++) {
        const ending e = warm_up(c[i].kind, c[i].noise);
        print_message("%-10s noise %3.0f%%: false settle %5.2f%%, not settled %6.2f%%, %4.1f blocks\n",
                      names[c[i].kind], 100 * c[i].noise, 100 * e.false_settle, 100 * e.never, e.blocks);
        assert_true(e.false_settle <= c[i].most_false);
        assert_true(e.never >= c[i].least_never && e.never <= c[i].most_never);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_it_says_after_n_blocks),
        cmocka_unit_test(where_a_warm_up_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
