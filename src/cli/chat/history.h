/* Where the chat's history is kept: below $AGENT_CAGE_ROOT when there is one, else the person's own. */
#ifndef CLI_CHAT_HISTORY_H
#define CLI_CHAT_HISTORY_H

#include <histedit.h>

/* Neither fails visibly: a history that cannot be read or written is empty. The file is 0600 and never a link. */
void history_read(History *h);
void history_write(History *h);

#endif
