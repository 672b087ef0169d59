#include "agent/gateway/secret.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_NAME "credential"
#define MARK_NAME "credential-was-in-memory"
enum { KIND_LINE_MAX = 16 };

static const char *const logins[LOGIN_COUNT] = {
    [LOGIN_NONE] = "", [LOGIN_TOKEN] = "token", [LOGIN_KEY] = "key"};

const char *login_name(enum login l) {
    return logins[l];
}

static bool begins(const char *p, size_t n, const char *with) {
    size_t k = strlen(with);
    return n >= k && !memcmp(p, with, k);
}

/* Tokens of `claude setup-token` begin with sk-ant-oat; any other of this vendor's begins with sk-ant- and is a key. */
static enum login look(enum vendor vendor, const char *p, size_t n) {
    if (vendor == ANTHROPIC && begins(p, n, "sk-ant-oat"))
        return LOGIN_TOKEN;
    return LOGIN_KEY;
}

static err_t login_of(enum vendor vendor, const char *kind, const char *p, size_t n, enum login *ret) {
    *ret = *kind ? LOGIN_NONE : look(vendor, p, n);
    for (int l = LOGIN_TOKEN; l < LOGIN_COUNT && *kind; l++)
        if (!strcmp(kind, logins[l]))
            *ret = (enum login)l;
    return *ret ? NULL : err_new(EXIT_USAGE, "a credential is of kind token or key");
}

err_t pages_new(size_t n, void **ret) {
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return err_sys(errno, "memory for the credential");
    if (madvise(p, n, MADV_DONTDUMP) < 0) {
        int why = errno;
        munmap(p, n);
        return err_sys(why, "keep the credential out of core files");
    }
    (void)!madvise(p, n, MADV_DONTFORK); /* it forks nothing anyway */
    (void)!mlock(p, n);                  /* a limit on locked memory may forbid it */
    *ret = p;
    return NULL;
}

void pages_free(void *p, size_t n) {
    explicit_bzero(p, n);
    munmap(p, n);
}

static struct bytes put(char **at, const char *text, size_t n) {
    struct bytes b = {memcpy(*at, text, n), n};
    *at += n;
    return b;
}

static err_t check(const char *p, size_t n, size_t least) {
    if (n < least || n > SECRET_MAX)
        return err_new(EXIT_USAGE, "that is no credential: it has %zu bytes", n);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)p[i] <= ' ' || (unsigned char)p[i] >= 127)
            return err_new(EXIT_USAGE, "that is no credential: a blank or an odd byte is in it");
    return NULL;
}

/* Pages with room for n bytes. */
static err_t make(enum login login, size_t n, struct secret **ret, char **ret_at) {
    struct secret *s = xcalloc(1, sizeof *s);
    *s = (struct secret){.login = login, .users = 1, .npages = (n + 4095) & ~(size_t)4095};
    err_t e = pages_new(s->npages, &s->pages);
    if (e) {
        own_freep(&s);
        return e;
    }
    *ret = s;
    *ret_at = s->pages;
    return NULL;
}

static void name_it(struct secret *s, struct bytes credential) {
    s->p = credential.p;
    s->n = credential.len;
    needle_init(&s->needle, credential);
}

static err_t plain_new(enum vendor vendor, const char *kind, const char *p, size_t n, struct secret **ret) {
    enum login login;
    char *at;
    TRY(check(p, n, SECRET_MIN));
    TRY(login_of(vendor, kind, p, n, &login));
    TRY(make(login, n, ret, &at));
    name_it(*ret, put(&at, p, n));
    return NULL;
}

