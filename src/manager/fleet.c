#include "manager/fleet.h"
#include "base/own.h"
#include "manager/queue.h"

static void replace(char **place, struct bytes b) {
    free(*place);
    *place = xstrndup(b.p, b.len);
}

struct agent *fleet_find(const struct fleet *f, struct bytes name) {
    for (struct agent *a = f->first; a; a = a->next)
        if (strlen(a->name) == name.len && !memcmp(a->name, name.p, name.len))
            return a;
    return NULL;
}

struct agent *fleet_known(const struct fleet *f, struct bytes name) {
    struct agent *a = fleet_find(f, name);
    return a && a->known ? a : NULL;
}

struct agent *fleet_make(struct fleet *f, struct bytes name) {
    struct agent *a = fleet_find(f, name);
    if (a)
        return a;
    a = xcalloc(1, sizeof *a);
    a->name = xstrndup(name.p, name.len);
    char **texts[] = {&a->mode,  &a->harness, &a->project, &a->net,
                      &a->state, &a->why,     &a->login,   &a->survivor_text};
    for (size_t i = 0; i < COUNT(texts); i++)
        *texts[i] = xstrdup("");
    struct agent **at = &f->first; /* sorted by name: the order of every list */
    while (*at && strcmp((*at)->name, a->name) < 0)
        at = &(*at)->next;
    a->next = *at;
    *at = a;
    return a;
}

static void remember(struct agent *a, const struct msg_has_agent *said) {
    a->known = true;
    replace(&a->mode, said->mode);
    replace(&a->harness, said->harness);
    replace(&a->project, said->project);
    replace(&a->net, said->net);
    replace(&a->state, said->state);
    replace(&a->why, said->why);
    a->since_wall_ms = said->since_wall_ms;
}

err_t fleet_put(struct fleet *f, struct db *db, const struct msg_has_agent *said) {
    struct agent *a = fleet_make(f, said->agent);
    remember(a, said);
    a->seen = true;
    TRY(db_begin(db, QUICK));
    return db_end(
        db, db_do(db, Q_agent_put,
                  DB_VALUES(db_t(said->agent), db_t(said->mode), db_t(said->harness), db_t(said->project),
                            db_t(said->net), db_t(said->state), db_t(said->why), db_i(said->since_wall_ms))));
}

err_t fleet_load(struct fleet *f, struct db *db) {
    bool row;
    err_t e = NULL;
    TRY(db_first(db, Q_agents, NULL, 0, &row));
    while (!e && row) {
        struct msg_has_agent said = {.agent = db_col(db, Q_agents, 0),
                                     .mode = db_col(db, Q_agents, 1),
                                     .harness = db_col(db, Q_agents, 2),
                                     .project = db_col(db, Q_agents, 3),
                                     .net = db_col(db, Q_agents, 4),
                                     .state = db_col(db, Q_agents, 5),
                                     .why = db_col(db, Q_agents, 6),
                                     .since_wall_ms = db_col_u(db, Q_agents, 7)};
        remember(fleet_make(f, said.agent), &said);
        e = db_next(db, Q_agents, &row);
    }
    db_done(db, Q_agents);
    return e;
}

err_t fleet_gone(struct fleet *f, struct db *db, struct agent *a) {
    a->known = false;
    err_t e = queue_abandon(db, bytes_of(a->name));
    if (!e)
        e = db_begin(db, QUICK);
    if (!e)
        e = db_end(db, db_do(db, Q_agent_drop, DB_VALUES(db_t(bytes_of(a->name)))));
    fleet_sweep(f, a);
    return e;
}

static void destroy(struct agent *a) {
    char *texts[] = {a->name,  a->mode, a->harness, a->project,      a->net,
                     a->state, a->why,  a->login,   a->survivor_text};
    for (size_t i = 0; i < COUNT(texts); i++)
        free(texts[i]);
    link_free(a->link);
    buf_free(&a->token_key);
    asked_drop(a);
    free(a);
}

void fleet_sweep(struct fleet *f, struct agent *a) {
    if (a->known || a->link)
        return;
    struct agent **at = &f->first;
    while (*at != a)
        at = &(*at)->next;
    *at = a->next;
    destroy(a);
}

void fleet_free(struct fleet *f) {
    while (f->first) {
        struct agent *a = f->first;
        f->first = a->next;
        destroy(a);
    }
}
