/* start, stop, restart: orders that the manager passes to the warden. */
#include "base/names.h"
#include "base/own.h"
#include "cli/client.h"
#include "cli/operator.h"
#include "cli/self.h"
#include "cli/verb.h"

#include <string.h>

enum { ORDER_WAIT_MS = 600000 }; /* making the rooms of a pod may take an image with it */

static err_t order(const struct call *call, const char *word, const char *done) {
    const char *agent = call->args[0];
    TRY(name_check(agent));
    own_client struct client c;
    TRY(client_open(&c, "cli"));
    struct msg m = {.type = MSG_front_order};
    m.front_order.order = bytes_of(word);
    m.front_order.agent = bytes_of(agent);
    struct client_end end;
    operator_goes_on();
    TRY(client_call(&c, &m, ORDER_WAIT_MS, NULL, NULL, &end));
    if (*end.text)
        self_print(stdout, end.text);
    else
        printf("%s %s", agent, done);
    putchar('\n');
    return NULL;
}

err_t verb_start(const struct call *call, int *ret_status) {
    (void)ret_status;
    return order(call, "start", "started");
}

err_t verb_stop(const struct call *call, int *ret_status) {
    (void)ret_status;
    return order(call, "stop", "stopped");
}

err_t verb_restart(const struct call *call, int *ret_status) {
    (void)ret_status;
    return order(call, "restart", "restarted");
}
