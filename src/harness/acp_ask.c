#include "harness/acp_ask.h"
#include "base/own.h"
#include "harness/json_line.h"

#include <stdlib.h>
#include <string.h>

enum { NAMED_MAX = 100 };

static const struct {
    const char *kind, *word;
    bool no;
} kinds[] = {{"allow_once", "allow once", false},
             {"allow_always", "allow always", false},
             {"reject_once", "decline", true},
             {"reject_always", "decline always", true}};

static struct acp_ask *place(struct acp_asks *a, uint64_t number) {
    for (size_t i = 0; i < ACP_ASKS_MAX; i++)
        if (a->open[i].number == number)
            return &a->open[i];
    return NULL;
}

static void choose(struct vendor *v, const json_t *id, const char *option) {
    acp_answer(v, id, "result",
               *option ? json_pack("{s:{s:s, s:s}}", "outcome", "outcome", "selected", "optionId", option)
                       : json_pack("{s:{s:s}}", "outcome", "outcome", "cancelled"));
}

static void settle(struct vendor *v, struct acp_ask *one, const char *option) {
    own_json json_t *id = json_loads(one->id, JSON_DECODE_ANY, NULL);
    choose(v, id, option);
    *one = (struct acp_ask){0};
}

static void add(struct acp_ask *one, const json_t *o, size_t kind, char **words) {
    const char *name = json_words(o, "name");
    snprintf(one->option[one->n], ACP_OPTION_MAX, "%s", json_words(o, "optionId"));
    words[one->n++] = xasprintf("%s%s%.*s", kinds[kind].word, *name ? ": " : "", NAMED_MAX, name);
    if (!one->no && kinds[kind].no)
        one->no = one->n;
}

/* One choice for each option of a known kind, in the program's order. */
static void add_options(struct acp_ask *one, const json_t *options, char **words) {
    for (size_t i = 0; i < json_array_size(options) && one->n < ASK_CHOICES_MAX - 1; i++) {
        const json_t *o = json_array_get(options, i);
        size_t n = strlen(json_words(o, "optionId"));
        for (size_t k = 0; n && n < ACP_OPTION_MAX && k < COUNT(kinds); k++)
            if (json_says(o, "kind", kinds[k].kind))
                add(one, o, k, words);
    }
    if (one->no)
        return;
    words[one->n++] = xstrdup("decline");
    one->no = one->n;
}

/* Why a request is not shown to anybody; NULL: it is. */
static const char *refusal(const struct vendor *v, const struct acp_ask *one, const char *text,
                           const char *id) {
    if (!text || !id || strlen(id) >= ACP_ID_MAX)
        return "it did not say for what";
    if (strlen(text) > ASK_TEXT_MAX)
        return "it is too long to be shown whole";
    if (!one)
        return "too many questions at once";
    return v->state == VENDOR_BUSY ? NULL : "no turn is under way";
}

void acp_asks(struct vendor *v, struct acp_asks *a, const json_t *j) {
    const json_t *call = json_at(j, "params.toolCall"), *options = json_at(j, "params.options");
    own_free char *text = call ? json_dumps(call, JSON_INDENT(1)) : NULL;
    own_free char *id = json_dumps(json_at(j, "id"), JSON_ENCODE_ANY);
    struct acp_ask *one = place(a, 0), none = {0};
    const char *why = refusal(v, one, text, id);
    char *words[ASK_CHOICES_MAX] = {NULL};
    if (why)
        one = &none;
    add_options(one, options, words);
    if (why) {
        vendor_note(v, "it asked for a permission that was declined: %s", why);
        choose(v, json_at(j, "id"), one->option[one->no - 1]);
    } else {
        const char *title = json_words(call, "title");
        one->number = ++a->last;
        snprintf(one->id, sizeof one->id, "%s", id);
        say_ask(v->floor->up, one->number, *title ? title : json_words(call, "kind"), text, words, one->n);
    }
    for (size_t i = 0; i < one->n; i++)
        free(words[i]);
}

void acp_asked(struct vendor *v, struct acp_asks *a, uint64_t question, uint64_t choice) {
    struct acp_ask *one = question ? place(a, question) : NULL;
    if (!one)
        return;
    size_t chosen = choice && choice <= one->n ? choice : one->no;
    settle(v, one, one->option[chosen - 1]);
}

void acp_asks_over(struct vendor *v, struct acp_asks *a) {
    for (size_t i = 0; i < ACP_ASKS_MAX; i++)
        if (a->open[i].number)
            settle(v, &a->open[i], "");
}