static err_t pair_new(enum vendor vendor, const char *p, size_t n, struct secret **ret) {
    own_oauth struct oauth o = {0};
    char *at;
    TRY(oauth_read(vendor, p, n, &o));
    if (o.is_key)
        return plain_new(vendor, logins[LOGIN_KEY], o.access, strlen(o.access), ret);
    TRY(check(o.access, strlen(o.access), SECRET_MIN));
    TRY(check(o.refresh, strlen(o.refresh), SECRET_MIN));
    TRY(check(o.account, strlen(o.account), 0));
    own_text char *text = oauth_text(&o);
    size_t room = strlen(o.access) + strlen(o.refresh) + strlen(o.account) + strlen(text);
    TRY(make(LOGIN_TOKEN, room, ret, &at));
    struct secret *s = *ret;
    name_it(s, put(&at, o.access, strlen(o.access)));
    s->refresh = put(&at, o.refresh, strlen(o.refresh));
    s->account = put(&at, o.account, strlen(o.account));
    s->whole = put(&at, text, strlen(text));
    s->renewable = true;
    s->form = o.form;
    s->expires_ms = o.expires_ms;
    return NULL;
}

err_t secret_new(enum vendor vendor, const char *kind, const char *p, size_t n, struct secret **ret) {
    while (n && (unsigned char)p[0] <= ' ')
        p++, n--;
    while (n && (unsigned char)p[n - 1] <= ' ')
        n--;
    return n && *p == '{' ? pair_new(vendor, p, n, ret) : plain_new(vendor, kind, p, n, ret);
}

struct secret *secret_use(struct secret *s) {
    s->users++;
    return s;
}

void secret_drop(struct secret *s) {
    if (!s || --s->users)
        return;
    needle_free(&s->needle);
    pages_free(s->pages, s->npages);
    own_freep(&s);
}

const struct needle *secret_needle(const struct secret *s) {
    static const struct needle nothing;
    return s ? &s->needle : &nothing;
}

/* ---- its file: a line with the kind, then the credential ---- */

static err_t write_all(int fd, const char *p, size_t n) {
    while (n) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return err_sys(errno, "write the credential's file");
        p += k;
        n -= (size_t)k;
    }
    return NULL;
}

err_t secret_keep(int home, const struct secret *s) {
    char kind[KIND_LINE_MAX];
    snprintf(kind, sizeof kind, "%s\n", logins[s->login]);
    own_fd int fd =
        openat(home, FILE_NAME ".new", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || fchmod(fd, 0600) < 0)
        return err_sys(errno, "make the credential's file");
    TRY(write_all(fd, kind, strlen(kind)));
    TRY(write_all(fd, s->renewable ? s->whole.p : s->p, s->renewable ? s->whole.len : s->n));
    if (fsync(fd) < 0 || renameat(home, FILE_NAME ".new", home, FILE_NAME) < 0 || fsync(home) < 0)
        return err_sys(errno, "keep the credential's file");
    return NULL;
}

err_t secret_kept(int home, enum vendor vendor, struct secret **ret) {
    *ret = NULL;
    own_fd int fd = openat(home, FILE_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? NULL : err_sys(errno, "open the credential's file");
    static char text[KIND_LINE_MAX + SECRET_MAX];
    ssize_t n = read(fd, text, sizeof text);
    char *newline = n > 0 ? memchr(text, '\n', (size_t)n) : NULL;
    err_t e = newline ? NULL : err_new(EXIT_FAILED, "the credential's file is damaged: send it again");
    if (newline) {
        *newline = 0;
        e = secret_new(vendor, text, newline + 1, (size_t)(text + n - newline - 1), ret);
    }
    explicit_bzero(text, sizeof text);
    return e;
}

err_t secret_forget(int home) {
    static const char *const names[] = {FILE_NAME, FILE_NAME ".new"};
    for (size_t i = 0; i < COUNT(names); i++)
        if (unlinkat(home, names[i], 0) < 0 && errno != ENOENT)
            return err_sys(errno, "remove the credential's file");
    return NULL;
}

err_t secret_mark(int home, bool there) {
    if (!there)
        return unlinkat(home, MARK_NAME, 0) < 0 && errno != ENOENT ? err_sys(errno, "remove a mark") : NULL;
    own_fd int fd = openat(home, MARK_NAME, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? err_sys(errno, "make a mark") : NULL;
}

bool secret_marked(int home) {
    return faccessat(home, MARK_NAME, F_OK, 0) == 0;
}
