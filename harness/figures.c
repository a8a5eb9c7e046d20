/* Figures derived from the samples: formulas in docs/method.md. */
#include "record.h"

#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static as_interval interval_of(const as_run_state *s, int c, const char **scope) {
    const as_outcome *o = &s->outcome[c];
    *scope = "within-launch";
    double *units = malloc(sizeof *units * (size_t)(o->n_rounds + 1));
    if (!units || o->n_rounds == 0) {
        free(units);
        return (as_interval){NAN, NAN, NAN, NAN, 0};
    }
    const size_t n = as_outcome_units(o, &s->plan->rule, units, scope);
    const as_interval i = as_stats_interval(units, n, s->plan->rule.confidence);
    free(units);
    return i;
}

/* Median of the fastest round: a disturbance only ever slows a ceiling down, so the fastest of its rounds says most of
 * what the machine can do; its cases keep the mean of theirs. */
static double fastest_round(const as_outcome *o) {
    double best = NAN;
    for (int i = 0; i < o->n_rounds; i++)
        best = o->median_ns[i] < best || isnan(best) ? o->median_ns[i] : best;
    return best;
}

/* Highest rate among the ceilings that serve one bound, with its upper end. Rate: amount per ns. */
static double best_rate(const as_run_state *s, const int *refs, int *which, double *high) {
    double best = NAN;
    *which = -1;
    for (int r = 0; r < AS_MAX_CEILING_REFS && refs[r] >= 0; r++) {
        const char *scope;
        if (s->outcome[refs[r]].status != AS_DONE)
            continue;
        const double amount = s->plan->cases[refs[r]].work.bound[0].amount,
                     rate = amount / fastest_round(&s->outcome[refs[r]]);
        if (isfinite(rate) && !(rate <= best)) {
            const as_interval t = interval_of(s, refs[r], &scope);
            best = rate;
            *which = refs[r];
            *high = isfinite(t.low) && t.low > 0 ? fmax(rate, amount / t.low) : rate;
        }
    }
    return best;
}

/* A part of the ceilings that serve a case would be too low a limit: all of them were measured, or it has none. */
static bool ceiling_dropped(const as_run_state *s, const as_case *k) {
    for (int b = 0; b < k->work.bounds; b++)
        for (int r = 0; r < AS_MAX_CEILING_REFS && k->ceiling_of[b][r] >= 0; r++)
            if (s->plan->cases[k->ceiling_of[b][r]].drop_reason)
                return true;
    return false;
}

double as_case_ceiling_rate(const as_run_state *s, int c, int b, int *which) {
    double high;
    if (s->plan->cases[c].ceiling || !s->plan->options->ceilings || ceiling_dropped(s, &s->plan->cases[c])) {
        *which = -1;
        return NAN;
    }
    return best_rate(s, s->plan->cases[c].ceiling_of[b], which, &high);
}

/* Floor: time spent by construction plus the longest of amount / ceiling over the bounds. */
static void judge_ceiling(const as_run_state *s, int c, as_figures *f) {
    const as_case *k = &s->plan->cases[c];
    double longest = NAN, high_rate_floor = NAN;
    f->ceiling = -1;
    for (int b = 0; b < k->work.bounds; b++) {
        int which;
        double high = NAN;
        const double rate = best_rate(s, k->ceiling_of[b], &which, &high), floor = k->work.bound[b].amount / rate;
        if (isfinite(floor) && !(floor <= longest)) {
            longest = floor;
            high_rate_floor = k->work.bound[b].amount / high;
            f->ceiling = which;
            f->limit = k->work.bound[b].ceiling;
        }
    }
    f->fraction = f->floor_ns = NAN;
    if (s->outcome[c].status != AS_DONE)
        f->no_ceiling = "the case has no valid time";
    else if (k->ceiling)
        f->no_ceiling = "is a ceiling itself";
    else if (k->work.no_ceiling && k->work.bounds == 0)
        f->no_ceiling = k->work.no_ceiling;
    else if (!s->plan->options->ceilings)
        f->no_ceiling = "ceilings were switched off";
    else if (ceiling_dropped(s, k))
        f->no_ceiling = "a ceiling that it needs was not measured: its entry in `ceilings` says why";
    else if (k->work.bounds > 0 && !isfinite(longest))
        f->no_ceiling = "its ceiling was not measured";
    if (f->no_ceiling)
        return;
    if (k->work.bounds == 0) /* a spin of known length is its own limit */
        longest = high_rate_floor = 0;
    f->floor_ns = k->work.fixed_ns + longest;
    f->fraction = f->floor_ns / f->time.value;
    f->above_limit = isfinite(f->time.high) && f->time.high < k->work.fixed_ns + high_rate_floor;
    if (f->ceiling >= 0) {
        const as_figures limit = as_case_figures(s, f->ceiling); /* a ceiling has none itself: one step down, no more */
        f->ceiling_suspect = strcmp(as_case_validity(s, f->ceiling, &limit, NULL), "valid") != 0;
    }
}

