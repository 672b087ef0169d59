/* The command line: what the binary is when its name is no applet's. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

/* Runs the verb argv[1]; prints an error once, as one sentence on standard error; returns the exit status. */
int cli_main(int argc, char **argv);

#endif
