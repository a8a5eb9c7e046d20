#include "status.h"

#include <stdarg.h>
#include <stdio.h>

as_status as_fail_at(as_error *e, as_status s, const char *file, int line, int code, const char *fmt, ...) {
    if (e) {
        e->status = s;
        e->file = file;
        e->line = line;
        e->code = code;
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(e->message, sizeof e->message, fmt, ap);
        va_end(ap);
        for (char *c = e->message; *c; c++) /* a message is one line, whatever name it quotes */
            if ((unsigned char)*c < ' ')
                *c = '?';
    }
    return s;
}

int as_exit_code(as_status s) {
    switch (s) {
    case AS_OK: return 0;
    case AS_EUSAGE: return 2;
    case AS_EENV:
    case AS_EABSENT:
    case AS_ENOMEM: return 3;
    case AS_EFAIL:
    case AS_ELOST:
    case AS_EINTR: return 1;
    }
    return 1;
}

const char *as_status_name(as_status s) {
    switch (s) {
    case AS_OK: return "ok";
    case AS_EFAIL: return "failed";
    case AS_EUSAGE: return "usage";
    case AS_EENV: return "environment";
    case AS_EABSENT: return "absent";
    case AS_ENOMEM: return "out of memory";
    case AS_ELOST: return "lost";
    case AS_EINTR: return "interrupted";
    }
    return "unknown";
}
