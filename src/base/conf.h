/*
 * The fleet's and the agents' configuration files: `key = value` lines, '#' or ';' at the start of a line for
 * comments, no sections. Reading is strict: an unknown or repeated key, a bad value or a line without '=' is
 * an error that names file and line. Writing is atomic (a new file, fsync, rename) and refuses a value that
 * would not be read back the same. Zero-initialise a struct or let a read fill it; `own_conf_agent struct
 * conf_agent c = {0};`.
 */
#ifndef BASE_CONF_H
#define BASE_CONF_H

#include "base/err.h"
#include "base/names.h"

#include <stdint.h>

struct conf_fleet {
    char *prefix;          /* of account names; prefix_ok() */
    char *image_dir;       /* absolute path */
    char *harness_dir;     /* absolute path: the vendors' programs */
    char *runtime;         /* podman's --runtime; "": podman's own choice */
    uint64_t disk_reserve; /* bytes that must stay free; below it rooms are frozen */
    uint64_t output_max;   /* bytes kept of one turn's output */
    uint64_t ask_ms;       /* how long a harness's question waits for a person */
    uint64_t silence_ms;   /* how long a model's API may say nothing in the middle of an answer */
    uint64_t idle_ms;   /* a harness without work for so long is stopped until the next message; 0: never */
    char *ca_file;      /* CA certificates for models' APIs; "": the host's own */
    uint64_t web;       /* the web page's port on 127.0.0.1; 0: off */
    char *web_origin;   /* where a proxy shows the page: "https://cage.example.org"; "": nowhere */
    char *telegram_api; /* another Bot API server: https, or http on loopback; "": Telegram's own */
    char *prices;       /* what a million tokens cost, a row a model; "": nothing is reckoned */
};

struct conf_agent {
    char *name;
    enum mode mode;
    char *harness;    /* "shell", … */
    char *project;    /* absolute path */
    char *model;      /* "" when none */
    char *upstream;   /* "" when none */
    char *credential; /* how it is kept: persist, memory, none */
    char *budget;     /* tokens and a span ("5M/day"); "": none */
    enum net net;
    uint64_t memory;   /* bytes; 0: no limit */
    uint64_t cpus;     /* thousandths of a processor; 0: no limit */
    uint64_t pids;     /* 0: no limit */
    uint32_t uid_base; /* first of its 65536 kernel uids */
    int64_t created_wall_ms;
};

/* path_of(PATH_CONF), with the defaults for what it does not say; an absent file is all defaults. */
err_t conf_fleet_read(struct conf_fleet *ret);
void conf_fleet_free(struct conf_fleet *c);
#define own_conf_fleet __attribute__((cleanup(conf_fleet_free)))

/* path_of(DIR_ETC "/agents/NAME.conf"). `name` is checked first; EXIT_NOTFOUND: no such agent. */
err_t conf_agent_read(const char *name, struct conf_agent *ret);

/* Checks every field as a read would; the folder must exist. */
err_t conf_agent_write(const struct conf_agent *c);
err_t conf_agent_remove(const char *name);
void conf_agent_free(struct conf_agent *c);
#define own_conf_agent __attribute__((cleanup(conf_agent_free)))

/* Names of the agents that have a file, sorted, NULL-ended; none when the folder is not there. Files with
 * other names are passed over. */
err_t conf_agent_names(char ***ret);
void conf_names_free(char ***names);
#define own_names __attribute__((cleanup(conf_names_free)))

#endif
