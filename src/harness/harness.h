/*
 * What a harness is: the vendor's program, or the shell, that a turn's text goes to. One file and one row in
 * harness.def each; the room (from_agent.c) does the rest. All calls come from the loop; none may block.
 */
#ifndef HARNESS_HARNESS_H
#define HARNESS_HARNESS_H

#include "base/err.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Where the model is, as the agent said last. The placeholder is all that this room has of a credential. */
struct world {
    unsigned
        generation; /* rises when any of it changes: a program that was started with another must be started again; 0:
                            the agent said nothing yet */
    char *base_url, *vendor, *placeholder, *login, *model;
};

/* The room as a harness sees it, from part_go until the end. */
struct floor {
    struct event_base *base;
    char *project;        /* where commands begin */
    char *home, *scratch; /* this room's own, kept; shared with the executor */
    uint64_t idle_ms;     /* a program without work for so long may be ended until the next turn; 0: never */
    char *arg;            /* what stands behind the harness's word: "acp:gemini" has "gemini"; "" for none */
    char *const *env;     /* what programs get, NULL-ended; nothing else of ours */
    const struct world *world; /* of `up` */
    struct from_agent *up;     /* for the say_ calls */
};

struct harness {
    /* Once. What it returns is handed to the other calls. */
    err_t (*open)(const struct floor *f, void **ret);

    /*
     * A turn begins; none is under way. Afterwards the harness says any number of say_output() and exactly
     * one say_end(), later, from the loop. An error: nothing was begun; the turn is refused with its
     * sentence.
     */
    err_t (*start)(void *h, const char *text);

    /* Ends the turn that is under way: say_end() must come within a second or so, whatever the program does.
     */
    void (*stop)(void *h);

    /* No turn is under way; turns belong to this conversation from now on. One that is new here begins. NULL: it has none. */
    void (*session)(void *h, uint64_t number);

    /* Of a question that was asked in this turn (say_ask()). choice: 1 for the first; 0: no. NULL: it asks none. */
    void (*answered)(void *h, uint64_t question, uint64_t choice);

    /* say_full() was true and is not any more. */
    void (*resume)(void *h);

    /*
     * A child of the room, not necessarily the harness's own, ended; status as waitpid's. It is reaped after
     * the call, so until then its process group cannot be another's.
     */
    void (*exited)(void *h, pid_t pid, int status);

    /* Ends every program at once and frees h. */
    void (*close)(void *h);
};

/* The harness of "WORD" or "WORD:ARG" and its argument, which points into `text`; EXIT_NOTFOUND. */
err_t harness_of(const char *text, const struct harness **ret, const char **ret_arg);

enum stream { STREAM_OUT = 1, STREAM_ERR = 2 };
enum { OUTPUT_MAX = 65536 }; /* bytes of one say_output() */

/* Without a link they do nothing. */
void say_output(struct from_agent *up, enum stream stream, const char *p, size_t n);

/*
 * What happened in the turn, as messages.def has it (turn_event): "text", "tool_start", "tool_end", "usage", "note". Texts
 * are UTF-8; what is too long for the message is cut, but a "text" is said in several.
 */
void say_event(struct from_agent *up, const char *kind, const char *call, const char *name, int64_t status,
               const char *text, size_t len);

/*
 * Asks a person. name, text: what a yes allows, all of it, since it is shown and nothing else; choices: n of them. The answer
 * comes by answered() unless the turn ends first.
 */
enum { ASK_NAME_MAX = 128, ASK_TEXT_MAX = 16384, ASK_CHOICES_MAX = 16, ASK_CHOICE_MAX = 200 };
void say_ask(struct from_agent *up, uint64_t question, const char *name, const char *text,
             char *const *choices, size_t n);

/* So many programs of the harness run now. */
void say_programs(struct from_agent *up, uint64_t count);

/* The agent does not keep up: no more output until resume(). */
bool say_full(const struct from_agent *up);

/* outcome: done, refused, unknown. text: a sentence for the report, "" for none. The harness may be started
 * again from here on. */
void say_end(struct from_agent *up, const char *outcome, int64_t status, const char *text);

#endif
