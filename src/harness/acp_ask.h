/*
 * ACP's session/request_permission as a question for a person, and the person's choice as its answer. What is shown is the
 * whole tool call as the program sent it; one that is longer than a question may be is declined, because nobody could read
 * what they allow. A choice is called by its kind first, in our words, then by the program's name for it, so that a "no"
 * cannot be a yes in disguise; a request without a "no" gets one from us.
 */
#ifndef HARNESS_ACP_ASK_H
#define HARNESS_ACP_ASK_H

#include "harness/vendor.h"

enum { ACP_ASKS_MAX = 8, ACP_OPTION_MAX = 128, ACP_ID_MAX = 256 };

struct acp_ask {
    uint64_t number;                              /* 0: a free place */
    char id[ACP_ID_MAX];                          /* of the request, as JSON */
    char option[ASK_CHOICES_MAX][ACP_OPTION_MAX]; /* what each choice is to the program; "": cancelled */
    size_t n, no;                                 /* no: the choice that declines it once; it has one */
};

struct acp_asks {
    struct acp_ask open[ACP_ASKS_MAX];
    uint64_t last;
};

/* A request; j is the whole message. */
void acp_asks(struct vendor *v, struct acp_asks *a, const json_t *j);

/* The person's word; a number that is not open is late. */
void acp_asked(struct vendor *v, struct acp_asks *a, uint64_t question, uint64_t choice);

/* Those that are open are cancelled. */
void acp_asks_over(struct vendor *v, struct acp_asks *a);

/* acp.c: the answer to a request of the program; takes value. */
void acp_answer(struct vendor *v, const json_t *id, const char *what, json_t *value);

#endif
