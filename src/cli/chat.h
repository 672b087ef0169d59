/* The terminal chat, for the verb `chat` and for `up` in a terminal. */
#ifndef CLI_CHAT_H
#define CLI_CHAT_H

#include "base/err.h"

/*
 * Runs until the person leaves, the input ends, or the fleet is away for a minute (an error). agent: whose room to enter
 * first; NULL: the only agent's, or the fleet's. Without a terminal each line is one message or command, and its report
 * is waited for before the next one is read.
 */
err_t chat_run(const char *agent);

#endif
