/* The link to the web page, asked of the relay once the fleet is up. */
#ifndef UP_WEB_LINK_H
#define UP_WEB_LINK_H

/* Prints it, or why there is none; nothing when the page is off. Waits two seconds at most.
 * self: what a person calls this program. */
void web_link_print(const char *self);

#endif
