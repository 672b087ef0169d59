/*
 * The web page's listener on 127.0.0.1, made by root and handed to the relay. The default port lies below 1024: so no other
 * account of this host can take its place while the fleet is down, and be shown a browser's cookie.
 */
#ifndef WARDEN_WEB_DOOR_H
#define WARDEN_WEB_DOOR_H

#include "base/err.h"

struct warden;

/*
 * In a worker. /dev/null in place of a listener when the page is off, or when the port is another program's: then that is
 * said through `report` (worker_say), and the fleet does without.
 */
err_t web_door_open(const struct warden *w, int report, int *ret_fd);

#endif
