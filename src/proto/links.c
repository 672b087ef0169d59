#include "proto/links.h"

#include <stddef.h>

const struct link_row link_rows[LINK_COUNT] = {
#define LINK(name, commander, obeyer, made, first) [LINK_##name] = {#name, commander, obeyer, made, first},
#include "proto/links.def"
#undef LINK
};

const char *link_moment_name(enum link_moment m) {
    static const char *const names[] = {[NEW] = "new",     [OPEN] = "open", [IDLE] = "idle", [BUSY] = "busy",
                                        [LOGIN] = "login", [DONE] = "done", [SAME] = "same"};
    return (size_t)m < sizeof names / sizeof names[0] ? names[m] : "?";
}
