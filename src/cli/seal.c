/* seal: a running conversation moves into a sealed cage. */
#include "base/names.h"
#include "cli/operator.h"
#include "cli/verb.h"

err_t verb_seal(const struct call *call, int *ret_status) {
    (void)ret_status;
    TRY(name_check(call->args[0]));
    struct msg m = {.type = MSG_op_seal};
    m.op_seal.agent = bytes_of(call->args[0]);
    return operator_call(&m);
}
