/* A command's ending as an exit status, for `exec` and the chat's /sh. */
#ifndef CLI_EXEC_H
#define CLI_EXEC_H

#include "proto/msg.h"

/* 0..255 as the README says: its own, 128+N for a signal, 124 for a time-out, 126 and 127 when it never ran. */
int exec_status(const struct msg_relay_exec_end *e);

#endif
