/*
 * One record of any bytes through the strict codec. What decodes must encode to the very same bytes (one
 * meaning, one form), must be a row of the table, and must lie within that row's bounds.
 */
#include "base/buf.h"
#include "base/escape.h"
#include "base/own.h"
#include "proto/msg.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    own_msg struct msg m = {0};
    unsigned flags = 0;
    own_err err_t e = msg_decode(data, size, &m, &flags);
    if (e)
        return 0;
    if (m.type <= MSG_none || m.type >= MSG_COUNT || m.nfds)
        abort();
    own_buf struct buf again = {0};
    own_err err_t e2 = msg_encode(&m, &again);
    if (e2)
        abort();
    /* The flags belong to the carrier (the record came in a memfd), not to the meaning. */
    if (!(flags & MSG_IN_MEMFD) && (again.len != size || memcmp(again.p, data, size)))
        abort();
    return 0;
}
