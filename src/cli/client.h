/*
 * A command line's connection to the fleet: relay.sock, hello, questions and answers. No event loop; a caller
 * with one polls client_fd(). Every question gets a cookie of its own; its answers carry it.
 */
#ifndef CLI_CLIENT_H
#define CLI_CLIENT_H

#include "proto/msg.h"

#include <stdbool.h>

struct client {
    int fd;
    uint64_t last_cookie;
};

/* Nothing listens where the fleet would: what to do, in the one wording for it. */
err_t client_no_fleet(void) __attribute__((warn_unused_result));

enum { CLIENT_WAIT_MS = 30000 }; /* for an answer that takes no work */

/*
 * Connects and says hello as `front` ("cli", "chat"). The error says what to do: no fleet is up, not root.
 * client_close() ends it, and with it every command that it runs.
 */
err_t client_open(struct client *ret, const char *front);

/* The same without waiting for a relay that is away: for a caller that has other things to do meanwhile. */
err_t client_try(struct client *ret, const char *front);
void client_close(struct client *c);
#define own_client __attribute__((cleanup(client_close)))

/* Sends a question (front_say … front_exec); puts a fresh cookie in m first. */
err_t client_ask(struct client *c, struct msg *m);

/* Sends m as it is: a signal, whose cookie is its command's. */
err_t client_say(struct client *c, const struct msg *m);

/* The next message, at most timeout_ms later (-1: no bound). *ret_got false: nothing came. The fleet having
 * left is an error. The caller ends *ret with msg_free(). */
err_t client_next(struct client *c, int timeout_ms, struct msg *ret, bool *ret_got);

/* What relay_end says. */
struct client_end {
    uint64_t status, id;
    char text[4097];
};

typedef err_t client_fn(void *ctx, struct msg *m);

/*
 * Asks and hands each answer to on_answer (NULL: none is expected) until relay_end, whose words go to
 * *ret_end (may be NULL). A status other than 0 there is returned as an error. timeout_ms as above, for each
 * answer.
 */
err_t client_call(struct client *c, struct msg *m, int timeout_ms, client_fn *on_answer, void *ctx,
                  struct client_end *ret_end);

#endif
