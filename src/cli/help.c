#include "base/buf.h"
#include "base/own.h"
#include "cli/verb.h"

#include <string.h>

void help_all(FILE *to) {
    fputs("agent-cage: AI coding agents on this machine, each in a cage\n\n", to);
    for (const struct verb *v = verbs; v->name; v++) {
        own_free char *words =
            xasprintf("%s %s%s", v->name, v->args, v->command == COMMAND ? " -- CMD …" : "");
        int bytes_over = v->command == COMMAND ? 2 : 0; /* the dots are one column and three bytes */
        fprintf(to, "  %-*s %s\n", 22 + bytes_over, words, v->help);
    }
    fputs("\n`agent-cage help VERB` tells more. Exit status: the command's own where one ran (128+N for "
          "signal N, 124 for a\n"
          "time-out), 125 agent-cage failed, 126 refused by policy, 127 not found, 2 the words of the call "
          "are off.\n",
          to);
}

/* One paragraph, broken at spaces so that no line is over 78 columns (counted in bytes: a little early for
 * others). */
static void fold(FILE *to, const char *text, size_t len) {
    enum { WIDTH = 78 };
    size_t column = 0;
    for (const char *p = text, *end = text + len; p < end;) {
        const char *space = memchr(p, ' ', (size_t)(end - p));
        size_t word = (size_t)((space ? space : end) - p);
        if (column && column + 1 + word > WIDTH) {
            fputc('\n', to);
            column = 0;
        }
        fprintf(to, "%s%.*s", column ? " " : "", (int)word, p);
        column += word + (column ? 1 : 0);
        p += word + (space ? 1 : 0);
    }
    fputc('\n', to);
}

void help_verb(const struct verb *verb, FILE *to) {
    own_free char *usage = verb_usage(verb);
    fprintf(to, "%s\n\n%s\n", usage, verb->help);
    for (const char *p = verb->about; *p;) {
        const char *gap = strstr(p, "\n\n");
        size_t len = gap ? (size_t)(gap - p) : strlen(p);
        fputc('\n', to);
        fold(to, p, len);
        p += len + (gap ? 2 : 0);
    }
    if (verb->options->name)
        fputc('\n', to);
    for (const struct option_row *o = verb->options; o->name; o++) {
        own_buf struct buf words = {0};
        if (o->letter)
            buf_printf(&words, "-%c, ", o->letter);
        buf_printf(&words, "--%s %s", o->name, o->value ? o->value : "");
        fprintf(to, "  %-24s %s\n", buf_text(&words), o->help);
    }
}

err_t verb_help(const struct call *call, int *ret_status) {
    (void)ret_status;
    if (!call->nargs) {
        help_all(stdout);
        return NULL;
    }
    const struct verb *v = verb_find(call->args[0]);
    if (!v)
        return err_new(EXIT_USAGE, "no such verb: %s; `agent-cage help` lists them", call->args[0]);
    help_verb(v, stdout);
    return NULL;
}

err_t verb_version(const struct call *call, int *ret_status) {
    (void)ret_status;
    if (call_option(call, "json"))
        puts("{\"version\":\"" AGENT_CAGE_VERSION "\"}");
    else
        puts("agent-cage " AGENT_CAGE_VERSION);
    return NULL;
}
