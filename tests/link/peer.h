/*
 * The scripted side of a test against a real part: a process of the built binary, started as the warden starts it, whose every
 * link ends here. All waiting has a deadline; what does not come fails the test.
 */
#ifndef TESTS_LINK_PEER_H
#define TESTS_LINK_PEER_H

#include "wire/seq.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

enum { DEADLINE_MS = 10000 };

struct peer {
    const char *part; /* "agent", "harness" */
    char dir[64];     /* a fresh folder; home, project, scratch are in it; removed by peer_end() */
    pid_t pid;        /* 0: not running */
    int listener, control;
    const char *mode;                                         /* of part_go; NULL: pod */
    const char *upstream, *credential, *budget, *prices, *ca; /* of part_go; NULL: "" */
    uint64_t ask_ms, idle_ms, reserve;                        /* of part_go; ask_ms 0: a minute */
};

/* The path of the binary under test; set by main() from argv[1]. */
extern const char *peer_binary;

void peer_begin(struct peer *p, const char *part);

/* Starts the process and hears its hello. */
void peer_start(struct peer *p);

/* part_go with harness `shell`, or another, and this output_max. */
void peer_go(struct peer *p, uint64_t output_max);
void peer_go_as(struct peer *p, const char *harness, uint64_t output_max);

/* Makes a link; returns this side's end. */
int peer_link(struct peer *p, enum link_id link);

/* SIGKILL, reaped; the control connection is closed. */
void peer_kill(struct peer *p);

/* Kills what runs and removes the folder. */
void peer_end(struct peer *p);

/* The number behind "FIELD:" in /proc/PID/status, in this base. */
uint64_t peer_status(const struct peer *p, const char *field, int base);

/* Kilobytes: VmHWM of the process. */
size_t peer_peak_kb(const struct peer *p);

void say(int fd, const struct msg *m);

/* The next message within the time; false: none came, or the peer is gone (*ret_gone). */
bool hear(int fd, int timeout_ms, struct msg *ret, bool *ret_gone);

/* The next message of this type; those of other types before it are passed over. */
void expect(int fd, enum msg_type type, struct msg *ret);

/* Nothing of this type comes within the time. */
void expect_none(int fd, enum msg_type type, int timeout_ms);

/* The link ends. */
void expect_end(int fd);

int64_t now_ms(void);

#endif
