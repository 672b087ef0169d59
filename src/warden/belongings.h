/*
 * What an agent has on the host beside its configuration: a mark while it is only half there, folders, and, when it is
 * bare, accounts. Everything here may be done again: what is there already is put right or removed first.
 */
#ifndef WARDEN_BELONGINGS_H
#define WARDEN_BELONGINGS_H

#include "base/conf.h"

/* The agent is being made or removed: warden/half/NAME. */
err_t belongings_mark(const char *name);
err_t belongings_unmark(const char *name);

/* State and scratch folders, each its room's. uid_base must be set. */
err_t belongings_folders(const struct conf_agent *c);

/* The in-tray and the outbox beside them, where they are missing. */
err_t belongings_trays(const struct conf_agent *c);

/* Those, and all that its rooms left in the run folder, mounts first. */
err_t belongings_drop_folders(const char *name);

/* One account a room, with the uids of its range. */
err_t belongings_accounts(const char *prefix, const struct conf_agent *c);

/* Ends every process of theirs, then removes them. */
err_t belongings_drop_accounts(const char *prefix, const char *agent);

#endif
