/*
 * Claude Code: one program for many turns, JSON lines both ways (`-p --input-format stream-json --output-format stream-json`).
 *
 * A turn is a "user" line with an id of ours; the program echoes it when it takes it up (--replay-user-messages), and the
 * next "result" ends the turn. A result before that echo belongs to something that it began by itself, for example because
 * a background command ended. /stop is its control request "interrupt", which keeps the conversation.
 *
 * Only the user's own settings count (--setting-sources user), so hooks, helpers, status lines, servers and environments that
 * a project brings are not read; permission prompts are off, the cage is the boundary. WebFetch and WebSearch are off: this
 * room has no network, and `curl` in the executor has what the person allowed.
 *
 * It tells the conversation's id before it writes anything of it down, up to after the turn's end; CLAUDE_CODE_EAGER_FLUSH makes it
 * wait for its file, else one that is killed then is not found again.
 */
#include "base/own.h"
#include "harness/json_line.h"
#include "harness/vendor.h"

#include <stdlib.h>
#include <string.h>

struct claude {
    uint64_t turns; /* for the ids of what is said */
    uint64_t requests;
    bool taken; /* the text of the turn was taken up */
};

static const struct vendor_word claude_argv[] = {
    {"-p", ALWAYS},
    {"--input-format", ALWAYS},
    {"stream-json", ALWAYS},
    {"--output-format", ALWAYS},
    {"stream-json", ALWAYS},
    {"--replay-user-messages", ALWAYS},
    {"--verbose", ALWAYS},
    {"--dangerously-skip-permissions", ALWAYS},
    {"--setting-sources", ALWAYS},
    {"user", ALWAYS},
    {"--strict-mcp-config", ALWAYS},
    {"--disallowedTools", ALWAYS},
    {"WebFetch,WebSearch", ALWAYS},
    {"--model", IF_MODEL},
    {"{model}", IF_MODEL},
    {"--resume", IF_SESSION},
    {"{session}", IF_SESSION},
    {NULL},
};

/* What is the same for Anthropic and for who speaks its API. */
#define CLAUDE_ENV                                                                                           \
    {"ANTHROPIC_BASE_URL={base_url}", ALWAYS}, {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", ALWAYS},       \
        {"DISABLE_AUTOUPDATER=1", ALWAYS}, {"IS_SANDBOX=1", ALWAYS},                                         \
        {"CLAUDE_CODE_SHELL=/bin/bash", ALWAYS}, {"CLAUDE_CODE_TMPDIR={scratch}", ALWAYS},                   \
        {"CLAUDE_CODE_EAGER_FLUSH=1", ALWAYS}, {                                                             \
        "USE_BUILTIN_RIPGREP=1", ALWAYS                                                                      \
    }

static const struct vendor_word claude_env[] = {
    CLAUDE_ENV,
    {"CLAUDE_CODE_OAUTH_TOKEN={placeholder}", IF_TOKEN},
    {"ANTHROPIC_API_KEY={placeholder}", IF_KEY},
    {NULL},
};

/* Z.AI documents its key as a bearer token; which of its models stands for which of Claude's is its server's to say. */
static const struct vendor_word zai_env[] = {
    CLAUDE_ENV,
    {"ANTHROPIC_AUTH_TOKEN={placeholder}", IF_TOKEN},
    {"ANTHROPIC_API_KEY={placeholder}", IF_KEY},
    {"API_TIMEOUT_MS=3000000", ALWAYS},
    {NULL},
};

/* --- what it says --- */

static void on_tool_use(struct vendor *v, const json_t *block) {
    tools_start(&v->tools, v->floor->up, json_words(block, "id"), json_words(block, "name"),
                json_at(block, "input"));
}

/* The text of a tool's result, which is a string or a list of blocks. */
static void on_tool_result(struct vendor *v, const json_t *block) {
    const json_t *content = json_at(block, "content");
    own_buf struct buf text = {0};
    if (json_is_string(content))
        buf_add(
            &text, json_string_value(content),
            strnlen(json_string_value(content),
                    TOOL_TEXT_MAX + 1)); /* tools_end() cuts between characters, and looks behind its cut */
    for (size_t i = 0; i < json_array_size(content) && text.len < TOOL_TEXT_MAX; i++)
        buf_adds(&text, json_words(json_array_get(content, i), "text"));
    tools_end(&v->tools, v->floor->up, json_words(block, "tool_use_id"),
              json_is_true(json_at(block, "is_error")), buf_text(&text));
}

static void on_assistant(struct vendor *v, const json_t *j) {
    const json_t *content = json_at(j, "message.content");
    bool of_main = json_is_null(json_at(j, "parent_tool_use_id")) || !json_at(j, "parent_tool_use_id");
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *block = json_array_get(content, i);
        if (json_says(block, "type", "tool_use"))
            on_tool_use(v, block);
        else if (json_says(block, "type", "text") && of_main && !json_at(j, "error"))
            vendor_says(v, json_words(block, "text"));
    }
}

