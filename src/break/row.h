/*
 * What is tried against a cage, as a table (rows.def), and what the answers mean. An attempt runs inside, in the control
 * arms outside, and is judged by one rule (judge.h).
 */
#ifndef BREAK_ROW_H
#define BREAK_ROW_H

#include <stdbool.h>
#include <stddef.h>

enum {
    ANSWER_MAX = 1024,
    FACTS_MAX = 64,
    PROBE_PORT = 7077 /* where the probe listens while it holds still */
};

/* The rooms that are judged; each has its own right answers. */
enum kind { KIND_POD, KIND_HARNESS, KIND_SEALED, KIND_SEALED_AGENT, KIND_COUNT };

/* What makes an answer worth something. */
enum proof {
    DIFFERS, /* a control arm, without the cage, answers something that is not right here */
    REACHES, /* a control arm, without the rules, answers OK */
    LIVE,    /* nothing: it must work, and shows that the attempts beside it could */
    ABROAD,  /* as LIVE, but where the host itself gets no answer there it is not judged */
    EQUAL,   /* nothing: an inventory, equal to the declared set; a mutation shows that it can be wrong */
    ALIKE,   /* nothing: the kernel answers so everywhere; kept because cages rely on it */
};

/* What the attempts know of the world outside: "key=value" words of the probe's command line. */
struct facts {
    const char *word[FACTS_MAX];
    size_t n;
};

/* The n-th value of a key, NULL when there are no more. */
const char *fact(const struct facts *f, const char *key, size_t n);

/* An attempt. It returns -1 with errno, which is the answer by name, or anything else, which is OK; or it writes its answer as
 * words and returns 0. Runs in a process of its own. */
typedef long attempt_fn(const struct facts *f, char answer[ANSWER_MAX]);

struct row {
    const char *what; /* "US-01 unshare(NEWUSER)": the id, a blank, words; unique */
    attempt_fn *attempt;
    enum proof proof;
    const char *want[KIND_COUNT]; /* right answers, '|' between; NULL: not tried in such a room */
};

extern const struct row rows[];
extern const size_t nrows;

/* The place of a row in the table, nrows when there is none. */
size_t row_find(const char *what);

/* Does its verdict depend on a control arm? */
bool row_needs_arm(const struct row *r);

/* Does it try to reach somebody by IPv6? */
bool row_needs_six(const struct row *r);

/* Is `answer` one of those in `want`? */
bool row_right(const char *want, const char *answer);

const char *kind_name(enum kind kind);

/* Has it the network of a sealed cage: the internet and nothing local? */
bool kind_sealed(enum kind kind);

#endif
