/*
 * Events of the fleet as text for a terminal, for `send` and `chat` alike. Everything in them is hostile: only what this
 * file itself writes can move a cursor or set a colour.
 */
#ifndef CLI_RENDER_H
#define CLI_RENDER_H

#include "base/buf.h"
#include "proto/msg.h"

#include <stdbool.h>

struct render {
    bool colour;
    bool tags;   /* say of which agent each thing is */
    size_t most; /* bytes of one text that are shown: its head and its tail; 0: all */
};

/* Colours are for a terminal, and only where NO_COLOR is not set (no-color.org). */
bool render_colours(int fd);

/* Appends what a person should see of the event; maybe nothing. Ends with a newline when it adds anything. */
void render_event(const struct render *r, const struct msg_relay_event *e, struct buf *out);

/* The line that ends a report: "◷ 25m12s · 10685.0k tok · 15 tool calls" or "◷ 12.1s · exit 0". */
void render_footer(const struct render *r, const struct msg_relay_event *e, struct buf *out);

/* Text, escaped; over `most` bytes (0: no bound) its head, "… N bytes left out …", its tail, cut between characters and,
 * where there is one near, between lines. Ends with a newline unless empty. */
void render_text(struct buf *out, const void *text, size_t len, size_t most);

/* The same, bounded by r->most; with tags each line begins with whose it is. */
void render_lines(const struct render *r, const struct bytes *agent, struct buf *out, const void *text,
                  size_t len);

/* A line of ours in a colour ("2" faint, "31" red: SGR parameters of ECMA-48), or plain. No newline is added. */
void render_in(const struct render *r, struct buf *out, const char *sgr, const char *text);

/* Does this event end its message? done, refused or unknown: nothing comes after it. */
bool render_final(const struct msg_relay_event *e);
bool render_is(const struct msg_relay_event *e, const char *kind);

#endif
