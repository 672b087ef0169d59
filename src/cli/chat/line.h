/* Lines from a person (libedit, history, completion) or from a pipe. */
#ifndef CLI_CHAT_LINE_H
#define CLI_CHAT_LINE_H

#include "cli/chat/chat.h"

struct line *line_open(struct chat *c);
void line_close(struct line *l);

struct chat *line_chat(const struct line *l);

/* The next line without its newline; the caller frees. NULL: the end. */
char *line_read(struct line *l);

/* Takes the line that is being typed off the screen, and puts it back behind what was written meanwhile. */
void line_away(struct line *l);
void line_back(struct line *l);

/* Empties the line that is being typed. False: it was empty. */
bool line_cancel(struct line *l);

/* The window has another size; the process was stopped and goes on. */
void line_resized(struct line *l);
void line_suspend(struct line *l);

#endif
