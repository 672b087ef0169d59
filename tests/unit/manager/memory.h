/* A database in a fresh folder for each case. */
#ifndef TESTS_UNIT_MANAGER_MEMORY_H
#define TESTS_UNIT_MANAGER_MEMORY_H

#include "base/fs.h"
#include "base/own.h"
#include "manager/db.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static char memory_dir[64];
static struct db *db;

static inline char *memory_path(void) {
    return xasprintf("%s/fleet.db", memory_dir);
}

static inline void memory_again(void) {
    own_free char *path = memory_path();
    db_close(db);
    db = NULL;
    assert_null(db_open(&manager_db, path, &db));
}

static inline int memory_open(void **state) {
    (void)state;
    snprintf(memory_dir, sizeof memory_dir, "/tmp/unit-manager-XXXXXX");
    assert_non_null(mkdtemp(memory_dir));
    db = NULL;
    memory_again();
    return 0;
}

static inline int memory_close(void **state) {
    (void)state;
    db_close(db);
    assert_null(fs_remove(memory_dir));
    return 0;
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, memory_open, memory_close)

#endif
