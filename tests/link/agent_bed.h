/* What the tests of the agent share: a real agent, and this side of its three links. */
#ifndef TESTS_LINK_AGENT_BED_H
#define TESTS_LINK_AGENT_BED_H

#include "peer.h"

enum { OUTPUT_MAX = 1 << 20 };

extern struct peer p;
extern int manager, harness, executor; /* this side's ends; -1: none */

/* Before and after each test: an agent that has its links and may go. */
int set_up(void **state);
int tear_down(void **state);
#define row(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

void start(void);
void cut(void); /* closes the three ends */

/* A kill at this moment, and the warden's healing. */
void restart(void);
void restart_as(const char *harness);

/* As manager. */
void deliver(uint64_t id, const char *text);
void settle(uint64_t id);
void session_order(enum msg_type type, uint64_t cookie,
                   const char *arg); /* MSG_desk_fresh or MSG_desk_resume */

/* desk_finished of this id comes; text: a part of the report. */
void expect_finish(uint64_t id, const char *outcome, const char *text);

/* As harness. */
void expect_start(uint64_t id);
void output(uint64_t id, const char *text, size_t n);
void end_turn(uint64_t id, int64_t status); /* done */
void end_turn_as(uint64_t id, const char *outcome, int64_t status);

/* A message that is told, said, done and settled. */
void a_turn(uint64_t id);

/* As executor: a row for a command that begins now. who "": the harness's. argument: bytes of its argv. */
void ran(uint64_t row, const char *who, size_t argument);

#endif
