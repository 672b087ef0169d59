#include "sealed/report.h"

#include "base/clock.h"
#include "base/escape.h"
#include "base/fs.h"
#include "base/own.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

enum { FINDINGS_SHOWN = 20, REACHED_SHOWN = 12, OUTBOX_MS = 60 * 1000 };

struct inventory {
    uint64_t files, bytes, others;
};

static bool take_stock(void *ctx, const struct collect_entry *e) {
    struct inventory *i = ctx;
    if (S_ISREG(e->st.st_mode)) {
        i->files++;
        i->bytes += (uint64_t)e->st.st_size;
    } else if (!S_ISDIR(e->st.st_mode))
        i->others++;
    return true;
}

err_t report_outbox(const struct outbox_place *box, struct buf *out) {
    struct inventory have = {0};
    struct collect_sum sum;
    static const struct collect_how how = {.each = take_stock, .ms = OUTBOX_MS};
    TRY(err_wrap(collect_walk_as(box->fd, &how, &have, &sum), "the outbox"));
    if (!sum.entries && !sum.skipped && !sum.cut) {
        buf_adds(out, "  outbox    empty\n");
        return NULL;
    }
    buf_adds(out, "  outbox    ");
    buf_count(out, have.files, "file, ", "files, ");
    buf_bytes(out, have.bytes);
    if (have.others) {
        buf_adds(out, ", ");
        buf_count(out, have.others, "link or other thing that is no file",
                  "links or other things that are no files");
    }
    if (sum.skipped > sum.cut)
        buf_printf(out, ", %" PRIu64 " not looked at (too deep, a path too long, or not readable)",
                   sum.skipped - sum.cut);
    if (sum.cut)
        buf_adds(out, ", and more: not all was looked at (too many entries, or it took too long)");
    buf_adds(out, ", untrusted: ");
    escape_text(out, ESCAPE_LINE, box->path, strlen(box->path));
    buf_adds(out, "\n            (read it with `agent-cage outbox ls`, `cat`, `pack`, and open no link in it "
                  "by hand)\n");
    return NULL;
}

static void say_changes(const struct aftermath *a, const char *path, struct buf *out) {
    char shown[300];
    escape_into(shown, sizeof shown, ESCAPE_LINE, path, strlen(path));
    if (!a->changed && !a->gone && !a->n && !a->skipped && !a->cut) {
        buf_printf(out, "  project   nothing in %s changed\n", shown);
        return;
    }
    buf_adds(out, "  project   ");
    buf_count(out, a->changed, "file changed or new", "files changed or new");
    if (a->gone)
        buf_printf(out, ", %" PRIu64 " gone", a->gone);
    if (!a->n) {
        buf_adds(out, ", none that runs by itself\n");
    } else {
        buf_printf(out, "; what could run later, as you (%" PRIu64 "):\n", a->n + a->more);
    }
    aftermath_print(a, "    ", FINDINGS_SHOWN, out);
    buf_printf(out,
               "  %s is untrusted from now on: look before you build, open or enter it or run git in it\n",
               shown);
}

static char *last_path(const char *lib, const struct project *p) {
    struct stat st;
    if (fstat(p->fd, &st))
        return NULL;
    return xasprintf("%s/last/%x-%x-%llx", lib, major(st.st_dev), minor(st.st_dev),
                     (unsigned long long)st.st_ino);
}

/* The whole list, for `agent-cage aftermath DIR`. */
static err_t keep(const char *lib, const struct project *p, const struct aftermath *a) {
    own_free char *dir = xasprintf("%s/last", lib), *path = last_path(lib, p);
    own_buf struct buf text = {0};
    char when[CLOCK_ISO_MAX];
    TRY(fs_dir(dir, 0, 0, 0700));
    clock_iso(when, clock_wall_ms());
    buf_printf(&text, "after the sealed run or session that ended %s: ", when);
    buf_count(&text, a->changed, "file changed or new", "files changed or new");
    buf_printf(&text, ", %" PRIu64 " gone, %" PRIu64 " could run later\n", a->gone, a->n + a->more);
    aftermath_print(a, "  ", 0, &text);
    return path ? fs_write(path, text.p, text.len, 0, 0, 0600) : NULL;
}

err_t report_project(const char *lib, const char *path, const struct project *p,
                     const struct aftermath_before *before, struct buf *out) {
    struct aftermath a = {0};
    TRY(aftermath_find(p->fd, before, &a));
    say_changes(&a, path, out);
    err_t e = keep(lib, p, &a);
    aftermath_close(&a);
    return e;
}

static err_t say_kept(struct sealed_run *r, struct buf *out) {
    char shown[300];
    own_buf struct buf diff = {0};
    struct store s = {.upper = -1};
    escape_into(shown, sizeof shown, ESCAPE_LINE, r->path, strlen(r->path));
    TRY(store_open(&r->ground, &r->project, &s));
    err_t e = store_diff(&s, &r->project, &diff);
    uint64_t lines = 0;
    for (const char *p = buf_text(&diff); (p = strchr(p, '\n')); p++)
        lines++;
    if (!e && !lines) {
        buf_adds(out, "  project   untouched, and no change is waiting\n");
        e = store_drop(&s);
    } else if (!e) {
        buf_adds(out, "  project   untouched; ");
        buf_count(out, lines, "change waits", "changes wait");
        buf_printf(out, ": `agent-cage aftermath %s --diff`, then --take PATH… or --drop\n", shown);
    }
    store_close(&s);
    return e;
}

err_t report_run(struct sealed_run *r, const char *ended, int64_t span_ms, char **ret) {
    char span[CLOCK_SPAN_MAX];
    own_buf struct buf out = {0};
    clock_span(span, span_ms);
    buf_printf(&out, "agent-cage: sealed run %s, %s\n", ended, span);
    reached_say(&r->reached, REACHED_SHOWN, &out);
    err_t e = report_outbox(&r->outbox, &out);
    if (!e)
        e = r->kept.place >= 0 ? say_kept(r, &out)
                               : report_project(r->ground.lib, r->path, &r->project, &r->before, &out);
    if (!r->limits)
        buf_adds(&out, "  limits    memory, processors and number of processes were not limited: podman of "
                       "an ordinary user "
                       "cannot on cgroup v1\n");
    *ret = buf_take(&out);
    outbox_forget(&r->outbox);
    return e;
}

err_t report_last(const struct ground *g, const struct project *p, char **ret) {
    own_free char *path = last_path(g->lib, p);
    own_buf struct buf text = {0};
    TRY(fs_read(path ? path : "", 64 << 20, &text));
    *ret = buf_take(&text);
    return NULL;
}
