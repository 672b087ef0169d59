/* The relay's start-up order: locked in, control socket, router, fronts, ready, loop. */
#include "base/lockin.h"
#include "base/log.h"
#include "base/own.h"
#include "base/paths.h"
#include "part/part.h"
#include "relay/front.h"
#include "relay/relay.h"
#include "relay/router.h"

#include <stdlib.h>

struct relay {
    struct part *part;
    struct router *router;
};

static void on_link(void *ctx, enum link_id link, const char *peer, int fd) {
    (void)peer;
    struct relay *relay = ctx;
    if (link == LINK_relay_manager)
        router_manager(relay->router, fd);
    else
        own_closep(&fd); /* the relay speaks to nobody else */
}

static const struct part_ops part_ops = {.on_link = on_link};

/*
 * What it listens on it was given; the Telegram front alone goes out, by TCP. In its folder the fronts keep what they must not
 * forget.
 */
static void lock_in(const char *state) {
    const struct lockin_spec spec = {.part = "relay",
                                     .calls = LOCKIN_NETWORK,
                                     .nfds = PART_WEB + 1,
                                     .read = {"/etc/resolv.conf", "/etc/hosts", getenv("AGENT_CAGE_CA")},
                                     .write = {state}};
    own_buf struct buf lacks = {0};
    err_t e = lockin(&spec, &lacks);
    if (e)
        die(e);
    if (lacks.len)
        log_warn("this kernel lacks: %s", buf_text(&lacks));
}

int relay_main(int argc, char **argv) {
    (void)argc, (void)argv;
    log_open("relay");
    err_t e = paths_open();
    if (e)
        die(e);
    own_free char *state = path_of(DIR_LIB "/relay");
    lock_in(state);
    struct event_base *base = event_base_new();
    struct relay relay = {0};
    e = part_new(base, PART_CONTROL, "relay", &part_ops, &relay, &relay.part);
    if (e)
        die(e);
    relay.router = router_new(base, relay.part);
    if ((e = fronts_start(base, relay.router)))
        die(e);
    part_ready(relay.part);
    event_base_dispatch(base);
    fronts_stop();
    router_free(relay.router);
    part_free(relay.part);
    event_base_free(base);
    return 0;
}
