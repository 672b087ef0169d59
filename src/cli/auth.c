/* auth: a credential on its way to an agent, and to nobody else. */
#include "base/names.h"
#include "base/own.h"
#include "cli/operator.h"
#include "cli/secret.h"
#include "cli/terminal.h"
#include "cli/verb.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { CREDENTIAL_MAX = 16384 };

static err_t ask(const char *agent, char *room, size_t size, size_t *ret) {
    own_fd int tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (tty < 0)
        return err_new(EXIT_USAGE, "there is no terminal to ask on: give the credential with --token-file F "
                                   "(`-` for standard input)");
    dprintf(tty, "%sThe %s%s (it is not shown): ",
            *agent ? "A log-in in a browser is /auth in the chat. An empty line ends this.\n" : "",
            *agent ? "credential of " : "sealed-token", agent);
    TRY(terminal_silent(tty));
    err_t e = secret_take(tty, true, room, size, ret);
    terminal_restore();
    dprintf(tty, "\n");
    return e;
}

err_t verb_auth(const struct call *call, int *ret_status) {
    (void)ret_status;
    static char room[CREDENTIAL_MAX + 1];
    bool sealed = call_option(call, "sealed");
    const char *agent = sealed ? "" : call->args[0], *path = call_option(call, "token-file");
    size_t n = 0;
    if (sealed == (call->args[0] != NULL))
        return err_new(EXIT_USAGE, "auth: an agent's name, or --sealed for the token of all sealed agents");
    if (!sealed)
        TRY(name_check(agent));
    err_t e = path ? secret_read(path, room, sizeof room, &n) : ask(agent, room, sizeof room, &n);
    if (!e && n > CREDENTIAL_MAX)
        e = err_new(EXIT_USAGE, "that is no credential: it is longer than %d bytes", CREDENTIAL_MAX);
    if (!e && !path && n <= 1)
        e = err_new(EXIT_USAGE,
                    "no credential was given; in `agent-cage chat`, /auth NAME logs in by a browser");
    struct msg m = {.type = MSG_op_auth};
    m.op_auth.agent = bytes_of(agent);
    m.op_auth.kind = bytes_of("");
    m.op_auth.credential = (struct bytes){room, n};
    if (!e)
        e = operator_call(&m);
    explicit_bzero(room, sizeof room);
    return e;
}
