/* The shells of a workbench: in a harness room our binary, the shim, is over each of them. */
#ifndef CAGE_SHELLS_H
#define CAGE_SHELLS_H

#include "base/err.h"
#include "cage/words.h"

#include <stdbool.h>

/*
 * Every shell and every git in the tree `root`, as absolute paths inside it, each real file once (/bin may be a link to
 * /usr/bin, sh one to dash: a mount on a link would land on its target, twice). Looks at the usual folders for the names
 * of shells.c and at what the tree's own /etc/shells lists. A workbench without /bin/sh or /bin/bash is an error.
 */
err_t shells_find(const char *root, struct words *ret);

/* Is a program of this name, or at this path, one that the shim stands in for? (Not: what an /etc/shells adds.) */
bool shells_has(const char *program);

#endif
