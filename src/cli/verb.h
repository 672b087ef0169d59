/*
 * Verbs of the command line: what a row of verbs.def becomes, and one call of a verb, parsed. A verb does its
 * work and returns an error (printed by cli_main, its status the exit status) or sets the exit status itself.
 */
#ifndef CLI_VERB_H
#define CLI_VERB_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { CALL_ARGS_MAX = 256, CALL_OPTIONS_MAX = 24 };

struct option_row {
    const char *name;  /* "json" for --json; NULL ends a table */
    char letter;       /* 'f' for -f, 0: none */
    const char *value; /* what stands behind it, NULL for a flag */
    const char *help;
    const char *words; /* values that completion offers, apart by spaces; NULL: none */
};

struct call;
/* *ret_status is 0 before; what is left there is the exit status when no error is returned. */
typedef err_t verb_fn(const struct call *call, int *ret_status);

enum verb_first { NOTHING, WORD, AGENT };
enum verb_command { PLAIN, COMMAND };

struct verb {
    const char *name;
    verb_fn *run;
    const char *args;
    size_t least, most;
    enum verb_first first;
    enum verb_command command;
    const struct option_row *options; /* ended by a NULL name */
    const char *help, *about;
};

#define VERB(name, args, least, most, first, command, options, help, about) verb_fn verb_##name;
#include "cli/verbs.def"
#undef VERB

extern const struct verb verbs[]; /* ended by a NULL name */

/* NULL when there is none. */
const struct verb *verb_find(const char *name);

struct call {
    const struct verb *verb;
    const char *args[CALL_ARGS_MAX]; /* NULL behind the last one given */
    size_t nargs;
    const char *options[CALL_OPTIONS_MAX]; /* by row of verb->options; "" for a flag; NULL: not given */
    char *const *command;                  /* the words behind `--`, NULL-ended */
    size_t ncommand;
    bool help; /* --help was among the words */
};

/*
 * Parses the words behind the verb (argv need not be NULL-ended but stays the caller's and outlives the
 * call). Options may stand anywhere before `--`, as `--name value` or `--name=value`. What does not fit is an
 * EXIT_USAGE error.
 */
err_t call_parse(const struct verb *verb, int argc, char *const *argv, struct call *ret);

/* The value of an option of this verb ("" for a flag that is set), NULL when it was not given. A name that
 * the verb's table does not have is a fault in the program. */
const char *call_option(const struct call *call, const char *name);

/* "agent-cage exec NAME [--timeout S] -- CMD …": the caller frees. */
char *verb_usage(const struct verb *verb);

void help_all(FILE *to);
void help_verb(const struct verb *verb, FILE *to);

/* Writes agent-cage.1 and agent-cage-VERB.1 into an existing folder. */
err_t man_emit(const char *dir);

/* Prints the completion for bash. */
void completion_emit(FILE *to);

#endif
