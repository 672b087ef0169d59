/*
 * The control connection of each ward: links to hand over, the word to go, the word to stop; and what the part
 * says. Its socket is the sign that something of the ward may be there: made first, removed last.
 */
#ifndef WARDEN_CONTROL_H
#define WARDEN_CONTROL_H

#include "base/err.h"
#include "warden/ward.h"

/* The path of its control socket; the caller frees. */
char *control_path(const struct ward *d);

/* The socket's file is there. */
bool control_there(const struct ward *d);

/* Connects. The hello comes as WARD_GREETED, the end as WARD_LOST, a wrong hello as WARD_LOST too. */
err_t control_connect(struct ward *d);
void control_end(struct ward *d);

/* part_go: the room's world is complete. */
void control_go(struct ward *d);
void control_stop(struct ward *d, uint64_t grace_ms);

/* To an agent's room: the credential, answered by from_operator_auth_end(); the budget that its configuration has now. */
err_t control_secret(struct ward *d, uint64_t cookie, struct bytes kind, struct bytes credential);
void control_budget(struct ward *d);

/* Hands over one end of a link; fd stays the caller's. */
err_t control_link(struct ward *d, enum link_id link, const char *peer, int fd);
void control_unlink(struct ward *d, enum link_id link, const char *peer);

#endif
