/*
 * outbox: what came out of sealed runs, read safely. Names are escaped where they are shown; the bytes of `cat` are escaped
 * for a terminal and exact for a pipe.
 */
#include "base/escape.h"
#include "base/own.h"
#include "cli/listing.h"
#include "cli/verb.h"
#include "sealed/pack.h"
#include "sealed/outbox_place.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define CAT_MAX (UINT64_C(64) << 20)

/* A session's name, or a folder by its path. */
static err_t open_box(const char *which, int *ret) {
    own_free char *home = NULL, *path = NULL;
    TRY(outbox_home(&home));
    if (which && strchr(which, '/'))
        TRY(absolute_path(which, &path));
    else if (which && (!strcmp(which, ".") || !strcmp(which, "..")))
        return err_new(EXIT_USAGE, "%s is no session", which);
    else
        path = which ? xasprintf("%s/%s", home, which) : xstrdup(home);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_as(err_sys(errno, "the outbox %s", path), errno == ENOENT ? EXIT_NOTFOUND : EXIT_FAILED);
    *ret = fd;
    return NULL;
}

static err_t ls(const struct call *call, int *ret_status) {
    own_fd int box = -1;
    (void)ret_status;
    TRY(open_box(call->args[1], &box));
    return listing_print(box);
}

static err_t cat(const struct call *call, int *ret_status) {
    own_fd int box = -1;
    own_buf struct buf text = {0}, safe = {0};
    (void)ret_status;
    if (call->nargs < 3)
        return err_new(EXIT_USAGE, "outbox: it is `agent-cage outbox cat SESSION FILE`");
    TRY(open_box(call->args[1], &box));
    TRY(collect_read(box, call->args[2], CAT_MAX, &text));
    bool terminal = isatty(STDOUT_FILENO);
    if (terminal)
        escape_text(&safe, ESCAPE_TEXT, buf_text(&text), text.len);
    const struct buf *b = terminal ? &safe : &text;
    fwrite(buf_text(b), 1, b->len, stdout);
    return NULL;
}

static err_t pack(const struct call *call, int *ret_status) {
    own_fd int box = -1, to = -1;
    own_buf struct buf said = {0};
    const char *name = call->args[2];
    (void)ret_status;
    TRY(open_box(call->args[1], &box));
    if (!call->args[1])
        return err_new(EXIT_USAGE, "outbox: it is `agent-cage outbox pack SESSION [FILE.tar]`");
    if (!name && isatty(STDOUT_FILENO))
        return err_new(EXIT_USAGE,
                       "outbox: a tar file is not for a terminal: name a file, or redirect the output");
    to = name ? open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : dup(STDOUT_FILENO);
    if (to < 0)
        return err_sys(errno, "make %s", name ? name : "the tar file");
    err_t e = pack_tar(box, to, &said);
    if (e && name)
        unlink(name);
    fwrite(buf_text(&said), 1, said.len, stderr);
    return e;
}

err_t verb_outbox(const struct call *call, int *ret_status) {
    static const struct {
        const char *word;
        size_t most;
        err_t (*run)(const struct call *call, int *ret_status);
    } rows[] = {{"ls", 2, ls}, {"cat", 3, cat}, {"pack", 3, pack}};
    for (size_t i = 0; i < COUNT(rows); i++)
        if (!strcmp(rows[i].word, call->args[0]))
            return call->nargs > rows[i].most
                       ? err_new(EXIT_USAGE, "outbox %s: one word too many", rows[i].word)
                       : rows[i].run(call, ret_status);
    return err_new(EXIT_USAGE, "outbox: ls, cat or pack, not %s; see `agent-cage help outbox`",
                   call->args[0]);
}
