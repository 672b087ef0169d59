#include "warden/sealed_token.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/own.h"
#include "base/paths.h"
#include "warden/control.h"
#include "warden/warden.h"

#include <string.h>
#include <unistd.h>

enum { TOKEN_MIN = 8, TOKEN_MAX = 16384 };

static char *place(void) {
    return path_of(DIR_LIB "/warden/sealed-token");
}

err_t sealed_token_save(struct bytes t) {
    own_free char *path = place();
    while (t.len && (unsigned char)t.p[0] <= ' ')
        t.p++, t.len--;
    while (t.len && (unsigned char)t.p[t.len - 1] <= ' ')
        t.len--;
    if (t.len && t.p[0] == '{') /* a pair that is renewed: each room's copy would end the others' */
        return err_new(EXIT_USAGE, "that is a log-in that has to be renewed, and this one is kept as it is: "
                                   "give a token or a key that lasts");
    for (size_t i = 0; i < t.len; i++)
        if ((unsigned char)t.p[i] <= ' ' || (unsigned char)t.p[i] >= 127)
            return err_new(EXIT_USAGE,
                           "that is no token: a blank or a character that is none of a token's is in it");
    if (t.len < TOKEN_MIN)
        return err_new(EXIT_USAGE, "that is no token: it is shorter than %d bytes", TOKEN_MIN);
    return fs_write(path, t.p, t.len, 0, 0, 0600);
}

static bool wants(const struct conf_agent *c) {
    return c->mode == MODE_SEALED && *c->upstream;
}

bool sealed_token_lacks(const struct conf_agent *c) {
    own_free char *path = place();
    return wants(c) && access(path, F_OK) < 0;
}

static err_t give(struct ward *d) {
    own_free char *path = place();
    char token[TOKEN_MAX + 1];
    size_t n = 0;
    err_t e = fs_read_into(path, token, sizeof token, &n);
    e = e ? e : control_secret(d, SEALED_TOKEN_COOKIE, bytes_of(""), (struct bytes){token, n});
    explicit_bzero(token, sizeof token);
    return e;
}

void sealed_token_give(struct ward *d) {
    if (d->kind != WARD_AGENT || !wants(&d->box->conf) || !ward_up(d) || sealed_token_lacks(&d->box->conf))
        return;
    own_err err_t e = give(d);
    if (e)
        log_warn("%s: the sealed-token: %s", ward_title(d), err_text(e));
}
