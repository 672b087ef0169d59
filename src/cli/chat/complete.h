/* Tab in the chat: commands in the first word of a line that begins with "/", names of agents behind them. */
#ifndef CLI_CHAT_COMPLETE_H
#define CLI_CHAT_COMPLETE_H

#include "cli/chat/chat.h"

#include <histedit.h>

/* For EL_ADDFN. */
unsigned char complete_line(EditLine *el, int key);

/*
 * What may be added to the text before the cursor (len bytes, UTF-8): the longest text that all candidates share goes to
 * `add`, with a blank when there is just one. Returns how many candidates there are; up to `most` of them, each of the
 * chat's or the table's, go to ret.
 */
size_t complete_text(const struct chat *c, const char *text, size_t len, struct buf *add, const char **ret,
                     size_t most);

#endif
