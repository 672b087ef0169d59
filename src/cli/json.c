#include "cli/json.h"
#include "base/escape.h"
#include "base/hex.h"
#include "base/own.h"
#include "proto/token_key.h"

json_t *json_text(const struct bytes *b) {
    own_buf struct buf utf8 = {0};
    escape_utf8(&utf8, b->p, b->len);
    return json_stringn_nocheck(buf_text(&utf8), utf8.len);
}

static void text(json_t *j, const char *key, const struct bytes *b) {
    json_object_set_new(j, key, json_text(b));
}

static void number(json_t *j, const char *key, uint64_t n) {
    json_object_set_new(j, key, json_integer(n > INT64_MAX ? INT64_MAX : (json_int_t)n));
}

json_t *json_of_agent(const struct msg_relay_agent *a) {
    json_t *j = json_object();
    text(j, "name", &a->agent);
    text(j, "state", &a->state);
    text(j, "why", &a->why);
    text(j, "mode", &a->mode);
    text(j, "harness", &a->harness);
    text(j, "project", &a->project);
    text(j, "net", &a->net);
    number(j, "since_ms", a->since_wall_ms);
    return j;
}

static json_t *host_of(const struct msg_relay_status *s) {
    json_t *j = json_object();
    number(j, "memory_total", s->host_memory_total);
    number(j, "memory_free", s->host_memory_free);
    number(j, "cpu_now_percent", s->host_cpu_now);
    number(j, "cpu_5min_percent", s->host_cpu_5min);
    number(j, "cores", s->host_cores);
    return j;
}

static json_t *model_of(const struct msg_relay_status *s) {
    json_t *j = json_object();
    number(j, "requests", s->model_requests);
    number(j, "input_tokens", s->tokens_input);
    number(j, "output_tokens", s->tokens_output);
    number(j, "cache_read_tokens", s->tokens_cache_read);
    number(j, "cache_write_tokens", s->tokens_cache_write);
    number(j, "session_tokens", s->tokens_session);
    number(j, "cost_millionths", s->cost_micro);
    number(j, "budget_used", s->budget_used);
    number(j, "budget_limit", s->budget_limit);
    number(j, "budget_span_s", s->budget_span_s);
    number(j, "budget_until_ms", s->budget_until_wall_ms);
    return j;
}

static void token_key(json_t *j, const struct msg_relay_status *s) {
    char shown[TOKEN_SHOWN] = "";
    if (s->token_key.len)
        token_key_shown(shown, s->token_key);
    json_object_set_new(j, "token_key", json_string(shown));
}

json_t *json_of_status(const struct msg_relay_status *s) {
    json_t *j = json_object();
    text(j, "name", &s->agent);
    text(j, "state", &s->state);
    text(j, "why", &s->why);
    text(j, "mode", &s->mode);
    text(j, "harness", &s->harness);
    text(j, "project", &s->project);
    text(j, "net", &s->net);
    text(j, "login", &s->login);
    token_key(j, s);
    number(j, "up_ms", s->up_ms);
    number(j, "sessions", s->sessions);
    number(j, "processes", s->processes);
    number(j, "processes_max", s->pids_max);
    number(j, "survivors", s->survivors);
    text(j, "survivor_text", &s->survivor_text);
    number(j, "last_command_ms", s->last_command_wall_ms);
    number(j, "queued", s->queued);
    number(j, "memory_used", s->memory_used);
    number(j, "memory_max", s->memory_max);
    number(j, "memory_kills", s->memory_kills);
    text(j, "full", &s->full);
    json_object_set_new(j, "model", model_of(s));
    json_object_set_new(j, "host", host_of(s));
    return j;
}

static void question(json_t *j, const struct msg_relay_event *e) {
    number(j, "question", e->question);
    if (!e->choices.n)
        return;
    char hex[2 * 32 + 1];
    hex_put(hex, e->digest.p, e->digest.len < 32 ? e->digest.len : 32);
    json_object_set_new(j, "digest", json_string(hex));
    number(j, "until_ms", e->until_wall_ms);
    json_t *choices = json_array();
    for (size_t i = 0; i < e->choices.n; i++)
        json_array_append_new(choices, json_text(&e->choices.v[i]));
    json_object_set_new(j, "choices", choices);
}

json_t *json_of_event(const struct msg_relay_event *e) {
    json_t *j = json_object();
    number(j, "seq", e->seq);
    text(j, "agent", &e->agent);
    number(j, "id", e->id);
    text(j, "kind", &e->kind);
    text(j, "who", &e->who);
    number(j, "time_ms", e->wall_ms);
    json_object_set_new(j, "status", json_integer(e->status));
    number(j, "span_ms", e->span_ms);
    text(j, "text", &e->text);
    if (e->name.len || e->call.len) {
        text(j, "call", &e->call);
        text(j, "name", &e->name);
    }
    if (e->tokens || e->tools) {
        number(j, "tokens", e->tokens);
        number(j, "tool_calls", e->tools);
    }
    if (e->question)
        question(j, e);
    return j;
}

void json_print(const json_t *j, FILE *to) {
    own_free char *line = json_dumps(j, JSON_ENSURE_ASCII | JSON_COMPACT);
    fprintf(to, "%s\n", line ? line : "null");
}
