#include "warden/farewell.h"
#include "base/clock.h"
#include "base/escape.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/own.h"
#include "base/paths.h"
#include "sealed/session.h"
#include "warden/from_manager.h"
#include "warden/warden.h"
#include "warden/worker.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

char *farewell_session(const char *agent) {
    return path_of(DIR_LIB "/agents/%s/session", agent);
}

bool farewell_pending(const struct box *b) {
    if (b->conf.mode != MODE_SEALED || b->closed)
        return false;
    own_free char *dir = farewell_session(b->conf.name);
    return b->closing || sealed_session_open(dir);
}

char *farewell_outbox(const struct box *b) {
    own_free char *dir = farewell_session(b->conf.name);
    own_free char *path = b->conf.mode == MODE_SEALED ? sealed_session_outbox(dir) : NULL;
    char shown[200];
    return path ? xasprintf(" · results come out in %s",
                            escape_into(shown, sizeof shown, ESCAPE_LINE, path, strlen(path)))
                : xstrdup("");
}

/* Whole lines up to the room that there is; the rest is kept for `aftermath`. */
static void cut(const struct box *b, const struct buf *whole, char out[FAREWELL_MAX]) {
    char more[400];
    snprintf(more, sizeof more,
             "    and more: `agent-cage aftermath %.200s`\n  it is untrusted from now on: look before you "
             "build, open or enter it or run git in it",
             b->conf.project);
    size_t room = FAREWELL_MAX - 1, n = whole->len;
    if (n > room) {
        n = room - strlen(more);
        while (n && whole->p[n - 1] != '\n')
            n--;
    }
    snprintf(out, FAREWELL_MAX, "%.*s%s", (int)n, buf_text(whole), n < whole->len ? more : "");
    for (size_t end = strlen(out); end && out[end - 1] == '\n';)
        out[--end] = 0;
}

static err_t run_close(void *job, int report) {
    const struct box *b = job;
    own_free char *dir = farewell_session(b->conf.name), *lib = path_of(DIR_LIB "/sealed");
    own_buf struct buf out = {0};
    char text[FAREWELL_MAX], span[CLOCK_SPAN_MAX];
    TRY(fs_dirs(lib));
    TRY(fs_dir(lib, 0, 0, 0700));
    clock_span(span, sealed_session_age_ms(dir));
    buf_printf(&out, "the sealed session of %s is over, after %s\n", b->conf.name, span);
    if (b->conf.net == NET_NONE)
        buf_adds(&out, "  network   none: nothing could go out\n");
    TRY(sealed_session_end(dir, b->conf.project, lib, &out));
    cut(b, &out, text);
    worker_result(report, text, strlen(text) + 1);
    return NULL;
}

/* No order asks when the fleet goes down: `down` reads it once the warden has gone. */
static void leave_for_down(const struct box *b) {
    own_free char *path = path_of(PATH_FAREWELLS);
    own_fd int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || dprintf(fd, "%s\n", b->farewell) < 0)
        log_warn("the end of the session of %s is in the log alone", b->conf.name);
}

static void on_closed(void *ctx, const struct err *why, const void *result, size_t n) {
    struct box *b = ctx;
    b->closing = NULL;
    b->closed = true;
    if (why || !n)
        snprintf(b->farewell, sizeof b->farewell,
                 "the sealed session of %.32s is over; its project is untrusted from now on (%.400s)",
                 b->conf.name, why ? err_text(why) : "no result");
    else
        memcpy(b->farewell, result, n < sizeof b->farewell ? n : sizeof b->farewell - 1);
    log_info("%s", b->farewell);
    tell_report(b, b->farewell);
    if (b->w->ending)
        leave_for_down(b);
    own_free char *dir = farewell_session(b->conf.name);
    own_err err_t stays = sealed_session_forget(dir);
    if (stays)
        log_error("%s: %s", b->conf.name, err_text(stays));
    box_changed(b);
    warden_changed(b->w);
}

static const struct worker_ops ops = {.run = run_close, .on_end = on_closed};

void farewell_begin(struct box *b) {
    if (farewell_pending(b) && !b->closing)
        b->closing = worker_start(b->w->base, &ops, b, b);
}

void farewell_drop(struct box *b) {
    worker_forget(b->closing);
    b->closing = NULL;
}
