#include "params.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

as_status as_parse_int(const char *text, int64_t min, int64_t max, int64_t *out, as_error *e) {
    if (!text || !*text)
        return as_fail(e, AS_EUSAGE, "a number is missing; give a whole number from %lld to %lld", (long long)min,
                       (long long)max);
    uint64_t value = 0;
    for (const char *c = text; *c; c++) {
        if (*c < '0' || *c > '9')
            return as_fail(e, AS_EUSAGE, "'%.40s' is not a number; give a whole number from %lld to %lld", text,
                           (long long)min, (long long)max);
        unsigned digit = (unsigned)(*c - '0');
        if (value > ((uint64_t)INT64_MAX - digit) / 10)
            return as_fail(e, AS_EUSAGE, "'%.40s' is too large; at most %lld", text, (long long)max);
        value = value * 10 + digit;
    }
    if ((int64_t)value < min || (int64_t)value > max)
        return as_fail(e, AS_EUSAGE, "'%.40s' is out of range; give a whole number from %lld to %lld", text,
                       (long long)min, (long long)max);
    *out = (int64_t)value;
    return AS_OK;
}

static as_status set_value(as_param *p, const char *text, as_error *e) {
    const as_axis *axis = p->axis;
    if (strlen(text) >= sizeof p->text)
        return as_fail(e, AS_EUSAGE, "axis %s: the value is longer than %zu characters", axis->name,
                       sizeof p->text - 1);
    if (axis->integer && !(axis->all && strcmp(text, "all") == 0)) {
        as_error detail;
        if (as_parse_int(text, 0, INT64_MAX, &p->number, &detail) != AS_OK)
            return as_fail(e, AS_EUSAGE, "axis %s: %s", axis->name, detail.message);
        snprintf(p->text, sizeof p->text, "%lld", (long long)p->number);
        return AS_OK;
    }
    /* Ids are split at '/' and ':' by people and tools; a value must not contain them, nor blanks or quotes. */
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c <= ' ' || strchr("/:,;=\"'\\", *c) || (unsigned char)*c >= 127)
            return as_fail(e, AS_EUSAGE, "axis %s: '%s' holds a character that ids cannot carry", axis->name, text);
    snprintf(p->text, sizeof p->text, "%s", text);
    p->number = -1;
    return AS_OK;
}

as_status as_params_init(as_params *p, const as_axis *axes, int n_axes, as_error *e) {
    memset(p, 0, sizeof *p);
    assert(n_axes <= AS_MAX_AXES);
    for (int i = 0; i < n_axes; i++) {
        p->value[i].axis = &axes[i];
        AS_TRY(set_value(&p->value[i], axes[i].fallback, e));
    }
    p->count = n_axes;
    return AS_OK;
}

static const as_param *find(const as_params *p, const char *name) {
    for (int i = 0; i < p->count; i++)
        if (strcmp(p->value[i].axis->name, name) == 0)
            return &p->value[i];
    return NULL;
}

as_status as_params_set(as_params *p, const char *name, const char *text, as_error *e) {
    as_param *v = (as_param *)find(p, name);
    if (!v) {
        char known[256] = "";
        for (int i = 0; i < p->count; i++) {
            size_t used = strlen(known);
            snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", p->value[i].axis->name);
        }
        return as_fail(e, AS_EUSAGE, "there is no axis '%s'; this suite has %s", name, known);
    }
    return set_value(v, text, e);
}

int64_t as_params_int(const as_params *p, const char *name) {
    const as_param *v = find(p, name);
    assert(v && v->axis->integer);
    return v->number;
}

const char *as_params_text(const as_params *p, const char *name) {
    const as_param *v = find(p, name);
    assert(v);
    return v->text;
}

bool as_params_has(const as_params *p, const char *name) { return find(p, name) != NULL; }

bool as_param_is_default(const as_param *v) { return strcmp(v->text, v->axis->fallback) == 0; }

/* Appends "a b c" without blanks at n; what does not fit is counted and not written. */
static size_t append(char out[AS_ID_MAX], size_t n, const char *a, const char *b, const char *c) {
    const size_t at = n < AS_ID_MAX ? n : AS_ID_MAX - 1;
    return n + (size_t)snprintf(out + at, AS_ID_MAX - at, "%s%s%s", a, b, c);
}

size_t as_case_id(char out[AS_ID_MAX], const char *suite, const char *variant, const as_params *p, const char *device) {
    size_t n = append(out, 0, suite, "/", variant);
    for (int i = 0; i < p->count; i++)
        if (!as_param_is_default(&p->value[i])) {
            n = append(out, n, "/", p->value[i].axis->name, ":");
            n = append(out, n, p->value[i].text, "", "");
        }
    return append(out, n, "/dev:", device, "");
}
