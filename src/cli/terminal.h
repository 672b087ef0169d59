/* Our own terminal made raw, and put back whatever happens: by terminal_restore(), at exit(), never twice. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include "base/err.h"

/*
 * A new pseudo-terminal of the multiplexer `ptmx` (NULL: this machine's /dev/ptmx) with the size and the settings of the
 * terminal `like`. *ret_master is non-blocking, both are close-on-exec.
 */
err_t terminal_pair(const char *ptmx, int like, int *ret_master, int *ret_slave);

/* Every byte passes as it is, Ctrl-C too, until terminal_restore(). One terminal a process. */
err_t terminal_raw(int fd);
void terminal_restore(void);

/* As terminal_raw(), but what is typed is only not shown; SIGINT and SIGTERM put it back and end the process. */
err_t terminal_silent(int fd);

/* Gives `master` the size of the terminal `like`; its foreground processes get SIGWINCH. */
void terminal_size(int like, int master);

#endif
