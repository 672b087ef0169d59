/* aftermath: what a sealed run left in a project; with --keep-clean, the changes that wait, taken or dropped. */
#include "base/own.h"
#include "cli/verb.h"
#include "sealed/kept.h"
#include "sealed/outbox_place.h"
#include "sealed/report.h"

#include <inttypes.h>
#include <string.h>

struct asked {
    struct ground ground;
    struct project project;
    struct store store;
};

static err_t nothing_waits(const struct call *call) {
    return err_new(EXIT_NOTFOUND,
                   "no changes wait for %s: there are some after `agent-cage sealed %s --keep-clean -- CMD`",
                   call->args[0], call->args[0]);
}

static err_t take(const struct asked *a, const struct call *call) {
    own_buf struct buf said = {0};
    uint64_t all = 0;
    err_t e = NULL;
    for (size_t i = 1; i < call->nargs && !e; i++) {
        uint64_t n = 0;
        e = store_take(&a->store, &a->project, call->args[i], &said, &n);
        all += n;
        if (!e && !n && !said.len)
            e = err_new(EXIT_NOTFOUND, "no change waits at %s", call->args[i]);
    }
    fwrite(buf_text(&said), 1, said.len, stderr);
    printf("%llu taken\n", (unsigned long long)all);
    return e;
}

static err_t show(const struct asked *a, const struct call *call) {
    struct aftermath found = {0};
    own_buf struct buf out = {0};
    if (a->store.upper < 0) {
        own_free char *text = NULL;
        err_t e = report_last(&a->ground, &a->project, &text);
        if (e && e->status == EXIT_NOTFOUND) {
            err_free(e);
            return err_new(EXIT_NOTFOUND, "no sealed run ended in %s yet", call->args[0]);
        }
        TRY(e);
        fputs(text, stdout);
        return NULL;
    }
    TRY(aftermath_find(a->store.upper, NULL, &found));
    buf_printf(&out,
               "changes wait (--diff shows them, --take PATH… takes, --drop forgets); could run later once "
               "taken: %" PRIu64 "\n",
               found.n + found.more);
    aftermath_print(&found, "  ", 0, &out);
    aftermath_close(&found);
    fwrite(out.p, 1, out.len, stdout);
    return NULL;
}

static err_t diff(const struct asked *a) {
    own_buf struct buf out = {0};
    TRY(store_diff(&a->store, &a->project, &out));
    fwrite(buf_text(&out), 1, out.len, stdout);
    return NULL;
}

static err_t check(const struct call *call) {
    bool take = call_option(call, "take");
    if (!!call_option(call, "diff") + take + !!call_option(call, "drop") > 1)
        return err_new(EXIT_USAGE, "aftermath: one of --diff, --take, --drop");
    if (call->nargs > 1 && !take)
        return err_new(EXIT_USAGE, "aftermath: a PATH is for --take alone: %s", call->args[1]);
    if (call->nargs < 2 && take)
        return err_new(EXIT_USAGE, "aftermath: --take wants the paths to take, or `.` for everything");
    return NULL;
}

static err_t act(const struct asked *a, const struct call *call) {
    bool d = call_option(call, "diff"), t = call_option(call, "take"), drop = call_option(call, "drop");
    if (d + t + drop && a->store.upper < 0)
        return nothing_waits(call);
    if (t)
        return take(a, call);
    if (d)
        return diff(a);
    return drop ? store_drop(&a->store) : show(a, call);
}

err_t verb_aftermath(const struct call *call, int *ret_status) {
    (void)ret_status;
    struct asked a = {.project = {.fd = -1}, .store = {.upper = -1}};
    own_free char *path = NULL;
    TRY(check(call));
    TRY(absolute_path(call->args[0], &path));
    TRY(ground_outline(&a.ground));
    /* The checks of a sealed run would refuse what the cage itself made there. */
    err_t e = project_open(path, MODE_POD, &a.project);
    e = e ? e : store_open(&a.ground, &a.project, &a.store);
    e = e ? e : act(&a, call);
    store_close(&a.store);
    project_close(&a.project);
    ground_close(&a.ground);
    return e;
}
