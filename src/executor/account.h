/*
 * The executor's account: a line for every command, kept until the agent says that it has it. Bounded: when
 * it is full, new commands wait, so nothing runs that could not be written down.
 */
#ifndef EXECUTOR_ACCOUNT_H
#define EXECUTOR_ACCOUNT_H

#include "proto/msg.h"
#include "wire/link.h"

#include <stdbool.h>
#include <stdint.h>

enum { ACCOUNT_ROWS = 4096, ACCOUNT_BYTES = 8 << 20 };

struct account;

struct row {
    uint64_t number; /* from account_number(), or 0: account_add() gives one */
    char who[65], how[17];
    struct list argv;
    struct bytes cwd;
    uint64_t start_wall_ms, span_us;
    int64_t status;
    void *arena; /* what argv and cwd point into (each NUL-terminated); freed by account_add() */
};

struct account *account_new(void);

/* The number of a command that begins: rises by one, from the wall clock's microseconds at the start. */
uint64_t account_number(struct account *a);

/* The first number of this account: those below are of an earlier one. */
uint64_t account_first(const struct account *a);

/* Takes *row. Even when full: what ran must be written down; "full" keeps others from starting. */
void account_add(struct account *a, const struct row *row);
bool account_full(const struct account *a);

/* All of it is settled. */
bool account_empty(const struct account *a);

/* From now on lines go to this link (NULL: to none), beginning with all that are kept. */
void account_link(struct account *a, struct link *l);

/* The link has room again. */
void account_push(struct account *a);

/* The agent has it. Unknown numbers are fine (settled before). */
void account_settle(struct account *a, uint64_t number);

void account_free(struct account *a);

#endif
