/*
 * The real manager in a process of its own, below a folder of its own, and the far ends of all its links in ours: a
 * test says what relay, warden and agents say. The folder and the listener outlive a manager that is killed.
 */
#ifndef TESTS_MANAGER_PEERS_H
#define TESTS_MANAGER_PEERS_H

#include "base/own.h"
#include "proto/msg.h"

#include <stdbool.h>
#include <sys/types.h>

enum { AGENTS = 2, DEADLINE_MS = 20000 };
extern const char *const agent_names[AGENTS]; /* "demo", "other" */

struct peers {
    char root[64], socket[96];
    pid_t pid;                                            /* 0: not running */
    int listener, control, relay, warden, agents[AGENTS]; /* -1: none */
    void (*in_child)(void);                               /* before the manager starts; may be NULL */
};

/* Makes the folder; with `bytes` the manager's own is a small file system of that size (needs root). */
void peers_open(struct peers *p, size_t bytes);
void peers_close(struct peers *p);

/* Starts a manager and gives it all its links; the warden's end says nothing yet. */
void peers_start(struct peers *p);

/* kill -9; what it had said can still be received. */
void peers_kill(struct peers *p);
/* Closes our ends. */
void peers_hang_up(struct peers *p);

/* A new link in place of *fd. */
void peers_link(struct peers *p, enum link_id link, const char *peer, int *fd);

/* The warden says the fleet: both agents, running. */
void peers_say_fleet(struct peers *p);
/* Waits until the manager has heard it. */
void peers_know_fleet(struct peers *p);

/* Sends; a manager that is gone is fine. */
void peer_send(int fd, struct msg *m);

/* The next message; false: nothing within the time, or the end (then *ret_end, which may be NULL). */
bool peer_get(int fd, int timeout_ms, struct msg *ret, bool *ret_end);

/* The next message of this type, others are passed over; fails the test after DEADLINE_MS. */
void peer_want(int fd, enum msg_type type, struct msg *ret);

/* Whole questions: what relay_end says is returned in *ret (arena owned). */
void relay_ask(struct peers *p, struct msg *question, struct msg *ret);
struct msg say(uint64_t cookie, const char *key, const char *agent, const char *text);

/* ---- for tests with one manager ---- */

extern struct peers peers;
enum { LONG = 60000 };
const char *long_text(void); /* LONG bytes */

/* Asks, and wants this status and these words in the answer. */
void relay_answers(struct msg *question, uint64_t status, const char *part_of_text);
/* Says something that is taken; its number. */
uint64_t relay_says(const char *key, const char *agent, const char *text);
struct msg events_of(uint64_t cookie, const char *agent, uint64_t after, bool follow);
void agent_finishes(int agent, uint64_t id, const char *outcome, const char *text);
/* Waits for the settling of this message. */
void agent_is_settled(int agent, uint64_t id);

#endif
