#include "relay/question.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

static void fill_say(const struct msg *f, const char *who, struct msg *ret) {
    ret->fleet_say.who = bytes_of(who);
    ret->fleet_say.key = f->front_say.key;
    ret->fleet_say.agent = f->front_say.agent;
    ret->fleet_say.text = f->front_say.text;
}

static void fill_order(const struct msg *f, const char *who, struct msg *ret) {
    ret->fleet_order.who = bytes_of(who);
    ret->fleet_order.order = f->front_order.order;
    ret->fleet_order.agent = f->front_order.agent;
    ret->fleet_order.arg = f->front_order.arg;
}

static void fill_answer(const struct msg *f, const char *who, struct msg *ret) {
    ret->fleet_answer.who = bytes_of(who);
    ret->fleet_answer.agent = f->front_answer.agent;
    ret->fleet_answer.question = f->front_answer.question;
    ret->fleet_answer.digest = f->front_answer.digest;
    ret->fleet_answer.choice = f->front_answer.choice;
}

static void fill_token(const struct msg *f, const char *who, struct msg *ret) {
    (void)who;
    ret->fleet_token.agent = f->front_token.agent;
    ret->fleet_token.box = f->front_token.box;
}

static void fill_list(const struct msg *f, const char *who, struct msg *ret) {
    (void)f, (void)who, (void)ret;
}

static void fill_status(const struct msg *f, const char *who, struct msg *ret) {
    (void)who;
    ret->fleet_status.agent = f->front_status.agent;
}

static void fill_sessions(const struct msg *f, const char *who, struct msg *ret) {
    (void)who;
    ret->fleet_sessions.agent = f->front_sessions.agent;
}

static void fill_events(const struct msg *f, const char *who, struct msg *ret) {
    (void)who;
    ret->fleet_events.agent = f->front_events.agent;
    ret->fleet_events.after = f->front_events.after;
    ret->fleet_events.before = f->front_events.before;
    ret->fleet_events.follow = f->front_events.follow;
}

static void fill_log(const struct msg *f, const char *who, struct msg *ret) {
    (void)who;
    ret->fleet_log.agent = f->front_log.agent;
    ret->fleet_log.after = f->front_log.after;
    ret->fleet_log.limit = f->front_log.limit;
    ret->fleet_log.follow = f->front_log.follow;
}

static void fill_exec(const struct msg *f, const char *who, struct msg *ret) {
    ret->fleet_exec.who = bytes_of(who);
    ret->fleet_exec.agent = f->front_exec.agent;
    ret->fleet_exec.timeout_ms = f->front_exec.timeout_ms;
    ret->fleet_exec.cwd = f->front_exec.cwd;
    ret->fleet_exec.argv = f->front_exec.argv;
    ret->fleet_exec.env = f->front_exec.env;
    ret->fleet_exec.tty = f->front_exec.tty;
    for (; ret->nfds < f->nfds; ret->nfds++)
        ret->fds[ret->nfds] = f->fds[ret->nfds];
}

static void fill_put(const struct msg *f, const char *who, struct msg *ret) {
    ret->fleet_put.who = bytes_of(who);
    ret->fleet_put.agent = f->front_put.agent;
    ret->fleet_put.name = f->front_put.name;
    ret->fleet_put.size = f->front_put.size;
    ret->fds[ret->nfds++] = f->fds[0];
}

static void fill_get(const struct msg *f, const char *who, struct msg *ret) {
    ret->fleet_get.who = bytes_of(who);
    ret->fleet_get.agent = f->front_get.agent;
    ret->fleet_get.name = f->front_get.name;
    ret->fds[ret->nfds++] = f->fds[0];
}

/* A message that is said has a key, so saying it twice is taken once; an order or a command may not be done
 * twice. */
static const struct question_kind kinds[] = {
    {MSG_front_say, MSG_fleet_say, fill_say, true, false, ""},
    {MSG_front_order, MSG_fleet_order, fill_order, false, false,
     "the manager restarted before it could tell how that went: `agent-cage status` shows it"},
    {MSG_front_answer, MSG_fleet_answer, fill_answer, false, false,
     "the manager restarted before it could tell whether the answer was taken: the chat shows how the "
     "question ended"},
    {MSG_front_token, MSG_fleet_token, fill_token, false, false,
     "the manager restarted before it could tell whether the token was taken: `agent-cage status` shows it"},
    {MSG_front_list, MSG_fleet_list, fill_list, true, false, "the manager restarted; try again"},
    {MSG_front_status, MSG_fleet_status, fill_status, true, false, "the manager restarted; try again"},
    {MSG_front_sessions, MSG_fleet_sessions, fill_sessions, true, false, "the manager restarted; try again"},
    {MSG_front_events, MSG_fleet_events, fill_events, true, true, ""},
    {MSG_front_log, MSG_fleet_log, fill_log, true, true, ""},
    {MSG_front_exec, MSG_fleet_exec, fill_exec, false, false,
     "the manager restarted, which ends the commands asked of it"},
    {MSG_front_put, MSG_fleet_put, fill_put, false, false,
     "the manager restarted before it could tell whether the file arrived: the chat shows it if it did"},
    {MSG_front_get, MSG_fleet_get, fill_get, false, false,
     "the manager restarted before it could tell whether the file is whole: fetch it again"},
};

