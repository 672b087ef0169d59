/*
 * The Telegram front: who asks is a number that the Bot API vouches for. It idles until root gives it a token
 * (`agent-cage telegram setup`), which stays in the relay's folder and in this process.
 */
#include "base/fs.h"
#include "base/log.h"
#include "base/own.h"
#include "base/paths.h"
#include "relay/telegram/inside.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TOKEN_BYTES = 256 };

static const char usual_api[] = "https://api.telegram.org";

static char *token_path(const struct front *f) {
    return xasprintf("%s/telegram.token", f->dir);
}

/* Plain http is for tests, on this machine. */
static err_t open_api(struct front *f) {
    const char *url = getenv("AGENT_CAGE_TELEGRAM_API"), *ca = getenv("AGENT_CAGE_CA");
    TRY(upstream_of(url && *url ? url : usual_api, &f->api));
    if (!f->api.tls && !upstream_is_loopback(&f->api))
        return err_new(EXIT_POLICY, "telegram_api must be https, or http on this machine's loopback");
    f->dialer = dialer_new(f->base, ca ? ca : "");
    return NULL;
}

static void close_lines(struct front *f) {
    poll_free(TAKE(f->poll));
    acting_free(TAKE(f->acting));
    files_free(TAKE(f->files));
    tell_free(TAKE(f->tell));
    outbox_free(TAKE(f->outbox));
    f->listed = false;
}

static err_t open_db(struct front *f) {
    own_free char *path = xasprintf("%s/telegram.db", f->dir);
    return f->db ? NULL : db_open(&telegram_db, path, &f->db);
}

static err_t open_lines(struct front *f) {
    TRY(open_db(f)); /* its lock is the lock of the poller: one at a time */
    f->outbox = outbox_new(f);
    f->tell = tell_new(f);
    f->acting = acting_new(f);
    f->files = files_new(f);
    f->poll = poll_new(f);
    return NULL;
}

static void forget_token(struct front *f) {
    if (f->token)
        explicit_bzero(f->token, strlen(f->token));
    free(TAKE(f->token));
}

static err_t read_token(struct front *f) {
    own_free char *path = token_path(f), *line = NULL;
    err_t e = fs_read_line(path, &line);
    if (e && e->status == EXIT_NOTFOUND) {
        err_free(e);
        return NULL;
    }
    TRY(e);
    TRY(err_wrap(bot_token_check(line, strlen(line)), "telegram.token"));
    f->token = TAKE(line);
    return open_lines(f);
}

err_t front_telegram_start(const struct front_row *row, struct event_base *base, struct router *router,
                           struct front **ret) {
    struct front *f = xcalloc(1, sizeof *f);
    *f = (struct front){.row = row, .base = base, .router = router, .dir = path_of(DIR_LIB "/relay")};
    own_err err_t e = open_api(f);
    if (!e)
        e = read_token(f);
    if (e) { /* the other fronts work all the same; `agent-cage telegram status` says it too */
        log_warn("telegram: %s", err_text(e));
        snprintf(f->fault, sizeof f->fault, "%s", err_text(e));
    }
    *ret = f;
    return NULL;
}

void front_telegram_stop(struct front *f) {
    close_lines(f);
    forget_token(f);
    db_close(f->db);
    dialer_free(f->dialer);
    free(f->dir);
    free(f);
}

/* ---- root's words ---- */

/* Another bot is another life: what was known of the last one's chats means nothing to it. */
static err_t adopt(struct front *f, const char *token) {
    own_buf struct buf was = {0};
    char bot[24];
    snprintf(bot, sizeof bot, "%.*s", (int)strspn(token, "0123456789"), token);
    TRY(open_db(f));
    TRY(memory_text(f->db, "bot", &was));
    if (!strcmp(buf_text(&was), bot))
        return NULL;
    TRY(db_begin(f->db, LASTING));
    err_t e = memory_wipe(f->db);
    return db_end(f->db, e ? e : memory_set_text(f->db, "bot", bot));
}

static err_t word_setup(struct front *f, struct bytes data, struct buf *ret) {
    char token[TOKEN_BYTES] = "";
    while (data.len && strchr(" \t\r\n", data.p[data.len - 1]))
        data.len--;
    if (!f->dialer)
        return err_new(EXIT_FAILED, "%s", f->fault);
    TRY(bot_token_check(data.p, data.len));
    memcpy(token, data.p, data.len);
    own_free char *path = token_path(f), *line = xasprintf("%s\n", token);
    close_lines(f);
    forget_token(f);
    err_t e = adopt(f, token);
    if (!e)
        e = fs_write(path, line, strlen(line), getuid(), getgid(), 0600);
    f->token = e ? NULL : xstrdup(token);
    explicit_bzero(token, sizeof token);
    explicit_bzero(line, strlen(line));
    TRY(e);
    TRY(open_lines(f));
    f->fault[0] = 0;
    return pair_open(f, ret);
}

static err_t word_off(struct front *f, struct bytes data, struct buf *ret) {
    (void)data;
    own_free char *path = token_path(f);
    close_lines(f);
    forget_token(f);
    TRY(fs_remove(path));
    if (f->dialer)
        f->fault[0] = 0; /* it was of the token */
    TRY(open_db(f));
    TRY(db_begin(f->db, LASTING));
    TRY(db_end(f->db, memory_wipe(f->db)));
    buf_adds(ret, "the token, the people and the links are forgotten");
    return NULL;
}

static err_t word_status(struct front *f, struct bytes data, struct buf *ret) {
    (void)data;
    uint64_t people = 0, groups = 0;
    if (!f->poll) {
        buf_adds(ret, *f->fault ? f->fault : "not set up: `agent-cage telegram setup` does it");
        return NULL;
    }
    poll_state(f, ret);
    TRY(db_number(f->db, TQ_people, NULL, 0, 0, &people));
    TRY(db_number(f->db, TQ_groups, NULL, 0, 0, &groups));
    buf_printf(ret, " · %" PRIu64 " paired · %" PRIu64 " group%s linked", people, groups,
               groups == 1 ? "" : "s");
    outbox_state(f, ret);
    return NULL;
}

static const struct {
    const char *word;
    err_t (*run)(struct front *f, struct bytes data, struct buf *ret);
} words[] = {{"setup", word_setup}, {"off", word_off}, {"status", word_status}};

err_t front_telegram_word(struct front *f, struct bytes word, struct bytes data, struct buf *ret) {
    for (size_t i = 0; i < COUNT(words); i++)
        if (strlen(words[i].word) == word.len && !memcmp(words[i].word, word.p, word.len))
            return words[i].run(f, data, ret);
    return err_new(EXIT_USAGE, "the Telegram front knows setup, status and off");
}
