#include "proto/strip.h"
#include "base/clock.h"
#include "base/escape.h"
#include "proto/budget.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { SURVIVORS_SHOWN = 5 };

static void safe(struct buf *out, const struct bytes *b) {
    escape_text(out, ESCAPE_LINE, b->p, b->len);
}

static bool is(const struct bytes *b, const char *word) {
    return b->len == strlen(word) && !memcmp(b->p, word, b->len);
}

void strip_size(char out[STRIP_SIZE_MAX], uint64_t bytes) {
    static const char units[] = "BKMGTPE";
    size_t unit = 0;
    double n = (double)bytes;
    for (; n >= 1024 && units[unit + 1]; unit++)
        n /= 1024;
    snprintf(out, STRIP_SIZE_MAX, unit && n < 100 ? "%.1f%c" : "%.0f%c", n, units[unit]);
}

static void head(struct buf *out, const struct msg_relay_status *s) {
    buf_adds(out, "[");
    safe(out, &s->agent);
    buf_adds(out, "] ");
    safe(out, &s->agent);
    buf_adds(out, " — ");
    safe(out, &s->state);
    if (s->why.len) {
        buf_adds(out, ": ");
        safe(out, &s->why);
    }
    if (s->up_ms) {
        char span[CLOCK_SPAN_MAX];
        clock_span(span, (int64_t)s->up_ms);
        buf_printf(out, " · up %s", span);
    }
    buf_adds(out, "\n");
}

static void work(struct buf *out, const struct msg_relay_status *s) {
    buf_adds(out, "◦ ");
    buf_count(out, s->sessions, "active session", "active sessions");
    buf_adds(out, " · ");
    buf_count(out, s->processes, "process", "processes");
    if (s->pids_max && s->processes >= s->pids_max - s->pids_max / 16)
        buf_printf(out, " (no more than %" PRIu64 " may be)", s->pids_max);
    if (s->memory_used) {
        char used[STRIP_SIZE_MAX], most[STRIP_SIZE_MAX];
        strip_size(used, s->memory_used);
        strip_size(most, s->memory_max);
        buf_printf(out, s->memory_max ? " · %s of %s memory" : " · %s memory", used, most);
    }
    if (s->memory_kills) {
        buf_adds(out, " · ");
        buf_count(out, s->memory_kills, "process was", "processes were");
        buf_adds(out, " killed for lack of memory");
    }
    if (s->full.len) {
        buf_adds(out, " · full: ");
        safe(out, &s->full);
    }
    if (s->queued) {
        buf_adds(out, " · ");
        buf_count(out, s->queued, "message waits", "messages wait");
    }
    buf_adds(out, "\n");
}

/* Commands that a command left behind, one a line of survivor_text. */
static void survivors(struct buf *out, const struct msg_relay_status *s) {
    if (!s->survivors)
        return;
    buf_adds(out, "◦ still running after its command: ");
    buf_count(out, s->survivors, "process", "processes");
    buf_adds(out, " (ends with /stop or `stop`)\n");
    const char *p = s->survivor_text.p, *end = p + s->survivor_text.len;
    for (int shown = 0; p < end && shown < SURVIVORS_SHOWN; shown++) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        struct bytes line = {p, (size_t)((newline ? newline : end) - p)};
        buf_adds(out, "    ");
        safe(out, &line);
        buf_adds(out, "\n");
        p += line.len + 1;
    }
}

static void last_command(struct buf *out, const struct msg_relay_status *s, int64_t now_wall_ms) {
    if (!s->last_command_wall_ms) {
        buf_adds(out, "◆ no command ran yet\n");
        return;
    }
    char span[CLOCK_SPAN_MAX];
    clock_span(span, now_wall_ms - (int64_t)s->last_command_wall_ms);
    buf_printf(out, "◆ last command ran as the executor %s ago\n", span);
}

void strip_tokens(char out[STRIP_SIZE_MAX], uint64_t tokens) {
    double n = (double)tokens;
    if (tokens < 1000)
        snprintf(out, STRIP_SIZE_MAX, "%u", (unsigned)tokens);
    else if (tokens < 100 * 1000 * 1000)
        snprintf(out, STRIP_SIZE_MAX, "%.1fk", n / 1e3);
    else
        snprintf(out, STRIP_SIZE_MAX, "%.1fM", n / 1e6);
}

void strip_budget(struct buf *out, const struct msg_relay_status *s) {
    char used[STRIP_SIZE_MAX], limit[STRIP_SIZE_MAX], session[STRIP_SIZE_MAX];
    if (!s->model_requests && !s->budget_limit)
        return;
    uint64_t all = s->tokens_input + s->tokens_output + s->tokens_cache_read + s->tokens_cache_write;
    strip_tokens(used, s->budget_limit ? s->budget_used : all);
    strip_tokens(limit, s->budget_limit);
    strip_tokens(session, s->tokens_session);
    const char *span = budget_span_name(s->budget_span_s);
    buf_printf(out, "▪ model: %s%s%s tok%s%s", used, s->budget_limit ? " of " : "",
               s->budget_limit ? limit : "", s->budget_limit ? *span ? " this " : " in all" : "",
               s->budget_limit ? span : "");
    if (s->budget_limit && s->budget_used >= s->budget_limit)
        buf_adds(out, " — USED UP");
    buf_printf(out, " · %s tok this session", session);
    if (s->cost_micro)
        buf_printf(out, " · cost %llu.%02llu", (unsigned long long)(s->cost_micro / 1000000),
                   (unsigned long long)(s->cost_micro / 10000 % 100));
    buf_adds(out, "\n");
}

void strip_agent(struct buf *out, const struct msg_relay_status *s, int64_t now_wall_ms) {
    head(out, s);
    if (s->login.len) {
        buf_adds(out, "▪ ");
        safe(out, &s->login);
        buf_adds(out, "\n");
    }
    if (is(&s->mode, "bare"))
        buf_adds(
            out,
            "▪ bare: commands run as an ordinary account of this machine, without a sandbox and with its "
            "whole network\n");
    if (is(&s->mode, "sealed"))
        buf_adds(out, "▪ sealed: commands reach the internet and nothing local; what they leave in the "
                      "project is untrusted\n");
    strip_budget(out, s);
    work(out, s);
    survivors(out, s);
    last_command(out, s, now_wall_ms);
}

void strip_host(struct buf *out, const struct msg_relay_status *s) {
    char free_text[STRIP_SIZE_MAX], total[STRIP_SIZE_MAX];
    strip_size(free_text, s->host_memory_free);
    strip_size(total, s->host_memory_total);
    uint64_t used =
        s->host_memory_total > s->host_memory_free ? s->host_memory_total - s->host_memory_free : 0;
    unsigned percent =
        s->host_memory_total ? (unsigned)((double)used * 100 / (double)s->host_memory_total) : 0;
    buf_printf(out, "— host —\n▫ RAM: %s free of %s (%u%% used) · CPU %llu%% now, %llu%% 5min (", free_text,
               total, percent, (unsigned long long)s->host_cpu_now, (unsigned long long)s->host_cpu_5min);
    buf_count(out, s->host_cores, "core", "cores");
    buf_adds(out, ")\n");
}
