/* Time. Durations and timers use the monotonic clock, so a jump of the wall clock changes no deadline. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/time.h>

int64_t clock_mono_ns(void); /* CLOCK_MONOTONIC */
int64_t clock_boot_ms(void); /* CLOCK_BOOTTIME: goes on while the machine sleeps */
int64_t clock_wall_ms(void); /* since 1970 UTC */

/* "2026-11-29T19:14:00Z" of a wall time; needs 21 bytes. */
enum { CLOCK_ISO_MAX = 32 };
void clock_iso(char out[CLOCK_ISO_MAX], int64_t wall_ms);

/* "20261129-191400" of a wall time, as this machine's clocks show it: for names. */
enum { CLOCK_STAMP_MAX = 32 };
void clock_stamp(char out[CLOCK_STAMP_MAX], int64_t wall_ms);

/* "1.2s", "25m12s", "122h 52m", "8d" for people; needs 32 bytes. Negative counts as 0. */
enum { CLOCK_SPAN_MAX = 32 };
void clock_span(char out[CLOCK_SPAN_MAX], int64_t ms);

/* A span for a timer; ms >= 0. */
static inline struct timeval clock_timeval(int64_t ms) {
    return (struct timeval){(time_t)(ms / 1000), (suseconds_t)(ms % 1000) * 1000};
}

#endif
