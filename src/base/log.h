/*
 * One event a line, bounded, every control byte escaped, at most LOG_BURST lines a second from one place in
 * the source (what was left out is counted and said). Only rooms and main()s log; base, proto, wire and cage
 * return errors.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum { LOG_LINE_MAX = 1024, LOG_BURST = 20 };

struct log_site {
    int64_t second; /* monotonic second of the last line */
    unsigned said, left_out;
};

/* Where lines go; the text is one escaped line without a newline. Default: "<UTC time> part: text" on
 * standard error. */
typedef void log_sink(void *ctx, enum log_level level, const char *text);

/* `part` names this process ("relay", "agent demo"); copied. */
void log_open(const char *part);
void log_to(log_sink *sink, void *ctx); /* NULL: back to standard error */

void log_at(struct log_site *site, enum log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#define LOG_SITE(level, ...)                                                                                 \
    do {                                                                                                     \
        static struct log_site log_site_;                                                                    \
        log_at(&log_site_, level, __VA_ARGS__);                                                              \
    } while (0)
#define log_info(...) LOG_SITE(LOG_INFO, __VA_ARGS__)
#define log_warn(...) LOG_SITE(LOG_WARN, __VA_ARGS__)
#define log_error(...) LOG_SITE(LOG_ERROR, __VA_ARGS__)

#endif