static void on_user(struct vendor *v, const json_t *j) {
    struct claude *c = v->own;
    if (json_is_true(json_at(j, "isReplay"))) {
        c->taken = true;
        return;
    }
    const json_t *content = json_at(j, "message.content");
    for (size_t i = 0; i < json_array_size(content); i++) {
        const json_t *block = json_array_get(content, i);
        if (json_says(block, "type", "tool_result"))
            on_tool_result(v, block);
    }
}

static void on_system(struct vendor *v, const json_t *j) {
    if (json_says(j, "subtype", "init"))
        vendor_session(v, json_words(j, "session_id"), 0);
}

static const char *a_model(const json_t *j) {
    void *first = json_object_iter((json_t *)(uintptr_t)json_at(j, "modelUsage"));
    return first ? json_object_iter_key(first) : "";
}

static void on_result(struct vendor *v, const json_t *j) {
    struct claude *c = v->own;
    static const char *const counts[] = {"usage.input_tokens", "usage.output_tokens",
                                         "usage.cache_creation_input_tokens",
                                         "usage.cache_read_input_tokens"};
    uint64_t total = 0;
    for (size_t i = 0; i < COUNT(counts); i++)
        total += json_count(j, counts[i]);
    vendor_usage(v, a_model(j), total, json_at(j, "usage"));
    if (!c->taken)
        return;
    c->taken = false;
    bool bad = json_is_true(json_at(j, "is_error"));
    const char *why = json_words(j, "result");
    vendor_verdict(v, bad, bad ? (*why ? why : json_words(j, "subtype")) : "");
}

/* It asks; nobody here answers anything but no. */
static void on_request(struct vendor *v, const json_t *j) {
    json_t *no = json_pack("{s:s, s:{s:s, s:s, s:s}}", "type", "control_response", "response", "subtype",
                           "error", "request_id", json_words(j, "request_id"), "error", "not answered here");
    if (no)
        program_say(v->program, no);
}

static void claude_line(struct vendor *v, const json_t *j) {
    static const struct {
        const char *type;
        void (*fn)(struct vendor *, const json_t *); /* NULL: known, and nothing for us */
    } types[] = {{"assistant", on_assistant},
                 {"user", on_user},
                 {"system", on_system},
                 {"result", on_result},
                 {"control_request", on_request},
                 {"control_response", NULL},
                 {"control_cancel_request", NULL},
                 {"rate_limit_event", NULL},
                 {"stream_event", NULL},
                 {"keep_alive", NULL},
                 {"tool_progress", NULL},
                 {"auth_status", NULL},
                 {"tool_use_summary", NULL}};
    for (size_t i = 0; i < COUNT(types); i++)
        if (json_says(j, "type", types[i].type)) {
            if (types[i].fn)
                types[i].fn(v, j);
            return;
        }
    vendor_note(v, "Claude Code said something of a kind that is not known here: %.60s",
                json_words(j, "type"));
}

/* --- what it is told --- */

static err_t claude_begin(struct vendor *v, const char *text) {
    struct claude *c = v->own;
    c->taken = false;
    json_t *said =
        json_pack("{s:s, s:{s:s, s:s}}", "type", "user", "message", "role", "user", "content", text);
    if (!said || !program_say(v->program, said))
        return err_new(EXIT_FAILED, "Claude Code does not read what it is told");
    return NULL;
}

/* A refused conversation is a result too. */
static bool claude_took(const struct vendor *v) {
    const struct claude *c = v->own;
    return c->taken;
}

static void claude_interrupt(struct vendor *v) {
    struct claude *c = v->own;
    json_t *said = json_pack("{s:s, s:o, s:{s:s}}", "type", "control_request", "request_id",
                             json_sprintf("stop-%llu", (unsigned long long)++c->requests), "request",
                             "subtype", "interrupt");
    if (said)
        program_say(v->program, said);
}

const struct protocol claude_protocol = {
    .word = "claude",
    .program = "/cage/harness/claude",
    .lasts = true,
    .lost = "No conversation found with session ID",
    .took = claude_took,
    .argv = claude_argv,
    .env = claude_env,
    .begin = claude_begin,
    .line = claude_line,
    .interrupt = claude_interrupt,
    .own_size = sizeof(struct claude),
};

static err_t claude_open(const struct floor *f, void **ret) {
    return vendor_open(&claude_protocol, f, ret);
}

static err_t zai_open(const struct floor *f, void **ret) {
    static struct protocol zai;
    zai = claude_protocol;
    zai.word = "zai";
    zai.env = zai_env;
    return vendor_open(&zai, f, ret);
}

extern const struct harness claude_harness, zai_harness;
const struct harness claude_harness = VENDOR_HARNESS(claude_open);
const struct harness zai_harness = VENDOR_HARNESS(zai_open);
