/* What the fleet answers, as JSON for the page: made from the table of messages, so nothing is listed twice. Pure. */
#ifndef RELAY_WEB_JSON_H
#define RELAY_WEB_JSON_H

#include "proto/msg.h"

/* An object of every field but the cookie: numbers, texts (bytes that are no UTF-8: U+FFFD), lists of texts; a hash or digest in hex. */
void json_of_msg(struct buf *out, const struct msg *m);

#endif
