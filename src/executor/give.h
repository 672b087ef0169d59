/*
 * Files of the outbox that a person fetches. The executor opens them, so a fetch reads what a command of this room could read
 * and nothing else; the bytes go into a pipe, so no descriptor of the room's leaves it. What lies in the outbox may be a trap:
 * a link, a FIFO or a device is not opened, nor a file that has another name somewhere, and nothing is waited for.
 *
 * All of one link to the agent; they end with it.
 */
#ifndef EXECUTOR_GIVE_H
#define EXECUTOR_GIVE_H

#include "executor/executor.h"
#include "wire/link.h"

enum { GIVES_MAX = 8, GIVE_WAIT_S = 60 };

struct gives;

struct gives *gives_new(struct executor *x, struct link *l);
void gives_free(struct gives *g);

/* A run_get, whose pipe is taken; run_got says how it went, now or later. */
void gives_start(struct gives *g, struct msg *run_get);

/*
 * Opens the regular file `name` in the folder `outbox`: through no link, onto no other file system, without waiting, with one
 * name only and at most FILE_BYTES_MAX. EXIT_POLICY with a sentence; nothing there: EXIT_NOTFOUND.
 */
err_t give_open(const char *outbox, struct bytes name, int *ret_fd, uint64_t *ret_size);

#endif
