/*
 * Making and removing an agent: what stays on the host (configuration, uid range, accounts, folders). Both run in
 * workers. Making undoes itself in reverse order on any fault; removing works from the name alone, so it can be done
 * again. A mark (warden/half/NAME) stands while either is under way; agents_sweep() removes what a crash left marked.
 */
#ifndef WARDEN_AGENTS_H
#define WARDEN_AGENTS_H

#include "base/conf.h"
#include "proto/msg.h"

struct warden;

/* The request as configuration, with defaults filled in; uid_base and a default project are not set yet. EXIT_USAGE
 * or EXIT_POLICY, one sentence, for anything that is not right. Pure but for the host's number of processors. */
err_t agents_check(const struct msg_op_new *m, struct conf_agent *ret);

/* Only some harnesses are known to do with what a sealed cage has; EXIT_POLICY for the others. */
err_t agents_may_be_sealed(const char *harness);

/* Can this kernel keep a sealed agent's rooms apart (part/apart.h)? EXIT_POLICY if not. */
err_t agents_sealed_here(const char *harness);

/* Lines for the person: what is not obvious about this choice (bare: the trade). NULL: none. */
const char *agents_trade(const struct conf_agent *c);

/* In a worker. */
err_t agents_make(const struct warden *w, struct conf_agent *c, int report);
err_t agents_drop(const struct warden *w, const char *name);

/* Also takes away the project folder that agents_make() made, if nothing is in it. */
err_t agents_drop_new(const struct warden *w, const char *name);

/* In a worker, before any agent is looked at. */
err_t agents_sweep(const struct warden *w, int report);

#endif
