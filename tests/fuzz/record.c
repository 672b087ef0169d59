/* The agent's journal after any damage: a record is read whole and right, or not at all; what is read is written again as
 * the same bytes. */
#include "agent/record.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct record r = {0};
    size_t at = 0;
    for (size_t n; (n = record_get((const char *)data + at, size - at, &r)) != 0; at += n) {
        if (n > size - at)
            abort();
        own_buf struct buf again = {0};
        record_put(&again, &r);
        if (again.len != n || memcmp(again.p, data + at, n))
            abort();
    }
    record_free(&r);
    return 0;
}
