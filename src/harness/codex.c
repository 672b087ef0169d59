/*
 * Codex: `codex exec --json`, one program for each turn, `resume ID` from the second on; the text on its standard input, events
 * a line on its output. Its app-server would last, and can be interrupted in words; but its protocol is declared
 * experimental and changes with each version, while `exec` is documented, and a turn's start costs 0.3 s here.
 *
 * /stop is SIGINT: it ends its commands and itself, and what was said so far is in its rollout file, so the conversation
 * goes on. Figures are of the whole conversation: what was told before (session.number) is taken off.
 *
 * Which provider, hooks, servers: all of that is on the command line, which beats every file; a project's own configuration
 * is not read since the project is not trusted. Its shell is that of /etc/passwd, /bin/bash, in this room the shim.
 */
#include "harness/json_line.h"
#include "harness/vendor.h"
#include "base/own.h"

#include <signal.h>
#include <string.h>

static const struct vendor_word codex_argv[] = {
    {"exec", ALWAYS},
    {"--json", ALWAYS},
    {"--skip-git-repo-check", ALWAYS},
    {"--dangerously-bypass-approvals-and-sandbox", ALWAYS}, /* the cage is the boundary */
    {"-c", ALWAYS},
    {"model_provider=cage", ALWAYS},
    {"-c", ALWAYS},
    {"model_providers.cage.name=\"agent-cage\"", ALWAYS},
    {"-c", ALWAYS},
    {"model_providers.cage.base_url=\"{base_url}/v1\"", ALWAYS},
    {"-c", ALWAYS},
    {"model_providers.cage.wire_api=\"responses\"", ALWAYS},
    {"-c", ALWAYS},
    {"model_providers.cage.env_key=\"AGENT_CAGE_PLACEHOLDER\"", ALWAYS},
    {"-c", ALWAYS},
    {"features.plugins=false", ALWAYS},
    {"-c", ALWAYS},
    {"analytics.enabled=false", ALWAYS},
    {"-c", ALWAYS},
    {"check_for_update_on_startup=false", ALWAYS},
    {"-c", ALWAYS},
    {"web_search=\"disabled\"", ALWAYS}, /* this room has no network */
    {"-c", ALWAYS},
    {"projects.\"{project}\".trust_level=\"untrusted\"", ALWAYS},
    {"-m", IF_MODEL},
    {"{model}", IF_MODEL},
    {"resume", IF_SESSION},
    {"{session}", IF_SESSION},
    {"-", ALWAYS},
    {NULL},
};

static const struct vendor_word codex_env[] = {
    {"CODEX_HOME={home}/.codex", ALWAYS},
    {"AGENT_CAGE_PLACEHOLDER={placeholder}", ALWAYS},
    {NULL},
};

/* An item that is a tool call: its name for people, and the input that is shown. */
static const struct {
    const char *type, *name, *input;
} calls[] = {{"command_execution", "shell", ""},
             {"file_change", "apply_patch", ""},
             {"mcp_tool_call", "mcp", "arguments"},
             {"web_search", "web_search", ""}};

/* A command's own status where there is one. */
static int64_t status_of(const json_t *item) {
    json_int_t status = json_integer_value(json_at(item, "exit_code"));
    bool failed = json_says(item, "status", "failed") || json_says(item, "status", "declined");
    return status ? status : failed;
}

static void on_call(struct vendor *v, const json_t *item, size_t kind, bool over) {
    const char *id = json_words(item, "id");
    const json_t *changes = json_at(item, "changes");
    const json_t *input = json_is_array(changes) ? json_array_get(changes, 0) : item;
    if (!strcmp(calls[kind].input, "arguments"))
        input = json_at(item, "arguments");
    tools_start(&v->tools, v->floor->up, id, calls[kind].name, input);
    if (over)
        tools_end(&v->tools, v->floor->up, id, status_of(item), json_words(item, "aggregated_output"));
}

static void on_item(struct vendor *v, const json_t *j) {
    const json_t *item = json_at(j, "item");
    bool over = json_says(j, "type", "item.completed");
    for (size_t i = 0; i < COUNT(calls); i++)
        if (json_says(item, "type", calls[i].type))
            on_call(v, item, i, over);
    if (over && json_says(item, "type", "agent_message"))
        vendor_says(v, json_words(item, "text"));
    else if (over && json_says(item, "type", "error"))
        vendor_note(v, "%s", json_words(item, "message"));
}

static void on_thread(struct vendor *v, const json_t *j) {
    const char *id = json_words(j, "thread_id");
    vendor_session(v, id, strcmp(id, v->session.id) ? 0 : v->session.number);
}

static void on_turn_completed(struct vendor *v, const json_t *j) {
    uint64_t all = json_count(j, "usage.input_tokens") + json_count(j, "usage.output_tokens");
    uint64_t before = v->session.number < all ? v->session.number : 0;
    vendor_usage(v, v->floor->world->model, all - before, json_at(j, "usage"));
    vendor_session(v, v->session.id, all);
    vendor_verdict(v, 0, "");
}

static void on_turn_failed(struct vendor *v, const json_t *j) {
    vendor_verdict(v, 1, json_words(j, "error.message"));
}

static void on_error(struct vendor *v, const json_t *j) {
    vendor_note(v, "%s", json_words(j, "message"));
}

static void codex_line(struct vendor *v, const json_t *j) {
    static const struct {
        const char *type;
        void (*fn)(struct vendor *, const json_t *); /* NULL: known, and nothing for us */
    } types[] = {{"thread.started", on_thread},   {"turn.started", NULL},
                 {"item.started", on_item},       {"item.updated", NULL},
                 {"item.completed", on_item},     {"turn.completed", on_turn_completed},
                 {"turn.failed", on_turn_failed}, {"error", on_error}};
    for (size_t i = 0; i < COUNT(types); i++)
        if (json_says(j, "type", types[i].type)) {
            if (types[i].fn)
                types[i].fn(v, j);
            return;
        }
    vendor_note(v, "Codex said something of a kind that is not known here: %.60s", json_words(j, "type"));
}

static err_t codex_begin(struct vendor *v, const char *text) {
    if (!program_write(v->program, text, strlen(text), true))
        return err_new(EXIT_FAILED, "the text is too long for Codex");
    return NULL;
}

static void codex_interrupt(struct vendor *v) {
    program_signal(v->program, SIGINT);
}

const struct protocol codex_protocol = {
    .word = "codex",
    .program = "/cage/harness/codex",
    .lost = "no rollout found for thread id",
    .argv = codex_argv,
    .env = codex_env,
    .begin = codex_begin,
    .line = codex_line,
    .interrupt = codex_interrupt,
};

static err_t codex_open(const struct floor *f, void **ret) {
    return vendor_open(&codex_protocol, f, ret);
}

extern const struct harness codex_harness;
const struct harness codex_harness = VENDOR_HARNESS(codex_open);
