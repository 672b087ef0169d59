/*
 * send: one message to an agent. It carries a random key; when the connection breaks before the answer, it is said again
 * with the same key, and the manager takes it once. With --wait the events of the agent are followed from before it is
 * said, so its report cannot be missed: the seq of its last event is asked first, because "the last one" is another one by the
 * time that a relay or manager which died in between is asked again.
 */
#include "base/clock.h"
#include "base/escape.h"
#include "base/names.h"
#include "base/hex.h"
#include "base/own.h"
#include "cli/client.h"
#include "cli/files.h"
#include "cli/json.h"
#include "cli/render.h"
#include "cli/verb.h"
#include "proto/after.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { AGAIN_MS = 15000, PAUSE_MS = 300, EARLY_MAX = 256, TEXT_MAX = 65536 };

struct sending {
    const char *agent, *text;
    char key[HEX_KEY];
    bool wait, json;
    struct client client;
    uint64_t say, place, events; /* cookies of this connection */
    bool placed;                 /* last_seq is where to follow from */
    uint64_t id;                 /* 0: not taken yet */
    uint64_t last_seq;           /* of the events seen; 0: none */
    struct msg early[EARLY_MAX]; /* events that came before the id was known */
    size_t nearly;
    bool begun; /* all was asked on this connection */
    bool heard; /* something was answered on it */
    bool done;
    int status;
};

static volatile sig_atomic_t waiting; /* the agent has not begun with the message */

static err_t say(struct sending *s) {
    struct msg m = {.type = MSG_front_say};
    m.front_say.key = bytes_of(s->key);
    m.front_say.agent = bytes_of(s->agent);
    m.front_say.text = bytes_of(s->text);
    TRY(client_ask(&s->client, &m));
    s->say = s->client.last_cookie;
    return NULL;
}

static err_t follow(struct sending *s) {
    struct msg m = {.type = MSG_front_events};
    m.front_events.agent = bytes_of(s->agent);
    m.front_events.after = s->last_seq;
    m.front_events.follow = 1;
    TRY(client_ask(&s->client, &m));
    s->events = s->client.last_cookie;
    return NULL;
}

static err_t find_place(struct sending *s) {
    struct msg m = {.type = MSG_front_events};
    m.front_events.agent = bytes_of(s->agent);
    m.front_events.after = after_last(1);
    TRY(client_ask(&s->client, &m));
    s->place = s->client.last_cookie;
    return NULL;
}

static err_t begin(struct sending *s) {
    if (s->client.fd < 0)
        TRY(client_open(&s->client, "cli"));
    s->begun = true;
    if (s->wait && !s->placed)
        return find_place(s);
    if (s->wait)
        TRY(follow(s));
    return say(s);
}

static int status_of(const struct msg_relay_event *e) {
    if (render_is(e, "refused"))
        return EXIT_POLICY;
    if (render_is(e, "unknown") || e->status < 0 || e->status > 255)
        return EXIT_FAILED;
    return (int)e->status;
}

/* An event of our message: as JSON each of them, for people the one that ends it. */
static void show(struct sending *s, const struct msg_relay_event *e) {
    if (s->done)
        return;
    bool final = render_final(e);
    if (!render_is(e, "queued"))
        waiting = false;
    if (s->json) {
        own_json json_t *j = json_of_event(e);
        json_print(j, stdout);
        fflush(stdout);
    } else if (final) {
        own_buf struct buf out = {0}, foot = {0};
        struct render r = {.colour = render_colours(STDOUT_FILENO)};
        if (render_is(e, "report")) {
            render_text(&out, e->text.p, e->text.len, 0);
            r.colour = render_colours(STDERR_FILENO);
            render_footer(&r, e, &foot);
        } else
            render_event(&r, e, &out);
        fputs(buf_text(&out), stdout);
        fflush(stdout);
        if (isatty(STDERR_FILENO))
            fputs(buf_text(&foot), stderr);
    }
    if (final) {
        s->status = status_of(e);
        s->done = true;
    }
}

