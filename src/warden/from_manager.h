/*
 * The warden's end of manager_warden: it answers questions about state, carries out start, stop and restart,
 * and keeps the heads of the audit chain. It tells the manager about the fleet, whole on each new link and then
 * each change. The manager cannot make an agent, remove one, or name a path, a program or an argument.
 */
#ifndef WARDEN_FROM_MANAGER_H
#define WARDEN_FROM_MANAGER_H

struct box;
struct warden;

/* A new link; fd is taken. */
void from_manager_open(struct warden *w, int fd);
void from_manager_close(struct warden *w);

/* has_agent, has_gone, has_report; nothing without a link (a new one starts with the whole fleet). */
void tell_agent(const struct box *b);
void tell_gone(struct warden *w, const char *name);
void tell_report(const struct box *b, const char *text);

#endif
