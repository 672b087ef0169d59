/*
 * The outbox of a run: ~/agent-cage-outbox/SESSION, made with the rights of the home's owner, or the folder that --outbox
 * names.
 */
#ifndef SEALED_PLACE_H
#define SEALED_PLACE_H

#include "base/err.h"

#include <sys/types.h>

struct outbox_place {
    int fd;     /* the folder, readable */
    int parent; /* the folder of all outboxes when it was made in there, else -1 */
    char *path;
    uid_t uid; /* its owner; never root's own (but the person's, for an ordinary user) */
    gid_t gid;
};

/*
 * wanted: an absolute path (made if its parent exists), or NULL. uid, gid: who gets what lies in root's home, where hostile
 * files must not be root's.
 */
err_t outbox_make(const char *wanted, const char *session, uid_t uid, gid_t gid, struct outbox_place *ret);

/* A new one below `home` (absolute, no link on its way, a folder of `owner`, whose rights are taken), for whom nobody called: a
 * sealed agent's. */
err_t outbox_make_in(const char *home, uid_t owner, const char *session, uid_t uid, gid_t gid,
                     struct outbox_place *ret);

/* One that was made earlier, by its path: through no link. */
err_t outbox_open(const char *path, struct outbox_place *ret);

/* Takes an outbox away that holds nothing and was not asked for by name. */
void outbox_forget(const struct outbox_place *o);
void outbox_place_close(struct outbox_place *o);

/* The folder that holds the outboxes of this person: $HOME's, under sudo the caller's. The caller frees. */
err_t outbox_home(char **ret);

/* "./a/b" as an absolute path; links stay what they are. The caller frees. */
err_t absolute_path(const char *path, char **ret);

#endif
