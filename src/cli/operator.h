/* What root asks of the warden on the host itself (new, rm): over warden.sock, with lines of progress. */
#ifndef CLI_OPERATOR_H
#define CLI_OPERATOR_H

#include "proto/msg.h"

/*
 * Sends m (op_new, op_rm) and waits for its end. Lines of progress go to standard error as they come, the last word to
 * standard output; a status other than 0 comes back as an error with that status.
 */
err_t operator_call(const struct msg *m);

/* The warden has an order, whatever becomes of this process: from here on Ctrl-C says so, and ends it with 130. */
void operator_goes_on(void);

#endif
