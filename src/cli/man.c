/* The manual, in man(7), from the table of verbs: one page for all, one for each. */
#include "base/buf.h"
#include "base/own.h"
#include "cli/verb.h"

#include <errno.h>
#include <string.h>

/* Text as roff: a backslash, a dash that must stay one, and a line that would be a request. */
static void roff(FILE *to, const char *text, size_t len) {
    for (size_t i = 0; i < len; i++) {
        if ((text[i] == '.' || text[i] == '\'') && (!i || text[i - 1] == '\n'))
            fputs("\\&", to);
        if (text[i] == '\\')
            fputs("\\e", to);
        else if (text[i] == '-')
            fputs("\\-", to);
        else
            fputc(text[i], to);
    }
}

static void roffs(FILE *to, const char *text) {
    roff(to, text, strlen(text));
}

static void title(FILE *to, const char *page, const char *help) {
    fputs(".\\\" made from the table of verbs by `agent-cage --emit-man`\n", to);
    fprintf(to, ".TH %s 1 \"\" \"agent\\-cage %s\" \"agent\\-cage\"\n.SH NAME\n", page, AGENT_CAGE_VERSION);
    roffs(to, page);
    fputs(" \\- ", to);
    roffs(to, help);
    fputc('\n', to);
}

static void paragraphs(FILE *to, const char *about) {
    for (const char *p = about; *p;) {
        const char *gap = strstr(p, "\n\n");
        size_t len = gap ? (size_t)(gap - p) : strlen(p);
        fputs(".PP\n", to);
        roff(to, p, len);
        fputc('\n', to);
        p += len + (gap ? 2 : 0);
    }
}

static void exit_status(FILE *to) {
    fputs(".SH EXIT STATUS\n", to);
    static const struct {
        const char *status, *meaning;
    } rows[] = {{"0", "done"},
                {"the command's own", "where a command ran; 128+N when signal N ended it"},
                {"2", "the words of the call are off"},
                {"124", "the command's time was over"},
                {"125", "agent-cage itself failed"},
                {"126", "refused by policy, or the command could not be run"},
                {"127", "no such agent, program or file"}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        fputs(".TP\n", to);
        roffs(to, rows[i].status);
        fputc('\n', to);
        roffs(to, rows[i].meaning);
        fputc('\n', to);
    }
}

static void options(FILE *to, const struct verb *v) {
    if (v->options->name)
        fputs(".SH OPTIONS\n", to);
    for (const struct option_row *o = v->options; o->name; o++) {
        fputs(".TP\n", to);
        if (o->letter)
            fprintf(to, "\\fB\\-%c\\fR, ", o->letter);
        fputs("\\fB", to);
        roffs(to, "--");
        roffs(to, o->name);
        fputs("\\fR", to);
        if (o->value) {
            fputs(" \\fI", to);
            roffs(to, o->value);
            fputs("\\fR", to);
        }
        fputc('\n', to);
        roffs(to, o->help);
        fputc('\n', to);
    }
}

static void page_of_verb(FILE *to, const struct verb *v) {
    own_free char *page = xasprintf("agent-cage-%s", v->name), *usage = verb_usage(v);
    title(to, page, v->help);
    fputs(".SH SYNOPSIS\n.B ", to);
    roffs(to, usage);
    fputs("\n.SH DESCRIPTION\n", to);
    paragraphs(to, v->about);
    options(to, v);
    exit_status(to);
    fputs(".SH SEE ALSO\n\\fBagent\\-cage\\fR(1)\n", to);
}

static void page_of_all(FILE *to) {
    title(to, "agent-cage", "AI coding agents on this machine, each in a cage");
    fputs(".SH SYNOPSIS\n.B agent\\-cage\n.I verb\n[words and options]\n.SH DESCRIPTION\n", to);
    paragraphs(
        to, "Runs a fleet of AI coding agents, each in a cage of its own, and is the command line to "
            "it. A fleet is root's, and so are most of the verbs. As an ordinary user too: sealed, aftermath "
            "and outbox, whose cages and results are then that user's own; doctor; version and help.");
    fputs(".SH VERBS\n", to);
    for (const struct verb *v = verbs; v->name; v++) {
        own_free char *usage = verb_usage(v);
        fputs(".TP\n.B ", to);
        roffs(to, usage);
        fputc('\n', to);
        roffs(to, v->help);
        fprintf(to, "; \\fBagent\\-cage\\-%s\\fR(1)\n", v->name);
    }
    exit_status(to);
    fputs(".SH ENVIRONMENT\n.TP\n.B AGENT_CAGE_ROOT\n", to);
    roffs(to, "The folder below which a second, complete fleet lives; unset or empty: this machine's own.\n");
    fputs(".TP\n.B NO_COLOR\n", to);
    roffs(to, "When set and not empty: no colours.\n");
}

static err_t write_page(const char *dir, const char *page, const struct verb *v) {
    own_free char *path = xasprintf("%s/%s.1", dir, page);
    own_file FILE *f = fopen(path, "we");
    if (!f)
        return err_sys(errno, "write %s", path);
    if (v)
        page_of_verb(f, v);
    else
        page_of_all(f);
    if (fflush(f) || ferror(f))
        return err_sys(errno, "write %s", path);
    return NULL;
}

err_t man_emit(const char *dir) {
    TRY(write_page(dir, "agent-cage", NULL));
    for (const struct verb *v = verbs; v->name; v++) {
        own_free char *page = xasprintf("agent-cage-%s", v->name);
        TRY(write_page(dir, page, v));
    }
    return NULL;
}
