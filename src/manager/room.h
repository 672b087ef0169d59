/*
 * What the files of this room share: the manager itself, and who calls whom.
 *
 *   from_relay.c   hears the relay's questions; says every answer to it (relay_end() and its like)
 *   to_warden.c    asks the warden; hears the fleet from it
 *   to_agent.c     delivers to the agents; hears how it ended, what ran
 *   asks.c         questions on their way: whose answer belongs to which cookie of the relay
 *   gather.c       what is stored before anybody hears of it: one commit for all that came
 *   follow.c       who reads events or the audit log, and how far they are
 */
#ifndef MANAGER_ROOM_H
#define MANAGER_ROOM_H

#include "manager/asks.h"
#include "manager/audit.h"
#include "manager/fleet.h"
#include "manager/follow.h"
#include "manager/gather.h"
#include "part/part.h"

struct manager {
    struct event_base *base;
    struct part *part;
    struct db *db;
    struct audit *audit;
    struct fleet fleet;
    struct asks asks;
    struct follows *follows;
    struct gather *gather;
    struct link *relay, *warden; /* NULL: not there now */
    unsigned said_agents;        /* by the warden since its link was made */
    bool heard_all;              /* the warden has said all of its agents once */
    struct event *unread;        /* asked_unread() */
};

/* from_relay.c: a new link to the relay (fd is taken). The old one ends, and with it all that it had asked. */
void relay_link(struct manager *m, int fd);

/* Answers on the relay's link; nothing happens when it is not there. */
void relay_end(struct manager *m, uint64_t cookie, unsigned status, uint64_t id, const char *text);
void relay_fail(struct manager *m, uint64_t cookie, err_t e); /* takes e */
void relay_say(struct manager *m, const struct msg *answer);

/* to_warden.c */
void warden_link(struct manager *m, int fd);
/* Sends a question; false when the warden is not there or does not read. */
bool warden_ask(struct manager *m, const struct msg *question);
void warden_keep_head(struct manager *m, uint64_t seq, const uint8_t hash[AUDIT_HASH]);
/* What is known of an agent, with the warden's figures or without (NULL). */
void warden_status(struct manager *m, uint64_t cookie, const struct agent *a,
                   const struct msg_ret_state *figures);

/* to_agent.c */
void agent_link(struct manager *m, const char *name, int fd);
/* When all of it is stopped and its link is over, what began and has not ended will not be told. */
void agent_absent(struct manager *m, struct agent *a);
void agent_unlink(struct manager *m, const char *name);
/* Delivers what is open, as far as the agent's window and its link allow. */
void agent_deliver(struct manager *m, struct agent *a);
/* Sends; false when the agent is not reachable or does not read. */
bool agent_say(struct agent *a, const struct msg *order);
/* Holds or reads each agent's link, by what can be stored now. */
void agent_holds(struct manager *m);
void agent_settle_row(struct manager *m, const char *name, uint64_t row);

#endif