static void on_event(struct sending *s, struct msg *m) {
    s->last_seq = m->relay_event.seq;
    if (s->id && m->relay_event.id == s->id)
        show(s, &m->relay_event);
    else if (!s->id && s->placed && s->nearly < EARLY_MAX) {
        s->early[s->nearly++] = *m;
        *m = (struct msg){0};
    }
}

static void drop_early(struct sending *s) {
    for (size_t i = 0; i < s->nearly; i++)
        msg_free(&s->early[i]);
    s->nearly = 0;
}

static void on_interrupt(int signo) {
    static const char begun[] = "\nthe agent has the message and goes on with it\n",
                      kept[] = "\nthe message stays: the agent gets it as soon as it runs\n";
    (void)!write(STDERR_FILENO, waiting ? kept : begun, waiting ? sizeof kept - 1 : sizeof begun - 1);
    _exit(128 + signo);
}

/* The agent does not have it yet: why, and what to do about it while it is waited for. */
static void say_waiting(const struct sending *s, struct bytes why) {
    own_buf struct buf safe = {0};
    escape_text(&safe, ESCAPE_LINE, why.p, why.len);
    fprintf(stderr, "%s\n", buf_text(&safe));
    if (s->wait)
        fprintf(stderr,
                "waiting for its report; `agent-cage start %s` starts an agent that is stopped, Ctrl-C "
                "ends the wait and the message stays\n",
                s->agent);
}

static err_t on_taken(struct sending *s, const struct msg_relay_end *e) {
    if (e->status)
        return err_new(e->status < 256 ? (int)e->status : EXIT_FAILED, "%s", e->text.p);
    s->id = e->id;
    waiting = e->text.len > 0;
    signal(SIGINT, on_interrupt);
    for (size_t i = 0; i < s->nearly; i++)
        if (s->early[i].relay_event.id == s->id)
            show(s, &s->early[i].relay_event);
    drop_early(s);
    if (e->text.len)
        say_waiting(s, e->text);
    if (s->wait)
        return NULL;
    s->done = true;
    if (s->json)
        printf("{\"agent\":\"%s\",\"id\":%llu,\"kind\":\"queued\"}\n", s->agent, (unsigned long long)s->id);
    else
        printf("%s has it as #%llu\n", s->agent, (unsigned long long)s->id);
    return NULL;
}

/*
 * One message of the fleet. An error here is its answer, unless *ret_broken: once the message is taken, events that cannot be
 * followed further (the manager went away) are worth another try, as a broken connection is.
 */
static err_t on_message(struct sending *s, struct msg *m, bool *ret_broken) {
    if (m->type == MSG_relay_event)
        on_event(s, m);
    else if (m->type == MSG_relay_end && m->relay_end.cookie == s->say)
        return on_taken(s, &m->relay_end);
    else if (m->type == MSG_relay_end && s->place && m->relay_end.cookie == s->place &&
             !m->relay_end.status) {
        s->place = 0;
        s->placed = *ret_broken = true;
        return begin(s);
    } else if (m->type == MSG_relay_end) { /* the events', or of the hello */
        *ret_broken = s->id;
        return err_new(m->relay_end.status < 256 && m->relay_end.status ? (int)m->relay_end.status
                                                                        : EXIT_FAILED,
                       "%s", m->relay_end.text.p);
    }
    return NULL;
}

/* Until done. *ret_broken: the connection's end is why it failed, so it may be tried again. */
static err_t converse(struct sending *s, bool *ret_broken) {
    *ret_broken = true;
    if (!s->begun)
        TRY(begin(s));
    while (!s->done) {
        own_msg struct msg m = {0};
        bool got;
        TRY(client_next(&s->client, s->id ? -1 : CLIENT_WAIT_MS, &m, &got));
        *ret_broken = false;
        if (!got)
            return err_new(EXIT_FAILED,
                           "the fleet did not answer within %d s; `agent-cage log %s` tells whether the "
                           "message was taken",
                           CLIENT_WAIT_MS / 1000, s->agent);
        TRY(on_message(s, &m, ret_broken));
        s->heard = true;
        *ret_broken = true;
    }
    return NULL;
}

