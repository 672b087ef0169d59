/*
 * inbox: the files that were sent to an agent, which no room of its own may remove. On the host's folder itself, so that it
 * works whatever the agent does. The agent's account may make names there: only plain ones are taken, through no link.
 */
#include "base/conf.h"
#include "base/names.h"
#include "base/own.h"
#include "base/paths.h"
#include "cli/listing.h"
#include "cli/verb.h"
#include "proto/file_name.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static err_t open_tray(const char *name, int *ret) {
    own_conf_agent struct conf_agent c = {0};
    TRY(name_check(name));
    if (geteuid() != 0)
        return err_new(EXIT_POLICY, "only root sees what agents were sent: say it again with sudo");
    TRY(conf_agent_read(name, &c));
    bool sealed = c.mode == MODE_SEALED;
    own_free char *path = path_of(DIR_LIB "/agents/%s/%sinbox", name, sealed ? "session/" : "");
    if (sealed && access(path, F_OK) < 0)
        return err_new(EXIT_NOTFOUND, "%s is sealed and no session goes on: nothing that was sent is kept",
                       name);
    *ret = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return *ret < 0 ? err_sys(errno, "open %s", path) : NULL;
}

static err_t remove_one(int tray, const char *name) {
    TRY(file_check(bytes_of(name), 0));
    if (unlinkat(tray, name, 0) == 0)
        return NULL;
    return errno == ENOENT ? err_new(EXIT_NOTFOUND, "there is no file '%s' in the in-tray", name)
                           : err_sys(errno, "remove %s", name);
}

static err_t ls(const struct call *call, int tray) {
    return call->nargs > 2 ? err_new(EXIT_USAGE, "inbox ls: one word too many: %s", call->args[2])
                           : listing_print(tray);
}

static err_t rm(const struct call *call, int tray) {
    if (call->nargs < 3)
        return err_new(EXIT_USAGE, "inbox rm: which file? It is `agent-cage inbox rm NAME FILE…`");
    for (size_t i = 2; i < call->nargs; i++) {
        TRY(remove_one(tray, call->args[i]));
        printf("removed %s\n", call->args[i]); /* checked: it is shown as it is */
    }
    return NULL;
}

err_t verb_inbox(const struct call *call, int *ret_status) {
    static const struct {
        const char *word;
        err_t (*run)(const struct call *call, int tray);
    } rows[] = {{"ls", ls}, {"rm", rm}};
    own_fd int tray = -1;
    (void)ret_status;
    for (size_t i = 0; i < COUNT(rows); i++)
        if (!strcmp(rows[i].word, call->args[0])) {
            TRY(open_tray(call->args[1], &tray));
            return rows[i].run(call, tray);
        }
    return err_new(EXIT_USAGE, "inbox: ls or rm, not %s; see `agent-cage help inbox`", call->args[0]);
}
