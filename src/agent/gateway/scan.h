/*
 * What a model's API says that a request used, read out of its answer as it passes: JSON, or server-sent events with JSON
 * in their data. The documents may be long; what is kept of them is bounded: the object `usage` and the name `model`, where
 * the vendors put them (at the top, in `message`, in `response`). The same words inside a text or deeper are no figures.
 */
#ifndef AGENT_GATEWAY_SCAN_H
#define AGENT_GATEWAY_SCAN_H

#include "proto/upstream.h"

#include <stddef.h>

struct tokens {
    uint64_t input, output, cache_read, cache_write; /* input: without those from the cache */
};

enum { SCAN_USAGE_MAX = 8192, SCAN_MODEL_MAX = 128, SCAN_DEPTH = 3 };

struct scan {
    enum vendor vendor;
    bool events; /* text/event-stream */

    /* of a line of events */
    enum { LINE_FIELD, LINE_DATA, LINE_OTHER } line;
    char field[8];
    size_t nfield;

    /* of a JSON document */
    unsigned depth;
    bool object[SCAN_DEPTH + 1], in_string, escaped, want_key;
    int key[SCAN_DEPTH + 1]; /* under which the value stands that is being read, at each depth */
    char text[SCAN_MODEL_MAX];
    size_t ntext;
    unsigned caught_at; /* the depth that ends the object being kept; 0: none is */
    char usage[SCAN_USAGE_MAX];
    size_t nusage;

    struct tokens
        seen; /* the most that was said of each so far: they are said again, and rise, within one answer */
    char model[SCAN_MODEL_MAX];
};

void scan_begin(struct scan *s, enum vendor vendor, bool events);
void scan_feed(struct scan *s, const char *p, size_t n);

#endif
