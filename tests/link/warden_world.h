/*
 * A real warden in a fleet of its own, whose parts are this very test program: installed as the fleet's binary, started by
 * the warden under real accounts, it hands every link that it is given to the test. So the test stands at the far end of
 * each link that the warden makes. Needs root (accounts, namespaces), no podman.
 */
#ifndef LINK_WARDEN_WORLD_H
#define LINK_WARDEN_WORLD_H

#include "proto/msg.h"

#include <stdbool.h>
#include <sys/types.h>

#define WORLD_PREFIX "wlt_"
enum { WORLD_MS = 20000 };

struct world {
    char root[64];
    int fakes; /* listener that the fake parts bring their links to */
    pid_t warden;
};

/* The path of the real binary; set by main(). */
extern const char *world_binary;

/* What main() does first: true when this process is a fake part (its status in *ret). */
bool world_is_part(int argc, char **argv, int *ret);

void world_start(struct world *w);
void world_stop(struct world *w); /* SIGTERM; accounts and folders are removed */

void world_run_warden(struct world *w);
void world_kill_warden(struct world *w);

/* A behaviour of the fakes from their next start on: "liar" (the relay says a wrong hello), "crash" (the executor ends at
 * once), "forger" (the relay answers what the agents' rooms were asked). */
void world_script(struct world *w, const char *word, bool on);

/* A link that one of the parts was given. */
struct given {
    char part[16], peer[32];
    uint32_t link;
    pid_t pid; /* of the part */
    int fd;
};

/* The oldest one of this part and link that was not taken yet; false: none within the time. */
bool world_given(struct world *w, const char *part, enum link_id link, int timeout_ms, struct given *ret);

/* An operator's connection, greeted. */
int world_operator(struct world *w);

/* The pid that the warden keeps for a part ("relay", "bert.agent"). */
pid_t world_pid(const struct world *w, const char *part);

void say(int fd, const struct msg *m);
/* The next message of this type; others are passed over; fails the test when it does not come in time. */
void expect(int fd, enum msg_type type, struct msg *ret);
bool ends(int fd, int timeout_ms);

#endif
