/* The relay: routes between the fronts and the manager, and holds the chat identity. Started by the warden.
 */
#ifndef RELAY_RELAY_H
#define RELAY_RELAY_H

int relay_main(int argc, char **argv);

#endif
