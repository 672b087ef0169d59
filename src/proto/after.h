/*
 * The `after` of front_events, front_log and their like: "what came after this seq", or counted from the end.
 * A front that was away asks for what came after the last seq that it showed; a fresh one has no seq yet.
 */
#ifndef PROTO_AFTER_H
#define PROTO_AFTER_H

#include <stdbool.h>
#include <stdint.h>

/* The last n that there are; after_last(0): only what comes from now on. n below 2^63. */
static inline uint64_t after_last(uint64_t n) {
    return UINT64_MAX - n;
}

/* Is it counted from the end? Then *ret_n is how many. */
static inline bool after_is_last(uint64_t after, uint64_t *ret_n) {
    *ret_n = UINT64_MAX - after;
    return after > INT64_MAX;
}

#endif
