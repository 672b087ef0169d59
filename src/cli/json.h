/*
 * Answers of the fleet as JSON: the words of --json, kept stable and told in the man pages. Printed in ASCII,
 * so that no byte in it means anything to a terminal.
 */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include "proto/msg.h"

#include <jansson.h>
#include <stdio.h>

#define own_json __attribute__((cleanup(json_decrefp)))

/* Any bytes: what is not UTF-8 becomes U+FFFD. */
json_t *json_text(const struct bytes *b);

/* Each of these returns a new reference, never NULL. */
json_t *json_of_agent(const struct msg_relay_agent *a);
json_t *json_of_status(const struct msg_relay_status *s);
json_t *json_of_event(const struct msg_relay_event *e);

/* One line. */
void json_print(const json_t *j, FILE *to);

#endif
