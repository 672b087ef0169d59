/*
 * The vendor's own log-in, driven from the chat. Its program runs alone in the emptied harness room (harness/login.h) on a
 * terminal whose other end is here: what it draws is read by nobody else. Its page is told to the chat, the one-time code
 * taken from it; the credential is read off the screen, or out of the file that the program kept it in, and is the gateway's
 * from then on. Meanwhile the gateway lets it speak with the few hosts of that vendor's log-in (gateway/tunnel.h).
 *
 *              begin      the terminal   page seen    code          credential seen   failed, late, stop   its end
 *   NONE       ASKED      -              -            (none waits)  -                 -                    -
 *   ASKED      (no)       DRAWS          -            (not yet)     -                 CLOSING              failed: NONE
 *   DRAWS      (no)       -              told: PAGE   (not yet)     kept: CLOSING     CLOSING              looked once more: NONE
 *   PAGE       (no)       -              -            typed         kept: CLOSING     CLOSING              looked once more: NONE
 *   CLOSING    afterwards -              -            (no)          -                 -                    NONE
 *
 *   ASKED to CLOSING: the harness is busy, so no message is started (turn.h). Must not say anything of the screen but the page,
 *   the code that the vendor shows, and the sentence of a failure.
 */
#ifndef AGENT_SIGNIN_H
#define AGENT_SIGNIN_H

#include "agent/agent.h"

struct signin *signin_new(struct agent *a, const char *harness);
void signin_free(struct signin *s);

/* code "": begin; else what the page showed. *ret_text: a sentence for who asked (static). */
err_t signin_say(struct signin *s, const char *code, const char **ret_text);

/* True: one was under way, and is being ended. */
bool signin_cancel(struct signin *s);

/* Of the harness. pty is taken. file: borrowed, -1: none. */
void signin_pty(struct signin *s, int pty);
void signin_ended(struct signin *s, int64_t status, const char *text, int file);
void signin_lost(struct signin *s);

#endif
