/*
 * The Agent Client Protocol, version 1: JSON-RPC 2.0, a message a line, over the standard input and output of any program that
 * speaks it ("acp:gemini --experimental-acp"). One program for many turns.
 *
 *   OPENING    initialize was asked; another version than ours ends it with a sentence
 *   TAKING_UP  session/load was asked: what comes until its answer is the past; refused, a new one begins
 *   BEGINNING  session/new was asked
 *   READY      a session; session/prompt may be asked
 *
 * We offer it no files and no terminals: it has the project's folder, and every shell in this room is the shim. A request for
 * a permission goes to a person (acp_ask.c). Answers to what was not asked, or asked and answered, are passed over.
 */
#include "base/own.h"
#include "harness/acp_ask.h"
#include "harness/json_line.h"

#include <stdlib.h>
#include <string.h>

enum { ACP_VERSION = 1, NO_SUCH_METHOD = -32601 }; /* JSON-RPC 2.0, 5.1 */
enum stage { OPENING, TAKING_UP, BEGINNING, READY };

struct acp {
    enum stage stage;
    bool started;
    json_int_t asked;  /* the id of the question that is open; 0: none */
    json_int_t prompt; /* the id of the turn's; 0: not asked, or answered */
    json_int_t last;
    struct acp_asks asks;
};

static json_int_t ask(struct vendor *v, const char *method, json_t *params) {
    struct acp *a = v->own;
    json_t *m = json_pack("{s:s, s:I, s:s, s:o}", "jsonrpc", "2.0", "id", ++a->last, "method", method,
                          "params", params);
    if (!m || !program_say(v->program, m))
        vendor_note(v, "%s does not read what it is asked", v->protocol->word);
    return a->last;
}

static void ask_prompt(struct vendor *v) {
    struct acp *a = v->own;
    a->stage = READY;
    a->asked = 0;
    a->prompt = ask(v, "session/prompt",
                    json_pack("{s:s, s:[{s:s, s:s}]}", "sessionId", v->session.id, "prompt", "type", "text",
                              "text", v->text));
}

static void ask_new(struct vendor *v) {
    struct acp *a = v->own;
    a->stage = BEGINNING;
    a->asked = ask(v, "session/new", json_pack("{s:s, s:[]}", "cwd", v->floor->project, "mcpServers"));
}

static void ask_load(struct vendor *v) {
    struct acp *a = v->own;
    a->stage = TAKING_UP;
    a->asked = ask(
        v, "session/load",
        json_pack("{s:s, s:s, s:[]}", "sessionId", v->session.id, "cwd", v->floor->project, "mcpServers"));
}

static err_t acp_begin(struct vendor *v, const char *text) {
    (void)text; /* v->text */
    struct acp *a = v->own;
    if (a->stage == READY)
        ask_prompt(v);
    else if (!a->started)
        a->asked =
            ask(v, "initialize",
                json_pack("{s:i, s:{s:{s:b, s:b}, s:b}, s:{s:s, s:s}}", "protocolVersion", ACP_VERSION,
                          "clientCapabilities", "fs", "readTextFile", 0, "writeTextFile", 0, "terminal", 0,
                          "clientInfo", "name", "agent-cage", "version", AGENT_CAGE_VERSION));
    a->started = true;
    return NULL;
}

/* --- answers --- */

static const char *why_of(const json_t *j) {
    const char *why = json_words(j, "error.message");
    return *why ? why : "it says no more";
}

static void on_opened(struct vendor *v, const json_t *j) {
    json_int_t version = json_integer_value(json_at(j, "result.protocolVersion"));
    char sentence[300];
    if (json_at(j, "error"))
        snprintf(sentence, sizeof sentence, "the harness refuses to begin: %.200s", why_of(j));
    else if (version != ACP_VERSION)
        snprintf(sentence, sizeof sentence, "the harness speaks version %lld of ACP, agent-cage speaks %d",
                 (long long)version, ACP_VERSION);
    else {
        if (v->session.id[0] && json_is_true(json_at(j, "result.agentCapabilities.loadSession")))
            ask_load(v);
        else {
            if (v->session.id[0])
                vendor_note(v, "this harness takes up no earlier conversation: a new one begins");
            ask_new(v);
        }
        return;
    }
    vendor_refuse(v, sentence);
}

static void on_taken_up(struct vendor *v, const json_t *j) {
    if (!json_at(j, "error")) {
        ask_prompt(v);
        return;
    }
    vendor_note(v, "the earlier conversation could not be taken up, a new one begins: %.200s", why_of(j));
    ask_new(v);
}

static void on_begun(struct vendor *v, const json_t *j) {
    const char *id = json_words(j, "result.sessionId");
    if (!session_id_ok(id)) {
        char sentence[300];
        snprintf(sentence, sizeof sentence, "the harness begins no session: %.200s", why_of(j));
        vendor_refuse(v, sentence);
        return;
    }
    vendor_session(v, id, 0);
    ask_prompt(v);
}

static void on_prompted(struct vendor *v, const json_t *j) {
    struct acp *a = v->own;
    a->prompt = 0;
    acp_asks_over(v, &a->asks);
    const char *stop = json_words(j, "result.stopReason");
    char sentence[300] = "";
    if (json_at(j, "error"))
        snprintf(sentence, sizeof sentence, "%.280s", why_of(j));
    else if (strcmp(stop, "end_turn") != 0 && strcmp(stop, "cancelled") != 0)
        snprintf(sentence, sizeof sentence, "it stopped: %.200s", stop);
    vendor_verdict(v, *sentence != 0, sentence);
}

