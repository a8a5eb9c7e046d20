/* libnvidia-ml.so.1 of the tests: one healthy GPU at 0000:65:00.0. FAKE_NVML=broken does not start; =old lacks every
 * answer that came late or that cards may refuse. Signatures as in NVML's public interface. */
#include <stdlib.h>
#include <string.h>

enum { OK = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, BROKEN = 999 };
static int a_device;

static int is(const char *word) {
    const char *set = getenv("FAKE_NVML");
    return set && strcmp(set, word) == 0;
}

#define ANSWER(name, type, value)                                                                                      \
    int name(void *d, type *out);                                                                                      \
    int name(void *d, type *out) {                                                                                     \
        if (d != &a_device || is("old"))                                                                               \
            return NOT_SUPPORTED;                                                                                      \
        *out = (value);                                                                                                \
        return OK;                                                                                                     \
    }
#define SELECT(name, first, second)                                                                                    \
    int name(void *d, int which, unsigned *out);                                                                       \
    int name(void *d, int which, unsigned *out) {                                                                      \
        if (d != &a_device || is("old"))                                                                               \
            return NOT_SUPPORTED;                                                                                      \
        *out = which == 1 ? (first) : (second);                                                                        \
        return OK;                                                                                                     \
    }
#define PAIR(name, value)                                                                                              \
    int name(void *d, unsigned *now, unsigned *pending);                                                               \
    int name(void *d, unsigned *now, unsigned *pending) {                                                              \
        if (d != &a_device || is("old"))                                                                               \
            return NOT_SUPPORTED;                                                                                      \
        *now = *pending = (value);                                                                                     \
        return OK;                                                                                                     \
    }

int nvmlInit_v2(void);
int nvmlInit_v2(void) { return is("broken") ? BROKEN : OK; }
int nvmlShutdown(void);
int nvmlShutdown(void) { return OK; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **out);
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **out) {
    *out = &a_device;
    return strcmp(id, "0000:65:00.0") == 0 ? OK : NOT_FOUND;
}
int nvmlSystemGetDriverVersion(char *text, unsigned size);
int nvmlSystemGetDriverVersion(char *text, unsigned size) {
    strncpy(text, "580.95.05", size);
    return OK;
}

SELECT(nvmlDeviceGetClockInfo, 345, 2619)
SELECT(nvmlDeviceGetMaxClockInfo, 1980, 3201)
SELECT(nvmlDeviceGetApplicationsClock, 1980, 3201)
SELECT(nvmlDeviceGetTemperatureThreshold, 87, 90)
SELECT(nvmlDeviceGetTemperature, 0, 31)
ANSWER(nvmlDeviceGetPowerUsage, unsigned, 76000)
ANSWER(nvmlDeviceGetEnforcedPowerLimit, unsigned, 700000)
ANSWER(nvmlDeviceGetPowerManagementLimit, unsigned, 700000)
ANSWER(nvmlDeviceGetPowerManagementDefaultLimit, unsigned, 700000)
ANSWER(nvmlDeviceGetPersistenceMode, unsigned, 1)
ANSWER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, 5)
ANSWER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, 5)
ANSWER(nvmlDeviceGetCurrPcieLinkWidth, unsigned, 16)
ANSWER(nvmlDeviceGetMaxPcieLinkWidth, unsigned, 16)
ANSWER(nvmlDeviceGetComputeMode, unsigned, 0)
ANSWER(nvmlDeviceGetVirtualizationMode, unsigned, 0)
ANSWER(nvmlDeviceGetRetiredPagesPendingStatus, unsigned, 0)
ANSWER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, 1)
PAIR(nvmlDeviceGetEccMode, 1)
PAIR(nvmlDeviceGetMigMode, 0)

int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *count, void *list);
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *count, void *list) {
    (void)d, (void)list;
    *count = 0;
    return OK;
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *d, unsigned *count, void *list);
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *d, unsigned *count, void *list) {
    (void)d;
    if (list)
        return BROKEN; /* the number alone is asked for */
    *count = 2;
    return TOO_SMALL;
}
int nvmlDeviceGetTotalEccErrors(void *d, int kind, int counter, unsigned long long *out);
int nvmlDeviceGetTotalEccErrors(void *d, int kind, int counter, unsigned long long *out) {
    *out = (unsigned long long)(10 * counter + kind); /* volatile 0 and 1, aggregate 10 and 11 */
    return d == &a_device && !is("old") ? OK : NOT_SUPPORTED;
}
int nvmlDeviceGetRemappedRows(void *d, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed);
int nvmlDeviceGetRemappedRows(void *d, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                              unsigned *failed) {
    *corrected = 3;
    *uncorrected = 4;
    *pending = 1;
    *failed = 0;
    return d == &a_device && !is("old") ? OK : NOT_SUPPORTED;
}
int nvmlDeviceGetRetiredPages(void *d, int cause, unsigned *count, unsigned long long *list);
int nvmlDeviceGetRetiredPages(void *d, int cause, unsigned *count, unsigned long long *list) {
    if (d != &a_device || list || *count != 0 || is("old"))
        return NOT_SUPPORTED;
    *count = cause == 0 ? 2 : 5;
    return TOO_SMALL;
}

struct bytes {
    unsigned long long total, free, used;
};
ANSWER(nvmlDeviceGetMemoryInfo, struct bytes, ((struct bytes){150000000000, 149000000000, 1000000000}))
ANSWER(nvmlDeviceGetBAR1MemoryInfo, struct bytes, ((struct bytes){274877906944, 274877906944, 0}))
struct utilization {
    unsigned gpu, memory;
};
ANSWER(nvmlDeviceGetUtilizationRates, struct utilization, ((struct utilization){7, 1}))
struct margin {
    unsigned version;
    int c;
};
int nvmlDeviceGetMarginTemperature(void *d, struct margin *out);
int nvmlDeviceGetMarginTemperature(void *d, struct margin *out) {
    if (d != &a_device || out->version != (sizeof *out | 1u << 24) || is("old"))
        return NOT_SUPPORTED;
    out->c = 54;
    return OK;
}