/* The first connection must stand at once; one that broke is made again for a while. */
static err_t deliver(struct sending *s) {
    TRY(client_open(&s->client, "cli"));
    for (int64_t until = 0;;) {
        bool broken;
        err_t e = converse(s, &broken);
        if (!e || !broken)
            return e;
        int64_t now = clock_mono_ns() / 1000000;
        if (!until || s->heard)
            until = now + AGAIN_MS;
        s->heard = false;
        if (now > until)
            return err_wrap(e, s->id ? "its report could not be read"
                                     : "whether the message was taken is unknown");
        err_free(e);
        client_close(&s->client);
        s->begun = false;
        struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
        nanosleep(&pause, NULL);
    }
}

/* TEXT, or standard input for "-". */
static err_t text_of(const char *word, struct buf *out) {
    if (strcmp(word, "-")) {
        buf_adds(out, word);
        return NULL;
    }
    char chunk[4096];
    ssize_t n;
    while ((n = read(STDIN_FILENO, chunk, sizeof chunk)) != 0) {
        if (n < 0 && errno != EINTR)
            return err_sys(errno, "read standard input");
        if (n > 0)
            buf_add(out, chunk, (size_t)n);
        if (out->len > TEXT_MAX)
            break;
    }
    return NULL;
}

static err_t text_check(const struct buf *text) {
    if (!text->len)
        return err_new(EXIT_USAGE, "send: the text is empty");
    if (text->len > TEXT_MAX || strlen(text->p) != text->len)
        return err_new(EXIT_USAGE,
                       "send: the text is over %d bytes or has a NUL: put it in a file of the project",
                       TEXT_MAX);
    if (!utf8_valid(text->p, text->len))
        return err_new(EXIT_USAGE, "send: the text is not UTF-8: put it in a file of the project");
    return NULL;
}

/* The file before the text, at whose end its place stands. The place is printed too, but with a text whose report or events
 * are the output. */
static err_t send_file(const struct call *call, struct buf *text) {
    const char *path = call_option(call, "file");
    own_free char *place = NULL;
    own_buf struct buf safe = {0};
    if (!path && call->nargs < 2)
        return err_new(EXIT_USAGE, "send: a TEXT, a --file, or both");
    if (!path)
        return NULL;
    TRY(files_put(call->args[0], path, &place));
    bool told = text->len && (call_option(call, "wait") || call_option(call, "json"));
    if (text->len)
        buf_printf(text, "\n\n[file: %s]", place);
    if (told)
        return NULL;
    escape_text(&safe, ESCAPE_LINE, place, strlen(place));
    printf("%s\n", buf_text(&safe));
    return NULL;
}

err_t verb_send(const struct call *call, int *ret_status) {
    TRY(name_check(call->args[0]));
    own_buf struct buf text = {0};
    if (call->nargs > 1) {
        TRY(text_of(call->args[1], &text));
        TRY(text_check(&text));
    }
    TRY(send_file(call, &text));
    if (!text.len)
        return NULL;
    TRY(text_check(&text));
    struct sending *s = xcalloc(1, sizeof *s);
    *s = (struct sending){.agent = call->args[0], .text = buf_text(&text), .client = {.fd = -1}};
    s->wait = call_option(call, "wait");
    s->json = call_option(call, "json");
    err_t e = hex_key(s->key);
    if (!e)
        e = deliver(s);
    *ret_status = s->status;
    client_close(&s->client);
    drop_early(s);
    free(s);
    return e;
}
