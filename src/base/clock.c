#include "base/clock.h"

#include <stdio.h>
#include <time.h>

static int64_t now_ns(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t clock_mono_ns(void) {
    return now_ns(CLOCK_MONOTONIC);
}

int64_t clock_boot_ms(void) {
    return now_ns(CLOCK_BOOTTIME) / 1000000;
}

int64_t clock_wall_ms(void) {
    return now_ns(CLOCK_REALTIME) / 1000000;
}

void clock_iso(char out[CLOCK_ISO_MAX], int64_t wall_ms) {
    time_t t = (time_t)(wall_ms / 1000);
    struct tm tm;
    if (!gmtime_r(&t, &tm) || !strftime(out, CLOCK_ISO_MAX, "%Y-%m-%dT%H:%M:%SZ", &tm))
        snprintf(out, CLOCK_ISO_MAX, "?");
}

void clock_stamp(char out[CLOCK_STAMP_MAX], int64_t wall_ms) {
    time_t t = (time_t)(wall_ms / 1000);
    struct tm tm;
    if (!localtime_r(&t, &tm) || !strftime(out, CLOCK_STAMP_MAX, "%Y%m%d-%H%M%S", &tm))
        snprintf(out, CLOCK_STAMP_MAX, "0");
}

void clock_span(char out[CLOCK_SPAN_MAX], int64_t ms) {
    if (ms < 0)
        ms = 0;
    long long s = ms / 1000;
    if (s < 60)
        snprintf(out, CLOCK_SPAN_MAX, "%lld.%llds", s, (long long)(ms % 1000 / 100));
    else if (s < 3600)
        snprintf(out, CLOCK_SPAN_MAX, "%lldm%02llds", s / 60, s % 60);
    else if (s < 200 * 3600LL)
        snprintf(out, CLOCK_SPAN_MAX, "%lldh %02lldm", s / 3600, s % 3600 / 60);
    else
        snprintf(out, CLOCK_SPAN_MAX, "%lldd", s / 86400);
}
