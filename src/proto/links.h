/* The links of links.def as types: names, moments, directions. */
#ifndef PROTO_LINKS_H
#define PROTO_LINKS_H

#include <stdbool.h>

enum link_id {
#define LINK(name, commander, obeyer, made, first) LINK_##name,
#include "proto/links.def"
#undef LINK
    LINK_COUNT
};

enum link_way { DOWN, UP };
enum link_made { PAIR, SOCKET, LISTENER };

/*
 * Moments of a link.
 *   NEW   nothing was said; only a hello (or a shim's one request) may come
 *   OPEN  both know whom they speak to
 *   IDLE  no turn is under way
 *   BUSY  one turn, or one command, is under way
 *   LOGIN the vendor's log-in is under way, which no turn is and no turn's end ends
 *   DONE  the last word was said; nothing may come
 */
enum link_moment { NEW, OPEN, IDLE, BUSY, LOGIN, DONE, SAME };
#define AT(moment) (1u << (moment))

struct link_row {
    const char *name, *commander, *obeyer;
    enum link_made made;
    enum link_moment first;
};

/* Where harness_model listens: the harness's own 127.0.0.1. */
enum { MODEL_PORT = 4100 };

extern const struct link_row link_rows[LINK_COUNT];
const char *link_moment_name(enum link_moment m);

#endif
