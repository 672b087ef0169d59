/*
 * A command as a line that a person can read and bash would read back as the same words: plain words as they are, others
 * in '…', those with control bytes, odd characters or bytes that are no UTF-8 in $'…' with ASCII alone. Only for showing:
 * nothing in this tree runs such a line.
 */
#ifndef CLI_QUOTE_H
#define CLI_QUOTE_H

#include "proto/msg.h"

void quote_argv(struct buf *out, struct list argv);

#endif
