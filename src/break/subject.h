/*
 * The probe inside a cage, started by the product's own words (`agent-cage sealed …`, `agent-cage exec NAME …`), heard line by
 * line, and held still at its end while it is looked at from outside.
 */
#ifndef BREAK_SUBJECT_H
#define BREAK_SUBJECT_H

#include "base/buf.h"
#include "base/err.h"
#include "cage/words.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct subject {
    pid_t pid;
    int in, out, err; /* its standard streams; in: closing it lets the probe end */
    struct buf said, errors;
};

/* From now on SIGINT, SIGTERM and SIGHUP do not end this process but the waits below, so that what was made goes away. */
void subject_catch_signals(void);

/* The exit status that a caught one asks for (128 and its number); 0: none came. */
int subject_interrupted(void);

/* words: those behind `agent-cage`. env: added to the few of our own that a fleet is found by. */
err_t subject_start(const struct words *words, const struct words *env, struct subject *ret);

/* Reads until the probe has said this word and waits (true), or everything has ended, at most until `deadline_ms` (monotonic). */
err_t subject_hear(struct subject *s, const char *word, int64_t deadline_ms, bool *ret_said);

/* A probe that waits goes on. */
void subject_go_on(struct subject *s);

/* Lets it end and waits; ends it by force at the deadline. *ret_status: as waitpid's. */
err_t subject_end(struct subject *s, int64_t deadline_ms, int *ret_status);
void subject_free(struct subject *s);

#endif
