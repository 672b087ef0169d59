/* What the rows of rows.def are made of. Each returns as an attempt does: -1 and errno, or anything else. */
#ifndef BREAK_TRY_H
#define BREAK_TRY_H

#include "break/row.h"

#include <stdbool.h>
#include <stddef.h>

#define BAD ((void *)1)

long try_fail(int error);

/* Adds a word to an answer that is a list, or the mark of a list that is cut. */
void answer_add(char answer[ANSWER_MAX], const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A list with nothing in it reads "none". */
long answer_done(char answer[ANSWER_MAX]);

/* ---- system calls (try_calls.c) ---- */
long try_read_parent(void);
long try_foreign_families(void);
long try_int80(long number, long argument);
long try_stacked_vsock(void);
long try_stacked_unshare(void);
long try_clone(unsigned long flags);
long try_clone3_newuser(void);
long try_threads_and_fork(void);
long see_newest_calls(char *answer);

/* ---- privileges (try_power.c) ---- */
long try_chown_own(void);
long try_file_cap(void);
long try_make_setuid(void);
long try_make_setgid(void);
long try_make_immutable(void);
long try_make_append_only(void);
long try_raise_limit(int which, unsigned long to);
long try_bind_port(int port);
long try_option(int family, int level, int option);
long try_forge_credentials(void);
long see_status(const char *field, char *answer); /* a line of /proc/self/status */
long see_capabilities(char *answer);
long see_groups(char *answer);
long see_environment(char *answer);
long see_limit(int which, char *answer);
long see_programs(char *answer);

/* ---- files and mounts (try_files.c, try_mounts.c) ---- */
long try_create_in(const char *dir);
long try_list(const char *path);
long try_write(const char *path);
long try_touch(const char *path);
long try_rename_binary(void);
long try_exec_copy(const char *dir);
long try_map_exec(const char *dir);
long try_fill(const char *dir);
long see_space(const char *place, char *answer);
long see_descriptors(char *answer);
long see_dev(char *answer);
long see_armed_files(char *answer);
long see_sockets(char *answer);
long see_planted(const struct facts *f, char *answer);
long see_writable_mounts(char *answer);
long see_unprotected(char *answer);
long see_open_groups(char *answer);
long see_unmasked(char *answer);
long see_propagation(char *answer);

/* ---- processes, other rooms (try_room.c) ---- */
long try_signal(const struct facts *f);
long try_proc_entry(const struct facts *f);
long try_shm_file(const struct facts *f);
long try_shm_segment(const struct facts *f);
long see_services(char *answer);
long see_processes_end(char *answer);
long see_descriptors_end(char *answer);
long see_line(const char *path, char *answer); /* the first of a file */
/* Is the number at `path` below the host's own at `host`? "a part"; else "all": it bounds nothing. */
long see_bound(const char *path, const char *host, char *answer);

/* ---- network (try_net.c) ---- */
long try_tcp(const char *address, int port);
long try_udp(const char *address, int port);
long try_tcp_far(const char *address, int port); /* with time to come back from far away */
long try_tcp_text(const char *text);             /* an IPv4 address as inet_aton(3) reads it */
long try_broadcasts(const struct facts *f);      /* OK: one of them got through */
long try_add_address(void);
long see_listeners(const struct facts *f, char *answer);
long see_resolver(char *answer);
long see_hosts(char *answer);

#endif
