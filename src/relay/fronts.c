#include "relay/front.h"

#include <string.h>

const struct front_row front_rows[FRONTS + 1] = {
#define FRONT(name, askers, questions, text, word)                                                           \
    {#name, front_##name##_start, front_##name##_stop, word, askers, questions, text},
#include "relay/fronts.def"
#undef FRONT
    {NULL, NULL, NULL, NULL, 0, 0, 0}};

static struct front *fronts[FRONTS];

err_t fronts_start(struct event_base *base, struct router *router) {
    for (size_t i = 0; i < FRONTS; i++)
        TRY(front_rows[i].start(&front_rows[i], base, router, &fronts[i]));
    return NULL;
}

void fronts_stop(void) {
    for (size_t i = 0; i < FRONTS; i++)
        front_rows[i].stop(fronts[i]);
}

err_t fronts_word(struct bytes front, struct bytes word, struct bytes data, struct buf *ret) {
    for (size_t i = 0; i < FRONTS; i++)
        if (strlen(front_rows[i].name) == front.len && !memcmp(front_rows[i].name, front.p, front.len) &&
            front_rows[i].word)
            return front_rows[i].word(fronts[i], word, data, ret);
    return err_new(EXIT_USAGE, "no front of that name takes words");
}