#define PAIR_OF(name)                                                                                        \
    _Static_assert(sizeof(struct msg_ret_##name) == sizeof(struct msg_relay_##name), "ret_" #name);          \
    _Static_assert(offsetof(struct msg_ret_##name, cookie) == 0 &&                                           \
                       offsetof(struct msg_relay_##name, cookie) == 0,                                       \
                   "ret_" #name);
PAIR_OF(agent)
PAIR_OF(status)
PAIR_OF(event)
PAIR_OF(row)
PAIR_OF(session)
PAIR_OF(exec_end)
PAIR_OF(end)

static const enum msg_type answers[][2] = {
    {MSG_ret_agent, MSG_relay_agent},     {MSG_ret_status, MSG_relay_status},
    {MSG_ret_event, MSG_relay_event},     {MSG_ret_row, MSG_relay_row},
    {MSG_ret_session, MSG_relay_session}, {MSG_ret_exec_end, MSG_relay_exec_end},
    {MSG_ret_end, MSG_relay_end},
};

const struct question_kind *question_kind(enum msg_type front) {
    for (size_t i = 0; i < COUNT(kinds); i++)
        if (kinds[i].front == front)
            return &kinds[i];
    return NULL;
}

enum msg_type question_answer(enum msg_type ret) {
    for (size_t i = 0; i < COUNT(answers); i++)
        if (answers[i][0] == ret)
            return answers[i][1];
    return MSG_none;
}

bool question_ends(enum msg_type ret) {
    return ret == MSG_ret_end || ret == MSG_ret_exec_end;
}

/* Through the codec, which alone knows every field. */
static err_t copy(const struct msg *m, struct msg *ret) {
    own_buf struct buf b = {0};
    unsigned flags;
    own_msg struct msg c = {0};
    TRY(msg_encode(m, &b));
    TRY(msg_decode(b.p, b.len, &c, &flags));
    for (; c.nfds < m->nfds; c.nfds++) {
        c.fds[c.nfds] = fcntl(m->fds[c.nfds], F_DUPFD_CLOEXEC, 3);
        if (c.fds[c.nfds] < 0)
            return err_sys(errno, "duplicate a descriptor");
    }
    *ret = c;
    c = (struct msg){0};
    return NULL;
}

err_t question_new(const struct msg *front, const char *who, struct question **ret) {
    const struct question_kind *kind = question_kind(front->type);
    if (!kind)
        return err_new(EXIT_USAGE, "no question: %s", msg_rows[front->type].name);
    struct msg fleet = {.type = kind->fleet};
    kind->fill(front, who, &fleet);
    struct msg kept;
    TRY(copy(&fleet, &kept));
    struct question *q = xcalloc(1, sizeof *q);
    *q = (struct question){.kind = kind, .theirs = front->front_list.cookie, .kept = kept};
    *ret = q;
    return NULL;
}

void question_free(struct question *q) {
    if (!q)
        return;
    msg_free(&q->kept);
    free(q);
}

void question_sent(struct question *q) {
    q->sent = q->tried = true;
    if (q->kind->again)
        return;
    msg_free(&q->kept);
    q->kept = (struct msg){0};
}

void question_moves(struct question *q, const struct msg *ret) {
    q->answered = true;
    if (ret->type == MSG_ret_event && q->kind->fleet == MSG_fleet_events)
        q->kept.fleet_events.after = ret->ret_event.seq;
    if (ret->type == MSG_ret_row && q->kind->fleet == MSG_fleet_log) {
        q->kept.fleet_log.after = ret->ret_row.seq;
        if (q->kept.fleet_log.limit && !--q->kept.fleet_log.limit)
            q->complete = true;
    }
}

bool question_again(const struct question *q) {
    return !q->sent || (q->kind->again && (q->kind->stream || !q->answered));
}
