/*
 * Numbers from words, strictly: the whole text is the number, ASCII digits alone, no sign, no blank, nothing
 * that overflows. Each function leaves *ret untouched when it fails; the error (EXIT_USAGE) quotes the text,
 * escaped, so the caller only adds where it came from: err_wrap(e, "--memory").
 */
#ifndef BASE_PARSE_H
#define BASE_PARSE_H

#include "base/err.h"

#include <stdint.h>

/* "0" to max, decimal. "" and "007" are refused ("0" itself is fine). */
err_t parse_u64(const char *text, uint64_t max, uint64_t *ret);

/* Bytes: "4096", "512k", "512m", "4g", "1t" (powers of 1024; capitals too). */
err_t parse_size(const char *text, uint64_t *ret);

/* Milliseconds: "30" (seconds), "250ms", "30s", "2m", "1h", "7d". */
err_t parse_span(const char *text, uint64_t *ret_ms);

/* Thousandths of a processor: "2" is 2000, "1.5" is 1500, "0.25" is 250. At least 0.01, at most 4096. */
err_t parse_cpus(const char *text, uint64_t *ret_milli);

#endif