static void on_answer(struct vendor *v, const json_t *j) {
    struct acp *a = v->own;
    static void (*const answers[])(struct vendor *, const json_t *) = {
        [OPENING] = on_opened, [TAKING_UP] = on_taken_up, [BEGINNING] = on_begun};
    json_int_t id = json_integer_value(json_at(j, "id"));
    if (id && id == a->prompt)
        on_prompted(v, j);
    else if (id && id == a->asked && a->stage != READY)
        answers[a->stage](v, j);
    else
        vendor_note(v, "an answer to no question was passed over");
}

/* --- what it tells --- */

/* The text of a tool's content, which is a list. */
static void tool_text(const json_t *content, struct buf *out) {
    for (size_t i = 0; i < json_array_size(content) && out->len < TOOL_TEXT_MAX; i++)
        buf_adds(out, json_words(json_array_get(content, i), "content.text"));
}

static void on_tool(struct vendor *v, const json_t *u) {
    const char *id = json_words(u, "toolCallId"), *title = json_words(u, "title");
    if (json_says(u, "sessionUpdate", "tool_call"))
        tools_start(&v->tools, v->floor->up, id, *title ? title : json_words(u, "kind"),
                    json_at(u, "rawInput"));
    bool failed = json_says(u, "status", "failed");
    if (!failed && !json_says(u, "status", "completed"))
        return;
    own_buf struct buf text = {0};
    tool_text(json_at(u, "content"), &text);
    tools_end(&v->tools, v->floor->up, id, failed, buf_text(&text));
}

static void on_chunk(struct vendor *v, const json_t *u) {
    vendor_adds(v, json_words(u, "content.text"));
}

static void on_update(struct vendor *v, const json_t *j) {
    static const struct {
        const char *kind;
        void (*fn)(struct vendor *, const json_t *); /* NULL: known, and nothing for us */
    } kinds[] = {
        {"agent_message_chunk", on_chunk},   {"tool_call", on_tool},        {"tool_call_update", on_tool},
        {"agent_thought_chunk", NULL},       {"user_message_chunk", NULL},  {"plan", NULL},
        {"available_commands_update", NULL}, {"current_mode_update", NULL}, {"config_option_update", NULL},
        {"session_info_update", NULL},       {"usage_update", NULL}};
    const struct acp *a = v->own;
    const json_t *u = json_at(j, "params.update");
    if (a->stage != READY)
        return; /* the past */
    for (size_t i = 0; i < COUNT(kinds); i++)
        if (json_says(u, "sessionUpdate", kinds[i].kind)) {
            if (kinds[i].fn)
                kinds[i].fn(v, u);
            return;
        }
    vendor_note(v, "an update of a kind that is not known here was passed over: %.60s",
                json_words(u, "sessionUpdate"));
}

/* --- what it asks --- */

void acp_answer(struct vendor *v, const json_t *id, const char *what, json_t *value) {
    json_t *m = json_pack("{s:s, s:o, s:o}", "jsonrpc", "2.0", "id", json_deep_copy(id), what, value);
    if (m)
        program_say(v->program, m);
}

static void acp_line(struct vendor *v, const json_t *j) {
    struct acp *a = v->own;
    const char *method = json_words(j, "method");
    bool asks = json_at(j, "id");
    if (!*method && (json_at(j, "result") || json_at(j, "error")))
        on_answer(v, j);
    else if (!strcmp(method, "session/update"))
        on_update(v, j);
    else if (asks && !strcmp(method, "session/request_permission"))
        acp_asks(v, &a->asks, j);
    else if (asks)
        acp_answer(v, json_at(j, "id"), "error",
                   json_pack("{s:i, s:s}", "code", NO_SUCH_METHOD, "message", "not offered"));
}

static void acp_answered(struct vendor *v, uint64_t question, uint64_t choice) {
    struct acp *a = v->own;
    acp_asked(v, &a->asks, question, choice);
}

static void acp_interrupt(struct vendor *v) {
    struct acp *a = v->own;
    json_t *m = json_pack("{s:s, s:s, s:{s:s}}", "jsonrpc", "2.0", "method", "session/cancel", "params",
                          "sessionId", v->session.id);
    if (m)
        program_say(v->program, m);
    acp_asks_over(v, &a->asks); /* the protocol wants them cancelled, behind the cancel */
}

static const struct vendor_word acp_env[] = {
    {"ANTHROPIC_BASE_URL={base_url}", IF_ANTHROPIC},
    {"ANTHROPIC_API_KEY={placeholder}", IF_ANTHROPIC},
    {"OPENAI_BASE_URL={base_url}/v1", IF_OPENAI},
    {"OPENAI_API_KEY={placeholder}", IF_OPENAI},
    {NULL},
};

const struct protocol acp_protocol = {
    .word = "acp",
    .lasts = true,
    .env = acp_env,
    .begin = acp_begin,
    .line = acp_line,
    .interrupt = acp_interrupt,
    .answered = acp_answered,
    .own_size = sizeof(struct acp),
};

static err_t acp_open(const struct floor *f, void **ret) {
    return vendor_open(&acp_protocol, f, ret);
}

extern const struct harness acp_harness;
const struct harness acp_harness = VENDOR_HARNESS(acp_open);
