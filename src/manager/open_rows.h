/*
 * Commands that began and whose end was not told yet: kept so that each has a row even when all who saw it run are gone. Most
 * end before the batch is written that has their beginning, and never touch the table.
 */
#ifndef MANAGER_OPEN_ROWS_H
#define MANAGER_OPEN_ROWS_H

#include "manager/db.h"
#include "proto/audit_hash.h"

enum { OPEN_ROWS_WAIT = 1024, OPEN_ROWS_BYTES = 8 << 20 };

struct open_rows;

struct open_rows *open_rows_new(struct db *db);
void open_rows_free(struct open_rows *o);

/* Takes one (copied) to be written. False: now as many wait as may; over twice the bound it is left out. */
bool open_rows_add(struct open_rows *o, uint64_t number, uint64_t message, const struct audit_row *row);

/* It ended before it was written. */
void open_rows_drop(struct open_rows *o, const char *agent, uint64_t number);

bool open_rows_wait(const struct open_rows *o);

/* In the caller's transaction; open_rows_written() once that is committed. */
err_t open_rows_write(struct open_rows *o);
void open_rows_written(struct open_rows *o);

#endif
