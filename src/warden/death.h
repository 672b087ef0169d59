/*
 * How wards die, and how often. Five deaths within a minute are a crash loop, but SIGKILL is somebody's will (the
 * operator's, the kernel's when memory is short), not a crash: it does not count.
 */
#ifndef WARDEN_DEATH_H
#define WARDEN_DEATH_H

#include "warden/ward.h"

/* It died; why says as much as is known. How it ended comes with the clearing. */
void death_note(struct ward *d);

/* The clearing is over: says how it had ended, and counts it if it was a crash. */
void death_judge(struct ward *d);

/* Crashes within the last WARD_DEATHS_MS. */
size_t death_recent(const struct ward *d);

#endif
