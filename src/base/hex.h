/* Bytes as hexadecimal digits, two each. */
#ifndef BASE_HEX_H
#define BASE_HEX_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum { HEX_RANDOM_MAX = 64, HEX_KEY = 33 };

/* -1: it is none. Capitals are digits too. */
int hex_digit(char c);

/* n bytes as 2n small digits and a NUL. */
void hex_put(char *out, const void *p, size_t n);

/* The n bytes of a text of exactly 2n digits; false: it is none. */
bool hex_get(const char *text, void *ret, size_t n);

/* n random bytes, at most HEX_RANDOM_MAX, as hex_put() writes them. */
err_t hex_random(char *ret, size_t n);

/* A key that nobody else has: 128 random bits. */
err_t hex_key(char ret[HEX_KEY]);

#endif
