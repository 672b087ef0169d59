/*
 * While a log-in is under way, and only then, the gateway is also a proxy (RFC 9110, CONNECT) to the few hosts of that log-in:
 * the vendor's program speaks TLS with them itself, end to end, and nothing is read or put in here. With the log-in's end
 * every tunnel is closed.
 */
#ifndef AGENT_GATEWAY_TUNNEL_H
#define AGENT_GATEWAY_TUNNEL_H

#include "agent/gateway/inside.h"

/* Takes `down`, whose CONNECT for `target` was read. True: it is a host of the log-in. False: nothing was taken. */
bool tunnel_open(struct gateway *g, struct bufferevent *down, struct bytes target);
void tunnels_close(struct gateway *g);

#endif
