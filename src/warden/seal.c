#include "warden/seal.h"
#include "base/log.h"
#include "base/own.h"
#include "warden/from_manager.h"
#include "warden/move_in.h"
#include "warden/sealed_token.h"
#include "warden/warden.h"
#include "warden/worker.h"

#include <stdlib.h>
#include <string.h>

struct sealing {
    struct box *b;
    box_done *done;
    void *ctx;
    bool ran; /* it was not stopped */
    char text[700];
};

static void end(struct sealing *s, const struct err *why) {
    s->b->leaving = false;
    s->done(s->ctx, why, s->text);
    free(s);
}

/* ---- the rooms start ---- */

static void on_started(void *ctx, const struct err *why, const char *text) {
    struct sealing *s = ctx;
    (void)text; /* is in the chat */
    end(s, why);
}

static err_t take_conf(struct box *b) {
    struct conf_agent now = {0};
    TRY(conf_agent_read(b->conf.name, &now));
    conf_agent_free(&b->conf);
    b->conf = now;
    return NULL;
}

static void say_it(struct sealing *s, const char *moved) {
    const struct box *b = s->b;
    snprintf(s->text, sizeof s->text,
             "%s is sealed from now on; %.300s. What its rooms had before stays outside the cage.%s",
             b->conf.name, moved,
             sealed_token_lacks(&b->conf)
                 ? " This machine has no sealed-token yet: `agent-cage auth --sealed`."
                 : "");
    log_info("%s", s->text);
    tell_report(b, s->text);
}

/* ---- the move ---- */

static err_t run_move(void *job, int report) {
    const struct sealing *s = job;
    char text[400];
    TRY(move_in(&s->b->conf, text));
    worker_result(report, text, strlen(text) + 1);
    return NULL;
}

/* What was not committed is a pod as before, and goes on as one. */
static void not_moved(struct sealing *s, const char *why) {
    bool sealed = s->b->conf.mode == MODE_SEALED;
    own_err err_t e = err_new(EXIT_FAILED, "%s %s: %.500s", s->b->conf.name,
                              sealed ? "is sealed and stopped, but not all of it went well"
                                     : "is not sealed, and goes on as it was",
                              why);
    if (!sealed && s->ran)
        box_order(s->b, BOX_START, NULL, NULL);
    end(s, e);
}

static void on_moved(void *ctx, const struct err *why, const void *result, size_t n) {
    struct sealing *s = ctx;
    own_err err_t e = take_conf(s->b); /* whatever happened, it says what the agent is now */
    if (why || e || !n) {
        not_moved(s, why ? err_text(why) : err_text(e));
        return;
    }
    say_it(s, result);
    box_order(s->b, BOX_START, on_started, s);
}

static const struct worker_ops move_ops = {.run = run_move, .on_end = on_moved};

static void on_stopped(void *ctx, const struct err *why, const char *text) {
    struct sealing *s = ctx;
    (void)text;
    if (why) {
        end(s, why);
        return;
    }
    worker_start(s->b->w->base, &move_ops, s, s);
}

/* ---- the check ---- */

static err_t run_check(void *job, int report) {
    (void)report;
    const struct sealing *s = job;
    return move_in_check(&s->b->conf);
}

static void on_checked(void *ctx, const struct err *why, const void *result, size_t n) {
    struct sealing *s = ctx;
    (void)result, (void)n;
    if (why) {
        end(s, why);
        return;
    }
    s->ran = s->b->started;
    box_order(s->b, BOX_STOP, on_stopped, s);
}

static const struct worker_ops check_ops = {.run = run_check, .on_end = on_checked};

void seal_begin(struct box *b, box_done *done, void *ctx) {
    struct sealing *s = xcalloc(1, sizeof *s);
    *s = (struct sealing){.b = b, .done = done, .ctx = ctx};
    b->leaving = true;
    worker_start(b->w->base, &check_ops, s, s);
}
