/* rm: an agent and all that was made for it, but its project. */
#include "base/names.h"
#include "cli/operator.h"
#include "cli/verb.h"

err_t verb_rm(const struct call *call, int *ret_status) {
    (void)ret_status;
    TRY(name_check(call->args[0]));
    struct msg m = {.type = MSG_op_rm};
    m.op_rm.agent = bytes_of(call->args[0]);
    return operator_call(&m);
}
