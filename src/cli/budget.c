/* budget: shown as the strip has it, set through the warden. */
#include "base/names.h"
#include "base/own.h"
#include "cli/client.h"
#include "cli/operator.h"
#include "cli/verb.h"
#include "proto/budget.h"
#include "proto/strip.h"

static err_t on_status(void *ctx, struct msg *m) {
    if (m->type == MSG_relay_status)
        strip_budget(ctx, &m->relay_status);
    return NULL;
}

static err_t show(const char *agent) {
    own_client struct client c;
    own_buf struct buf text = {0};
    TRY(client_open(&c, "cli"));
    struct msg m = {.type = MSG_front_status};
    m.front_status.agent = bytes_of(agent);
    TRY(client_call(&c, &m, CLIENT_WAIT_MS, on_status, &text, NULL));
    printf("%s", text.len ? buf_text(&text) : "no tokens were used, and there is no budget\n");
    return NULL;
}

err_t verb_budget(const struct call *call, int *ret_status) {
    (void)ret_status;
    struct budget b;
    TRY(name_check(call->args[0]));
    if (!call->args[1])
        return show(call->args[0]);
    TRY(budget_of(call->args[1], &b)); /* also said by the warden; here without a fleet */
    struct msg m = {.type = MSG_op_budget};
    m.op_budget.agent = bytes_of(call->args[0]);
    m.op_budget.limit = bytes_of(call->args[1]);
    return operator_call(&m);
}
