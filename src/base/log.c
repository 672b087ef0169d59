#include "base/log.h"
#include "base/clock.h"
#include "base/escape.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char part_name[64] = "agent-cage";
static log_sink *sink_fn;
static void *sink_ctx;

void log_open(const char *part) {
    snprintf(part_name, sizeof part_name, "%s", part);
}

void log_to(log_sink *sink, void *ctx) {
    sink_fn = sink;
    sink_ctx = ctx;
}

static void write_line(enum log_level level, const char *text) {
    if (sink_fn) {
        sink_fn(sink_ctx, level, text);
        return;
    }
    static const char *const mark[] = {"debug: ", "", "warning: ", "error: "};
    char when[CLOCK_ISO_MAX], line[LOG_LINE_MAX + 128];
    clock_iso(when, clock_wall_ms());
    int n = snprintf(line, sizeof line, "%s %s: %s%s\n", when, part_name, mark[level], text);
    if (n > 0)
        (void)!write(STDERR_FILENO, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

void log_at(struct log_site *site, enum log_level level, const char *fmt, ...) {
    int64_t second = clock_mono_ns() / 1000000000;
    if (second != site->second) {
        unsigned left_out = site->left_out;
        *site = (struct log_site){.second = second};
        if (left_out) {
            char text[64];
            snprintf(text, sizeof text, "(%u lines like the next were left out)", left_out);
            write_line(level, text);
        }
    }
    if (site->said++ >= LOG_BURST) {
        site->left_out++;
        return;
    }
    char raw[LOG_LINE_MAX], safe[LOG_LINE_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(raw, sizeof raw, fmt, ap);
    va_end(ap);
    write_line(level, escape_into(safe, sizeof safe, ESCAPE_LINE, raw, strlen(raw)));
}
