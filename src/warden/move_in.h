/*
 * A conversation moves into a sealed cage: the agent stays who it is (name, chat, queue, project, uids), its rooms get homes
 * of their own that hold one transcript and nothing else, and its configuration says sealed. Everything its rooms had before
 * goes to a folder that is mounted nowhere. In a worker, while no room of it lives.
 *
 *   prepare   sealing.new/{harness,executor,scratch}: fresh; the transcript, read as what a cage wrote
 *   commit    sealing.new → sealing; the configuration says sealed
 *   finish    each of the three: the old one → unsealed/, the new one to its place; the other conversations leave the list
 *
 * A crash before the commit leaves a pod as it was; after it, the next warden's sweep finishes before any room is looked at.
 */
#ifndef WARDEN_MOVE_IN_H
#define WARDEN_MOVE_IN_H

#include "base/conf.h"

/* May it? Its mode, its harness, its project, as for a new one. */
err_t move_in_check(const struct conf_agent *c);

/* ret_text: what was moved, a sentence. */
err_t move_in(const struct conf_agent *c, char ret_text[400]);

/* Finishes what a crash left of it; nothing to do is fine. */
err_t move_in_finish(const struct conf_agent *c);

/* EXIT_FAILED: it is not finished, and the homes would be the old ones: no room may start. */
err_t move_in_finished(const char *agent);

#endif
