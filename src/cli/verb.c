#include "cli/verb.h"
#include "base/buf.h"
#include "base/own.h"

#include <assert.h>
#include <string.h>

#define OPTION(name, letter, value, help) {#name, letter, value, help, NULL},
#define CHOICE(name, value, words, help) {#name, 0, value, help, words},
#define VERB(name, args, least, most, first, command, options, help, about)                                  \
    static const struct option_row options_##name[] = {options{NULL, 0, NULL, NULL, NULL}};                  \
    _Static_assert(sizeof options_##name / sizeof options_##name[0] <= CALL_OPTIONS_MAX,                     \
                   "options of " #name);                                                                     \
    _Static_assert((least) <= (most) && (most) < CALL_ARGS_MAX, "arguments of " #name);
#include "cli/verbs.def"
#undef VERB

const struct verb verbs[] = {
#define VERB(name, args, least, most, first, command, options, help, about)                                  \
    {#name, verb_##name, args, least, most, first, command, options_##name, help, about},
#include "cli/verbs.def"
#undef VERB
    {NULL, NULL, NULL, 0, 0, NOTHING, PLAIN, NULL, NULL, NULL}};

const struct verb *verb_find(const char *name) {
    for (const struct verb *v = verbs; v->name; v++)
        if (!strcmp(v->name, name))
            return v;
    return NULL;
}

static err_t wrong(const struct verb *v, const char *what, const char *word) {
    return err_new(EXIT_USAGE, "%s: %s%s; see `agent-cage help %s`", v->name, what, word, v->name);
}

/* The row of `word`: --name, --name=value (the value in *ret_value) or -x. NULL: no such option. */
static const struct option_row *find_option(const struct verb *v, const char *word, const char **ret_value) {
    *ret_value = NULL;
    bool full = word[1] == '-';
    const char *name = word + (full ? 2 : 1), *equals = full ? strchr(name, '=') : NULL;
    size_t len = equals ? (size_t)(equals - name) : strlen(name);
    for (const struct option_row *o = v->options; o->name; o++) {
        bool same = full ? strlen(o->name) == len && !memcmp(o->name, name, len)
                         : len == 1 && o->letter && name[0] == o->letter;
        if (same) {
            *ret_value = equals ? equals + 1 : NULL;
            return o;
        }
    }
    return NULL;
}

/* Takes the option at argv[*i], and the word behind it when that is its value. */
static err_t take_option(struct call *c, int argc, char *const *argv, int *i) {
    const struct verb *v = c->verb;
    const char *value, *word = argv[*i];
    if (!strcmp(word, "--help") || !strcmp(word, "-h")) {
        c->help = true;
        return NULL;
    }
    const struct option_row *o = find_option(v, word, &value);
    if (!o)
        return wrong(v, "no such option: ", word);
    if (!o->value && value)
        return wrong(v, "takes no value: ", word);
    if (o->value && !value) {
        if (*i + 1 >= argc)
            return wrong(v, "a value is missing behind ", word);
        value = argv[++*i];
    }
    if (c->options[o - v->options])
        return wrong(v, "given twice: ", word);
    c->options[o - v->options] = value ? value : "";
    return NULL;
}

static err_t check(const struct call *c) {
    const struct verb *v = c->verb;
    if (c->nargs < v->least || (v->command == COMMAND && !c->ncommand)) {
        own_free char *usage = verb_usage(v);
        return err_new(EXIT_USAGE, "%s: too few words: it is `%s`", v->name, usage);
    }
    return NULL;
}

err_t call_parse(const struct verb *verb, int argc, char *const *argv, struct call *ret) {
    struct call c = {.verb = verb};
    bool plain = false; /* behind `--` of a verb that takes no command */
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        if (!plain && !strcmp(word, "--")) {
            plain = true;
            if (verb->command == PLAIN)
                continue;
            c.command = argv + i + 1;
            c.ncommand = (size_t)(argc - i - 1);
            break;
        }
        if (!plain && word[0] == '-' && word[1]) {
            TRY(take_option(&c, argc, argv, &i));
            continue;
        }
        if (c.nargs == verb->most)
            return wrong(
                verb,
                verb->command == COMMAND ? "`--` belongs before the command: " : "one word too many: ", word);
        c.args[c.nargs++] = word;
    }
    if (!c.help)
        TRY(check(&c));
    *ret = c;
    return NULL;
}

const char *call_option(const struct call *call, const char *name) {
    for (const struct option_row *o = call->verb->options; o->name; o++)
        if (!strcmp(o->name, name))
            return call->options[o - call->verb->options];
    assert(!"an option that the verb's row does not have");
    return NULL;
}

char *verb_usage(const struct verb *verb) {
    own_buf struct buf b = {0};
    buf_printf(&b, "agent-cage %s", verb->name);
    if (*verb->args)
        buf_printf(&b, " %s", verb->args);
    for (const struct option_row *o = verb->options; o->name; o++) {
        if (o->value)
            buf_printf(&b, " [--%s %s]", o->name, o->value);
        else if (o->letter)
            buf_printf(&b, " [-%c]", o->letter);
        else
            buf_printf(&b, " [--%s]", o->name);
    }
    if (verb->command == COMMAND)
        buf_adds(&b, " -- CMD …");
    return buf_take(&b);
}
