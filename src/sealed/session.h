/*
 * The session of a sealed agent: from its start after a stop to its next stop, however often its rooms die and are made
 * again in between, or the warden is. It is a folder, root's, below the agent's own:
 *
 *   outbox   the path of its outbox
 *   inbox    its in-tray: the agent room's; empty when the session begins, and gone with it
 *   reached  whom its rooms that ended had turned to (reached.h); none, as long as none of them had a network
 *   before   the project as it was when the session began (aftermath.h); its being there is the session's being open
 *
 * Blocks: for a worker.
 */
#ifndef SEALED_SESSION_H
#define SEALED_SESSION_H

#include "base/buf.h"
#include "cage/project.h"
#include "sealed/outbox_place.h"
#include "sealed/reached.h"

#include <stdbool.h>

struct sealed_session {
    const char *dir;   /* the folder; made if missing */
    const char *agent; /* names the outbox */
    const char *home;  /* where the outboxes of the project's owner are; outbox_make_in() */
    uid_t owner;       /* of home */
    uid_t tray;        /* whose the in-tray is */
};

/* Begins it, or goes on with the one that is open. Two may call at once. The caller closes *ret. */
err_t sealed_session_begin(const struct sealed_session *s, const struct project *p, struct outbox_place *ret);

bool sealed_session_open(const char *dir);

/* How long it has been open; 0: it is not. */
int64_t sealed_session_age_ms(const char *dir);

/* The path of its outbox; NULL when none is open. The caller frees. */
char *sealed_session_outbox(const char *dir);

/* A room of it has ended, which had reached this. Nothing to do when none is open. */
err_t sealed_session_reached(const char *dir, const struct reached *more);

/* Its end, once its rooms are gone: whom they turned to, what lies in the outbox and what changed in the project, as lines for the person (escaped),
 * the changes also in lib/last for `agent-cage aftermath`. An outbox that holds nothing goes, and so does the in-tray. */
err_t sealed_session_end(const char *dir, const char *project, const char *lib, struct buf *out);

/* It is over: to be called when that was said, so that whatever crashes in between it is said at least once. */
err_t sealed_session_forget(const char *dir);

/* The home of `uid` as /etc/passwd has it, below $AGENT_CAGE_ROOT, if it is theirs; root's otherwise; and whose it must be when
 * something is made there. The caller frees. */
err_t sealed_session_home(uid_t uid, char **ret, uid_t *ret_owner);

#endif
