/*
 * What every harness but the shell has in common: a vendor's program, its conversation, its turns. What differs is data
 * (words of its command line and environment) and a protocol: what its lines mean.
 *
 *              start          stop          line        program over                    late
 *   IDLE       launch, BUSY   -             heard       the next turn starts it again   -
 *   BUSY       (one a time)   STOPPING      heard       unknown, or what it had said    -
 *   STOPPING   (one a time)   -             heard       done, 130                       kill it: done, 130
 *
 *   IDLE       A program that lasts may run, and says things: what it says is kept for the next turn's beginning.
 *   BUSY       The program has the text. The turn ends by vendor_verdict(), or by the program's end.
 *   STOPPING   The protocol asked it to stop, STOP_MS ago at most; then it is killed. Its conversation goes on either way.
 *
 * A program that lasts and had no turn for the floor's idle_ms is ended, unless it has children (a command in the background is
 * one): the next turn starts it again.
 *
 * A program is ended in order (program_close()), so that it has written what the next one reads; the next one is started when it is
 * gone, and the turn's text waits for that.
 *
 * The conversation's id is kept in the room's home (session.h); a program that has died is started again with it. One that
 * says that it has no such conversation, before it took the text up, gets the text in a new one, and that is said.
 * One that ends without a word after its start is started once more.
 */
#ifndef HARNESS_VENDOR_H
#define HARNESS_VENDOR_H

#include "base/buf.h"
#include "harness/harness.h"
#include "harness/program.h"
#include "harness/session.h"
#include "harness/tools.h"

enum { STOP_MS = 1000, BETWEEN_MAX = 8192 };

/* When a word counts. */
enum vendor_when { ALWAYS, IF_TOKEN, IF_KEY, IF_MODEL, IF_SESSION, IF_NO_SESSION, IF_ANTHROPIC, IF_OPENAI };

/* "{base_url}", "{placeholder}", "{model}", "{session}", "{text}" (the turn's), "{home}", "{scratch}", "{project}" stand for what they name. */
struct vendor_word {
    const char *text;
    enum vendor_when when;
};

struct vendor;

struct protocol {
    const char *word;    /* of `new --harness` */
    const char *program; /* a path or a name; NULL: the first word of the harness's argument */
    bool lasts;          /* one program for many turns; else one for each */
    /* What it says on its standard error, and ends, when it has not the conversation that it is told to take up. NULL: it takes none up
     * by its command line. */
    const char *lost;
    bool (*took)(const struct vendor *v); /* the turn's text was taken up; NULL: it was if a line came */
    const struct vendor_word *argv;       /* NULL-ended; after argv[0] */
    const struct vendor_word *env;        /* NULL-ended; beside the room's own */
    void (*prepare)(struct vendor *v);    /* before each start of the program; may be NULL */
    /* A turn begins: its text goes to the program. */
    err_t (*begin)(struct vendor *v, const char *text);
    void (*line)(struct vendor *v, const json_t *j);
    void (*plain)(struct vendor *v, const char *text); /* a line that is no JSON; NULL: a note */
    void (*interrupt)(struct vendor *v);               /* within STOP_MS it should end its turn */
    void (*answered)(struct vendor *v, uint64_t question, uint64_t choice); /* NULL: it asks nothing */
    bool status_judges; /* it tells nothing of its turn but by its exit status */
    size_t own_size;    /* of v->own, zeroed at each start of the program */
};

extern const struct protocol claude_protocol, codex_protocol, zcode_protocol, acp_protocol;

enum vendor_state { VENDOR_IDLE, VENDOR_BUSY, VENDOR_STOPPING };

struct vendor {
    const struct protocol *protocol;
    const struct floor *floor;
    struct program *program;
    struct session session;
    uint64_t number; /* the agent's, of that conversation */
    bool told_running;
    struct tools tools;
    enum vendor_state state;
    char *text;          /* of the turn */
    unsigned generation; /* of the world that the program was started with */
    bool heard;          /* the program has said something since its start */
    bool resumed;        /* it was started with a conversation's id */
    bool waits;          /* BUSY: for the end of the program before */
    bool again;          /* in this turn it was started a second time */
    bool amid;           /* the text said last did not end its line */
    bool judged;         /* a program for one turn has told how that ended, and will end itself */
    char *verdict;
    int64_t status;
    struct event *late, *idle;
    struct buf between; /* what was said between turns */
    void *own;
};

/* The harness's calls, for every protocol alike; open() is each protocol's, around vendor_open(). */
err_t vendor_open(const struct protocol *p, const struct floor *f, void **ret);
err_t vendor_start(void *h, const char *text);
void vendor_stop(void *h);
void vendor_session_is(void *h, uint64_t number);
void vendor_resume(void *h);
void vendor_answered(void *h, uint64_t question, uint64_t choice);
void vendor_exited(void *h, pid_t pid, int status);
void vendor_close(void *h);
#define VENDOR_HARNESS(open_fn)                                                                              \
    {                                                                                                        \
        .open = (open_fn), .start = vendor_start, .stop = vendor_stop, .session = vendor_session_is,         \
        .resume = vendor_resume, .answered = vendor_answered, .exited = vendor_exited, .close = vendor_close \
    }

/* ---- for protocols ---- */

/* Text of the model; outside of a turn it is kept for the next one. A paragraph of its own. */
void vendor_says(struct vendor *v, const char *text);

/* The same, a piece of it as it comes. */
void vendor_adds(struct vendor *v, const char *text);

/* A sentence of ours in the turn, or in the log. */
void vendor_note(struct vendor *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* total: tokens; detail: an object, as the vendor tells it, may be NULL. */
void vendor_usage(struct vendor *v, const char *model, uint64_t total, const json_t *detail);

/* The conversation has this id. */
void vendor_session(struct vendor *v, const char *id, uint64_t number);

/* How the turn ended. A program that lasts goes on; another one is waited for. Outside of a turn nothing happens. */
void vendor_verdict(struct vendor *v, int64_t status, const char *text);

/* It cannot go on with this program: the turn ends as refused, the program is killed. */
void vendor_refuse(struct vendor *v, const char *why);

#endif
