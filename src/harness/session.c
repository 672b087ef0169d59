#include "harness/session.h"
#include "base/fs.h"
#include "base/own.h"
#include "base/parse.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool session_id_ok(const char *id) {
    static const char set[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    size_t n = strlen(id);
    return n && n <= SESSION_ID_MAX && id[0] != '-' && strspn(id, set) == n;
}

void session_open(struct session *s, const char *home, const char *word, uint64_t number) {
    *s = (struct session){.path = xasprintf("%s/session-%s-%" PRIu64, home, word, number)};
    own_free char *line = NULL;
    own_err err_t none = fs_read_line(s->path, &line);
    if (none)
        return;
    char *blank = strchr(line, ' ');
    if (blank)
        *blank++ = 0;
    if (!session_id_ok(line))
        return;
    snprintf(s->id, sizeof s->id, "%s", line);
    own_err err_t bad = blank ? parse_u64(blank, UINT64_MAX / 2, &s->number) : NULL;
    if (bad)
        s->number = 0;
}

err_t session_keep(struct session *s, const char *id, uint64_t number) {
    if (!session_id_ok(id))
        return err_new(EXIT_FAILED, "the harness named its conversation in a way that is not kept");
    if (!strcmp(s->id, id) && s->number == number)
        return NULL;
    if (id != s->id)
        snprintf(s->id, sizeof s->id, "%s", id);
    s->number = number;
    own_free char *line = xasprintf("%s %" PRIu64 "\n", id, number);
    return fs_write(s->path, line, strlen(line), getuid(), getgid(), 0600);
}

err_t session_forget(struct session *s) {
    s->id[0] = 0;
    s->number = 0;
    return fs_remove(s->path);
}

void session_close(struct session *s) {
    free(TAKE(s->path));
}
