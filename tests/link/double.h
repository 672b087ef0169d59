/*
 * A double of all that stands behind the relay: knows agents `demo` (runs what it is told, on this machine, as the test)
 * and `other`, keeps events, answers. For tests of the command line through a real relay.
 */
#ifndef LINK_DOUBLE_H
#define LINK_DOUBLE_H

/* Serves the manager's end of a link until it hangs up; never returns. */
_Noreturn void double_run(int fd);

/* What makes a terminal do something: clear, OSC 52 (clipboard), a bidi override, CR. */
#define HOSTILE "\033[2J\033]52;c;aGVsbG8=\a\xe2\x80\xaeover\rhere"
#define HOSTILE_SHOWN "\\x1b[2J\\x1b]52;c;aGVsbG8=\\x07\\u{202e}over\\rhere"

#endif
