/*
 * Which conversation goes on: its id as the vendor's program calls it, and a number of the protocol's, in the file
 * "session-WORD-NUMBER" (the agent's number of it) of the room's home. The room is restarted, the program dies, the id stays. Whoever writes that file (the
 * vendor's program could) chooses among its own conversations and nothing else: the id is checked before it is an argument.
 */
#ifndef HARNESS_SESSION_H
#define HARNESS_SESSION_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { SESSION_ID_MAX = 128 };

struct session {
    char *path;                  /* owned */
    char id[SESSION_ID_MAX + 1]; /* "": the next turn begins a new one */
    uint64_t number;
};

/* Reads it; what is not right is as if it were not there. */
void session_open(struct session *s, const char *home, const char *word, uint64_t number);

/* Keeps it if it is another than before; id may be the session's own. An error: it does not outlive the room. */
err_t session_keep(struct session *s, const char *id, uint64_t number);
err_t session_forget(struct session *s);
void session_close(struct session *s);

/* Letters, digits, '-', '_', '.', the first no '-'. */
bool session_id_ok(const char *id);

#endif
