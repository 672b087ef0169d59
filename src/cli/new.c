/* new: an agent and its rooms. */
#include "base/names.h"
#include "base/own.h"
#include "cli/operator.h"
#include "cli/verb.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

/* The warden knows no current folder: a path is made whole here. One that is not there keeps its words, for the error. */
static char *whole_path(const char *path) {
    char *whole = realpath(path, NULL);
    if (whole)
        return whole;
    own_free char *here = getcwd(NULL, 0);
    return path[0] == '/' || !here ? xstrdup(path) : xasprintf("%s/%s", here, path);
}

static struct bytes option(const struct call *call, const char *name) {
    return bytes_of(call_option(call, name));
}

/* Words that are wrong whatever the fleet, and where there is none. The warden checks all of it again. */
static err_t check(const struct call *call) {
    enum mode mode;
    enum net net;
    const char *m = call_option(call, "mode"), *n = call_option(call, "net");
    TRY(name_check(call->args[0]));
    TRY(m && *m ? mode_of(m, &mode) : NULL);
    return n && *n ? net_of(n, &net) : NULL;
}

err_t verb_new(const struct call *call, int *ret_status) {
    (void)ret_status;
    TRY(check(call));
    const char *project = call_option(call, "project");
    if (project && !*project)
        return err_new(EXIT_USAGE, "new: --project: the folder's name is empty");
    own_free char *whole = project ? whole_path(project) : NULL;
    struct msg m = {.type = MSG_op_new};
    m.op_new.agent = bytes_of(call->args[0]);
    m.op_new.mode = option(call, "mode");
    m.op_new.harness = option(call, "harness");
    m.op_new.project = bytes_of(whole);
    m.op_new.model = option(call, "model");
    m.op_new.upstream = option(call, "upstream");
    m.op_new.net = option(call, "net");
    m.op_new.memory = option(call, "memory");
    m.op_new.cpus = option(call, "cpus");
    m.op_new.pids = option(call, "pids");
    return operator_call(&m);
}
