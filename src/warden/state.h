/*
 * The numbers of the state strip, from the control groups of an agent's executor room and from /proc. Processes are
 * those of the executor room without its own first one; the host's processor use is sampled every 5 seconds.
 */
#ifndef WARDEN_STATE_H
#define WARDEN_STATE_H

#include "proto/msg.h"

#include <stdbool.h>
#include <sys/types.h>

struct box;
struct warden;

/* Starts the sampling. */
void state_init(struct warden *w);

/* b NULL: the host's numbers alone. Everything but cookie and agent. A number that is not known is 0.
 * A text is good until the next call. */
void state_of(struct warden *w, const struct box *b, struct msg_ret_state *ret);

/* When this process started (CLOCK_BOOTTIME); now, if that cannot be told. */
int64_t state_started_ms(pid_t pid);

/* Busy share in percent between two readings of the first line of /proc/stat ("cpu  …"); for tests too. */
struct cpu_ticks {
    uint64_t busy, all;
};
bool cpu_parse(const char *line, struct cpu_ticks *ret);
unsigned cpu_share(const struct cpu_ticks *from, const struct cpu_ticks *to);

#endif
