/* A call that must go well, and one that must not. */
#ifndef UNIT_GOOD_H
#define UNIT_GOOD_H

#include "base/own.h"

#define NO_ERROR(call)                                                                                       \
    do {                                                                                                     \
        own_err err_t e_ = (call);                                                                           \
        if (e_)                                                                                              \
            fail_msg("%s", err_text(e_));                                                                    \
    } while (0)
#define AN_ERROR(call)                                                                                       \
    do {                                                                                                     \
        own_err err_t e_ = (call);                                                                           \
        assert_non_null(e_);                                                                                 \
    } while (0)

#endif
