/*
 * The agent's model: the gateway (gateway/gateway.h) as the rest of the room sees it. An agent without an upstream has none;
 * then every call here does nothing. What the gateway knows goes out from here: turn_world to the harness, desk_usage
 * and the login line to the manager.
 */
#ifndef AGENT_MODEL_H
#define AGENT_MODEL_H

#include "agent/agent.h"

/* After part_go, before the first turn. `home`: the state folder. */
err_t model_open(struct agent *a, int home, const struct msg_part_go *go);
void model_free(struct model *m);

/* The gateway's listener, from the warden. */
void model_link(struct agent *a, int fd);
void model_unlink(struct agent *a);

/* What the operator sends. The sentence of success is in *ret_text (static). */
err_t model_secret(struct agent *a, const char *kind, const char *p, size_t n, const char **ret_text);
void model_budget(struct agent *a, const char *budget);

/*
 * The model from the next turn on, "" for the harness's own choice; kept in the file "model" of the state folder, where it
 * beats what `new --model` said. It becomes a word of a command line: EXIT_USAGE for what is no name.
 */
err_t model_choose(struct agent *a, const char *name);

/* A log-in from the chat is possible: there is an upstream, and it wants a credential. */
err_t model_may_log_in(const struct agent *a);

/* Hosts that the harness may speak with for now (gateway_tunnels()). */
void model_tunnels(struct agent *a, const char *const *hosts);

/* A sentence for the chat; kept for the next link when there is none. */
void model_note(struct agent *a, const char *text);

/* Another session is current: no turn is under way. Its figures begin at nothing here, and it has a placeholder of its own. */
void model_fresh(struct agent *a);

/* What the gateway counted: since the agent was made; since model_fresh(). model_counts() false: there is no gateway. */
bool model_counts(const struct agent *a);
uint64_t model_tokens(const struct agent *a);
uint64_t model_session_tokens(const struct agent *a);

/* The turn_world of now; false: there is no model. Its texts live until the next change. */
bool model_world(struct agent *a, struct msg *ret);

/* Why no turn may be started, NULL when one may. Static. */
const char *model_refuses(const struct agent *a);

/* A new link to the manager: says the figures, and what the chat has not heard yet. */
void model_say_all(struct agent *a);

/* The second line: the credential starred out of the output of a turn, across the borders of its pieces … */
void model_output(struct agent *a, uint64_t id, const char *p, size_t n);
void model_output_end(struct agent *a, uint64_t id); /* the turn is over: what was held back comes */

/* … and out of a message to the manager: true when it was in it, then *ret is the message without it (msg_free()). */
bool model_stars(struct agent *a, const struct msg *m, struct msg *ret);

#endif
