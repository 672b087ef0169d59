/* get: a file of an agent's outbox. What it holds was made by an agent: it is saved, never opened or shown. */
#include "base/escape.h"
#include "base/names.h"
#include "base/own.h"
#include "cli/files.h"
#include "cli/verb.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

err_t verb_get(const struct call *call, int *ret_status) {
    (void)ret_status;
    const char *name = call->args[1], *to = call_option(call, "to");
    TRY(name_check(call->args[0]));
    if (to && !strcmp(to, "-") && isatty(STDOUT_FILENO))
        return err_new(EXIT_POLICY,
                       "the bytes of an agent's file do not go to a terminal: pipe them somewhere");
    own_free char *here = xasprintf("./%s", name); /* one that is called "-" is a file too */
    TRY(files_get(call->args[0], name, to ? to : here));
    if (!to) /* the name was checked: it is shown as it is */
        printf("%s\n", name);
    return NULL;
}
