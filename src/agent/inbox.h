/*
 * Messages that were delivered and not yet started, in order. It need not survive: the manager delivers them
 * again. Its memory is bounded: texts beyond INBOX_MEMORY wait in files of the folder "inbox" of the state
 * folder.
 */
#ifndef AGENT_INBOX_H
#define AGENT_INBOX_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { INBOX_MEMORY = 1 << 20, INBOX_WHO_MAX = 64 };

struct inbox;

struct delivered {
    uint64_t id;
    char who[INBOX_WHO_MAX + 1];
    char *text; /* owned; NULL while it waits in a file */
    struct delivered *next;
};

/* Empties the folder: what an earlier agent left there comes again. `home` is not kept. */
err_t inbox_open(int home, struct inbox **ret);

/* Behind the others. An error: the text could be kept nowhere; the message is not in the inbox. */
err_t inbox_add(struct inbox *in, uint64_t id, const char *who, const char *text);
bool inbox_has(const struct inbox *in, uint64_t id);
size_t inbox_count(const struct inbox *in);

/*
 * The first, with its text; the caller ends it with delivered_free(). *ret is NULL when there is none. An
 * error: its text cannot be read any more; *ret still is the message, without text.
 */
err_t inbox_take(struct inbox *in, struct delivered **ret);

/* Takes d back, with its text, as the first. */
void inbox_put_back(struct inbox *in, struct delivered *d);
void delivered_free(struct delivered *d);

void inbox_free(struct inbox *in);

#endif
