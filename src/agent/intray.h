/*
 * The in-tray: files that a person sends. They come out of a pipe, which the front fills; this room alone writes them down,
 * the rooms below see the folder read-only. What a name here holds never changes: a file appears whole, under a name that
 * was free.
 *
 *   coming   in ".coming-N" (no file that is sent begins with a dot): what arrives is written, up to its size
 *   there    exactly its size came and the pipe ended: renamed, answered with its place, told in the chat
 *   gone     too much, too little, an error, nothing for INTRAY_WAIT_S: removed, answered with why
 *
 * What a crash left coming is removed at the next start.
 *
 * A sealed agent's is of one conversation: it is emptied when another one becomes the current, and a note says whose the files
 * are, so that a crash in between brings no file into the next. (The session in the warden's sense, from a start to a stop,
 * has a folder of its own.)
 */
#ifndef AGENT_INTRAY_H
#define AGENT_INTRAY_H

#include "agent/agent.h"
#include "base/err.h"

enum {
    INTRAY_COMING_MAX = 8, /* at once */
    INTRAY_FILES_MAX = 4096,
    INTRAY_WAIT_S = 60
};
#define INTRAY_BYTES_MAX (UINT64_C(8) << 30) /* of all files in it */
struct intray_place {
    const char *dir;   /* where this room has the folder */
    const char *shown; /* where those below see it, for words */
    const char *note; /* the file that says whose the files are; NULL: they stay, whatever the conversation */
    uint64_t reserve; /* of the disk, at which who writes is frozen: a quarter more than it stays free */
};
err_t intray_open(struct agent *a, const struct intray_place *at, struct intray **ret);
void intray_free(struct intray *t);

/* `session` is the current conversation: files of another one, and those that are still coming, go. */
err_t intray_of(struct intray *t, uint64_t session);

/* A desk_put, whose pipe is taken. An error is its answer; else desk_order_end comes later. */
err_t intray_take(struct intray *t, struct msg *desk_put);

#endif
