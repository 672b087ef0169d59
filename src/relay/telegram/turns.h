/* What runs now, as strips: the tools of a turn and the last of its output, in one message that is edited as it grows. */
#ifndef TELEGRAM_TURNS_H
#define TELEGRAM_TURNS_H

#include "relay/telegram/inside.h"

struct turns *turns_new(struct front *f);
void turns_free(struct turns *t);

/* An event that is not kept. */
void turns_live(struct turns *t, const struct msg_relay_event *e);

/* Its message has ended: the strip's last state. In a transaction. */
err_t turns_end(struct turns *t, const struct msg_relay_event *e);

#endif
