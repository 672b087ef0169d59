/*
 * Does a text hold a credential? A chat is kept, by this fleet and by whoever carries it, so no front passes such a text on. Pure.
 * A net with wide meshes: it knows the looks of the vendors' keys, tokens and credential files, of GitHub's, GitLab's, Slack's, AWS's
 * and Telegram bots', and no others.
 */
#ifndef PROTO_PASTED_H
#define PROTO_PASTED_H

#include <stdbool.h>
#include <stddef.h>

#define PASTED_WHY                                                                                           \
    "that looks like a credential, and a chat is no place for one: it was not passed on. On the host, run "  \
    "`agent-cage auth NAME`; and have this one revoked if others can read this chat"

bool pasted_credential(const char *p, size_t n);

#endif
