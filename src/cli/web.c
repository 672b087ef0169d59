/* web: root's words to the web front. */
#include "base/own.h"
#include "cli/client.h"
#include "cli/self.h"
#include "cli/verb.h"

#include <string.h>

err_t verb_web(const struct call *call, int *ret_status) {
    (void)ret_status;
    if (strcmp(call->args[0], "login") && strcmp(call->args[0], "logout"))
        return err_new(EXIT_USAGE, "web: login or logout, not %s; see `agent-cage help web`", call->args[0]);
    own_client struct client c;
    TRY(client_open(&c, "cli"));
    struct msg m = {.type = MSG_front_word};
    m.front_word.front = bytes_of("web");
    m.front_word.word = bytes_of(call->args[0]);
    struct client_end end;
    TRY(client_call(&c, &m, CLIENT_WAIT_MS, NULL, NULL, &end));
    self_print(stdout, end.text);
    putchar('\n');
    return NULL;
}
