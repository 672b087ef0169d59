/* The command line: what the binary is when its name is no applet's. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/err.h"

/* Runs the verb argv[1]; prints an error once, as one sentence on standard error; returns the exit status. */
int cli_main(int argc, char **argv);

/* Prints an error, its sentence escaped, and frees it; returns its exit status. For a verb that has more to say behind it. */
int cli_report(err_t e);

#endif
