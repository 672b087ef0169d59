/* One line of a harness's protocol as JSON (RFC 8259), and careful looks into it: whatever its shape, nothing fails. */
#ifndef HARNESS_JSON_LINE_H
#define HARNESS_JSON_LINE_H

#include "base/buf.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * NULL: it is no JSON object. p[0..n) is put right first, in place: what programs write that cut texts between the halves
 * of a character, "\ud83d" alone, or bytes that are no UTF-8, is legal in their eyes and would cost the whole line.
 */
json_t *json_line(char *p, size_t n);

/* The member of that name along a path of them, "" or 0 when it is not there or of another type. */
const json_t *json_at(const json_t *j, const char *path); /* "message.content"; NULL: not there */
const char *json_words(const json_t *j, const char *path);
uint64_t json_count(const json_t *j, const char *path); /* negative numbers are 0 */
bool json_says(const json_t *j, const char *path, const char *value);

void json_release(json_t **j);
#define own_json __attribute__((cleanup(json_release)))

#endif