as_figures as_case_figures(const as_run_state *s, int c) {
    const as_work *w = &s->plan->cases[c].work;
    as_figures f = {.ceiling = -1};
    f.time = interval_of(s, c, &f.scope);
    f.fastest_ns = fastest_round(&s->outcome[c]);
    const double ns = f.time.value, bytes = w->bytes_read + w->bytes_written;
    f.flop_rate = w->flops > 0 ? w->flops / ns * 1e9 : NAN;
    f.bandwidth = bytes > 0 ? bytes / ns * 1e9 : NAN;
    f.per_item_ns = w->items > 0 ? ns / w->items : NAN;
    f.converged = f.time.units >= s->plan->rule.min_units && f.time.relative_half_width <= s->plan->rule.target;
    judge_ceiling(s, c, &f);
    return f;
}

as_advice as_variance_advice(const as_outcome *o) {
    const as_components x = as_outcome_round_components(o);
    if (!(x.launch.degrees_of_freedom > 0))
        return AS_ADVICE_ONE_LAUNCH;
    /* Shares in the variance of the estimate: one of the launches, one of all rounds. */
    const double between = x.launch.variance / (x.launch.degrees_of_freedom + 1),
                 within = x.round.degrees_of_freedom > 0 ? x.round.variance / o->n_rounds : 0;
    return between > within ? AS_ADVICE_LAUNCHES_DIFFER : AS_ADVICE_NONE;
}

/* ---- validity ---- */

static void add(json_t *reasons, bool *any, const char *text) {
    *any = true;
    if (reasons)
        json_array_append_new(reasons, json_string(text));
}

/* The first number of a flag, at a word's beginning ("L1" holds none); NULL without one. */
static const char *first_number(const char *text) {
    for (const char *c = text; *c; c++)
        if (*c >= '0' && *c <= '9' && (c == text || !isalnum((unsigned char)c[-1])))
            return c;
    return NULL;
}

/* What a flag says without its values: flags that differ in these alone are one reason. */
static void without_numbers(const char *text, char *out, size_t size) {
    size_t n = 0;
    for (const char *c = text; *c && n + 1 < size; c++) {
        const bool digit = *c >= '0' && *c <= '9';
        if (!digit && !(*c == '.' && n > 0 && out[n - 1] == '#'))
            out[n++] = *c;
        else if (n == 0 || out[n - 1] != '#')
            out[n++] = '#';
    }
    out[n] = '\0';
}

/* {key: {n, text, differ}}: counts a flag; `text` is the one with the largest first number. */
static void count_flag(json_t *groups, const char *text) {
    char key[300];
    without_numbers(text, key, sizeof key);
    json_t *group = json_object_get(groups, key);
    if (!group) {
        json_object_set_new(groups, key, json_pack("{s:i, s:s, s:b}", "n", 1, "text", text, "differ", 0));
        return;
    }
    const char *have = json_string_value(json_object_get(group, "text"));
    const char *a = first_number(text), *b = first_number(have);
    json_object_set_new(group, "n", json_integer(1 + json_integer_value(json_object_get(group, "n"))));
    if (strcmp(text, have) != 0)
        json_object_set_new(group, "differ", json_true());
    if (a && b && strtod(a, NULL) > strtod(b, NULL))
        json_object_set_new(group, "text", json_string(text));
}

