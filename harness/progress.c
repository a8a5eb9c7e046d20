#include "progress.h"
#include "process.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

void as_progress_init(as_progress *p, bool enabled, int total, int64_t budget_ns) {
    *p = (as_progress){.enabled = enabled,
                       .terminal = isatty(STDERR_FILENO) == 1,
                       .begin_ns = as_now_ns(),
                       .budget_ns = budget_ns,
                       .total = total};
}

static void scaled(char out[32], double value, const char *const *units, int n, double step) {
    int i = 0;
    while (i < n - 1 && fabs(value) >= 999.5) {
        value /= step;
        i++;
    }
    const int decimals = fabs(value) < 9.995 ? 2 : fabs(value) < 99.95 ? 1 : 0;
    snprintf(out, 32, "%.*f %s", decimals, value, units[i]);
}

void as_format_time(char out[32], double ns) {
    static const char *const units[] = {"ns", "us", "ms", "s"};
    if (isfinite(ns) && ns > 0)
        scaled(out, ns, units, 4, 1000);
    else
        snprintf(out, 32, "-");
}

void as_format_rate(char out[32], double value, const char *unit) {
    static const char *const bytes[] = {"B/s", "KB/s", "MB/s", "GB/s", "TB/s"};
    static const char *const flops[] = {"FLOP/s", "KFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s"};
    if (!isfinite(value))
        snprintf(out, 32, "-");
    else if (strcmp(unit, "bytes_per_s") == 0)
        scaled(out, value, bytes, 5, 1000);
    else if (strcmp(unit, "flops_per_s") == 0)
        scaled(out, value, flops, 6, 1000);
    else if (strcmp(unit, "ns") == 0)
        as_format_time(out, value);
    else
        snprintf(out, 32, "%.3g %s", value, unit);
}

static void clear_line(const as_progress *p) {
    if (p->terminal)
        fputs("\r\033[K", stderr);
}

void as_progress_step(as_progress *p, const char *stage, const char *id, double median_ns) {
    const int64_t now = as_now_ns();
    if (!p->enabled || !p->terminal || now - p->drawn_ns < 100000000)
        return;
    p->drawn_ns = now;
    struct winsize size = {0};
    const int width = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 40 ? size.ws_col : 80;
    const double elapsed = (double)(now - p->begin_ns), budget = (double)p->budget_ns;
    const int cells = 20,
              full = (int)(cells * fmin(1, fmax(elapsed / budget, p->total ? (double)p->done / p->total : 0)));
    char bar[32], median[32], line[512];
    for (int i = 0; i < cells; i++)
        bar[i] = i < full ? '#' : '.';
    bar[cells] = '\0';
    as_format_time(median, median_ns);
    snprintf(line, sizeof line, "[%s] %d/%d  at most %.0f s left  %s %s  %s", bar, p->done, p->total,
             fmax(0, (budget - elapsed) * 1e-9), stage, id, median_ns > 0 ? median : "");
    fprintf(stderr, "\r\033[K%.*s", width - 1, line);
    fflush(stderr);
}

void as_progress_case(as_progress *p, const char *id, const char *status, double median_ns, double half_width,
                      const char *reason) {
    p->done++;
    if (!p->enabled)
        return;
    char median[32], spread[32] = "";
    as_format_time(median, median_ns);
    if (isfinite(half_width))
        snprintf(spread, sizeof spread, "+-%4.1f%%", half_width * 100);
    clear_line(p);
    fprintf(stderr, "[%3d/%d] %-58s %-8s %10s %s%s%s\n", p->done, p->total, id, status, median, spread,
            reason && *reason ? "  " : "", reason ? reason : "");
}

void as_progress_note(as_progress *p, const char *format, ...) {
    if (!p->enabled)
        return;
    clear_line(p);
    va_list ap;
    va_start(ap, format);
    vfprintf(stderr, format, ap);
    va_end(ap);
    fputc('\n', stderr);
}

void as_progress_end(as_progress *p) {
    if (p->enabled)
        clear_line(p);
}
