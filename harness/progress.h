/* Progress for people: a bar with the time left on a terminal, plain lines when piped, nothing with --quiet. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct as_progress {
    bool enabled, terminal;
    int64_t begin_ns, budget_ns, drawn_ns;
    int total, done;
} as_progress;

void as_progress_init(as_progress *p, bool enabled, int total, int64_t budget_ns);
/* What is going on: "measure matmul/tiled/n:256/dev:cpu" with the median so far (0: none yet). Redraws a terminal's
 * line at most 10 times a second. */
void as_progress_step(as_progress *p, const char *stage, const char *id, double median_ns);
/* A case is finished: one line, above the bar. */
void as_progress_case(as_progress *p, const char *id, const char *status, double median_ns, double half_width,
                      const char *reason);
void as_progress_note(as_progress *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void as_progress_end(as_progress *p);

/* "1.23 us", right-aligned units for tables; NaN or 0 gives "-". Always with '.' as the decimal mark. */
void as_format_time(char out[32], double ns);
/* "55.3 GB/s", "50.2 TFLOP/s" ... for unit "bytes_per_s", "flops_per_s"; other units are printed as they are. */
void as_format_rate(char out[32], double value, const char *unit);