/* Each kind of flag that stood on at least one round, once, with its largest value and the number of rounds. */
static void add_flags(const as_outcome *o, json_t *reasons, bool *any) {
    json_t *groups = json_object(), *round, *flag, *group;
    size_t i, j;
    json_array_foreach(o->rounds, i, round) json_array_foreach(json_object_get(round, "flags"), j, flag)
        count_flag(groups, json_string_value(flag));
    const char *key;
    json_object_foreach(groups, key, group) {
        const char *flag_text = json_string_value(json_object_get(group, "text")), *number = first_number(flag_text);
        const int before = number && json_is_true(json_object_get(group, "differ")) ? (int)(number - flag_text) : 0;
        char text[300];
        snprintf(text, sizeof text, "%.*s%s%.200s (%lld of %d rounds)", before, flag_text, before ? "up to " : "",
                 flag_text + before, (long long)json_integer_value(json_object_get(group, "n")), o->n_rounds);
        add(reasons, any, text);
    }
    json_decref(groups);
}

/* The samples of all rounds against Google Benchmark's totals of the same rounds: within 1% and the clock's cost. */
static bool timers_disagree(const as_run_state *s, const as_outcome *o, double *ours, double *theirs) {
    size_t i, j, n = 0;
    json_t *round, *v;
    *ours = *theirs = 0;
    json_array_foreach(o->time, i, round) {
        const json_t *row = json_array_get(o->rows, i);
        json_array_foreach(round, j, v) *ours += (double)json_integer_value(v);
        n += json_array_size(round);
        *theirs += json_number_value(json_object_get(row, "real_time")) *
                   json_number_value(json_object_get(row, "iterations"));
    }
    const double slack = (double)n * (4 * s->clock_cost_ns + 20);
    return fabs(*theirs - *ours) > 0.01 * *ours + slack;
}

const char *as_case_validity(const as_run_state *s, int c, const as_figures *f, json_t *reasons) {
    const as_outcome *o = &s->outcome[c];
    bool invalid = false, suspect = false;
    char text[300];
    if (o->status != AS_DONE) {
        add(reasons, &invalid, o->reason[0] ? o->reason : as_case_status_name(o->status));
        return "invalid";
    }
    if (o->n_rounds > 0 && !f->converged) {
        if (f->time.units < s->plan->rule.min_units)
            snprintf(text, sizeof text, "not converged: %zu units, at least %zu are needed", f->time.units,
                     s->plan->rule.min_units);
        else
            snprintf(text, sizeof text, "not converged: +-%.1f%%, target %.0f%%", f->time.relative_half_width * 100,
                     s->plan->rule.target * 100);
        add(reasons, &suspect, text);
    }
    double ours, theirs;
    if (o->n_rounds > 0 && timers_disagree(s, o, &ours, &theirs)) {
        snprintf(text, sizeof text, "timers disagree: samples %.0f ns, Google Benchmark %.0f ns", ours, theirs);
        add(reasons, &suspect, text);
    }
    const double sample_ns = o->n_rounds ? f->time.value * (double)o->batch : INFINITY;
    if (!o->host && sample_ns < 100 * s->clock_cost_ns) {
        snprintf(text, sizeof text, "timer too coarse: a reading costs %.0f ns, a sample lasts %.0f ns",
                 s->clock_cost_ns, sample_ns);
        add(reasons, &suspect, text);
    }
    if (f->above_limit) {
        snprintf(text, sizeof text, "above its limit: %.0f%% of %s; the ceiling or the byte count is wrong",
                 f->fraction * 100, f->limit ? f->limit : "the time that it spends by construction");
        add(reasons, &suspect, text);
    }
    if (o->n_rounds > 0 && strcmp(o->after_timing, "passed") != 0)
        add(reasons, &suspect, "output not checked after timing");
    add_flags(o, reasons, &suspect);
    return suspect ? "suspect" : "valid";
}
