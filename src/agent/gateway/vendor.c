#include "agent/gateway/vendor.h"
#include "base/own.h"

#include <jansson.h>
#include <stdlib.h>

static const struct {
    unsigned status;
    const char *reason, *anthropic, *openai,
        *openai_code; /* the type of the error; for OpenAI also its code */
} errors[GATE_ERRORS] = {
    [GATE_NOT_LOGGED_IN] = {401, "Unauthorized", "authentication_error", "invalid_request_error",
                            "invalid_api_key"},
    [GATE_ENDED] = {401, "Unauthorized", "authentication_error", "invalid_request_error", "invalid_api_key"},
    [GATE_RENEWING] = {503, "Service Unavailable", "api_error", "server_error", "log_in_renewed"},
    [GATE_OVER_BUDGET] = {429, "Too Many Requests", "rate_limit_error", "insufficient_quota",
                          "insufficient_quota"},
    [GATE_NOT_HERE] = {404, "Not Found", "not_found_error", "invalid_request_error", "unknown_url"},
    [GATE_BAD] = {400, "Bad Request", "invalid_request_error", "invalid_request_error", "invalid_request"},
    [GATE_UPGRADE] = {426, "Upgrade Required", "invalid_request_error", "invalid_request_error",
                      "no_websocket"},
    [GATE_NO_UPSTREAM] = {502, "Bad Gateway", "api_error", "server_error", "upstream_unreachable"},
    [GATE_BAD_ANSWER] = {502, "Bad Gateway", "api_error", "server_error", "upstream_broken"},
    [GATE_TOO_SLOW] = {504, "Gateway Timeout", "timeout_error", "server_error", "upstream_slow"},
};

struct vendor_place vendor_place(enum vendor v, enum login l) {
    if (v == ANTHROPIC && l == LOGIN_KEY)
        return (struct vendor_place){"x-api-key", ""};
    return (struct vendor_place){"authorization", "Bearer "};
}

static char *body_of(enum vendor v, enum gate_error what, const char *text) {
    json_t *o = v == OPENAI ? json_pack("{s:{s:s, s:s, s:n, s:s}}", "error", "message", text, "type",
                                        errors[what].openai, "param", "code", errors[what].openai_code)
                            : json_pack("{s:s, s:{s:s, s:s}}", "type", "error", "error", "type",
                                        errors[what].anthropic, "message", text);
    char *body = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    return body ? body : xstrdup("{}");
}

void vendor_error(struct buf *out, enum vendor v, enum gate_error what, const char *text, bool to_head,
                  bool close) {
    own_free char *body = body_of(v, what, text);
    buf_printf(out, "HTTP/1.1 %u %s\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n",
               errors[what].status, errors[what].reason, strlen(body));
    if (what == GATE_OVER_BUDGET || what == GATE_NOT_LOGGED_IN) /* the vendors' own libraries obey it */
        buf_adds(out, "x-should-retry: false\r\n");
    if (what == GATE_RENEWING)
        buf_adds(out, "x-should-retry: true\r\nretry-after: 1\r\n");
    if (what == GATE_UPGRADE)
        buf_adds(out, "upgrade: HTTP/1.1\r\nconnection: upgrade\r\n");
    buf_adds(out, close ? "connection: close\r\n\r\n" : "\r\n");
    if (!to_head)
        buf_adds(out, body);
}
