/*
 * One table for each file: its keys, where they live in the struct, of what kind, within which bounds.
 * Reading, defaults, writing, checking and freeing all walk that table.
 */
#include "base/conf.h"
#include "base/buf.h"
#include "base/escape.h"
#include "base/fs.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/paths.h"

#include <dirent.h>
#include <errno.h>
#include <ini.h>
#include <stddef.h>
#include <unistd.h>

enum { FILE_MAX = 64 * 1024, LINE_MAX_BYTES = 8000, KEYS_MAX = 16 };

enum kind { WORD, PREFIX, PATH, NUMBER, PORT, SIZE, SPAN, CPUS, MODE, NET, UID_BASE };

struct key {
    const char *name;
    enum kind kind;
    size_t at;            /* offset in the struct */
    uint64_t max;         /* of a number; of a text's length */
    const char *fallback; /* when the file does not say; NULL: it must */
};

#define KEY(name, field, kind, max, fallback)                                                                \
    { name, kind, offsetof(OF, field), max, fallback }

#define OF struct conf_fleet
static const struct key fleet_keys[] = {
    KEY("prefix", prefix, PREFIX, 8, ""),
    KEY("image_dir", image_dir, PATH, 4095,
        NULL), /* the default lies below the root, which is not known here */
    KEY("harness_dir", harness_dir, PATH, 4095, NULL), /* the same */
    KEY("runtime", runtime, WORD, 64, ""),
    KEY("disk_reserve", disk_reserve, SIZE, UINT64_C(1) << 50, "1g"),
    KEY("output_max", output_max, SIZE, UINT64_C(1) << 40, "64m"),
    KEY("ask_wait", ask_ms, SPAN, UINT64_C(7) * 24 * 3600 * 1000, "10m"),
    KEY("model_silence", silence_ms, SPAN, UINT64_C(24) * 3600 * 1000, "10m"),
    KEY("harness_idle", idle_ms, SPAN, UINT64_C(365) * 24 * 3600 * 1000, "15m"),
    KEY("ca_file", ca_file, WORD, 4095, ""),
    KEY("prices", prices, WORD, 4096, ""),
    KEY("web", web, PORT, 65535, "717"),
    KEY("web_origin", web_origin, WORD, 200, ""),
    KEY("telegram_api", telegram_api, WORD, 512, ""),
};
#undef OF
#define OF struct conf_agent
static const struct key agent_keys[] = {
    KEY("mode", mode, MODE, 0, NULL),
    KEY("harness", harness, WORD, 256, NULL),
    KEY("project", project, PATH, 4095, NULL),
    KEY("model", model, WORD, 128, ""),
    KEY("upstream", upstream, WORD, 512, ""),
    KEY("credential", credential, WORD, 16, "persist"),
    KEY("budget", budget, WORD, 64, ""),
    KEY("net", net, NET, 0, "open"),
    KEY("memory", memory, SIZE, UINT64_C(1) << 50, "0"),
    KEY("cpus", cpus, CPUS, 0, "0"),
    KEY("pids", pids, NUMBER, 4 << 20, "0"),
    KEY("uid_base", uid_base, UID_BASE, UINT32_MAX - UIDS_EACH, NULL),
    KEY("created", created_wall_ms, NUMBER, INT64_MAX, NULL),
};
#undef OF

static bool is_text(const struct key *k) {
    return k->kind == WORD || k->kind == PREFIX || k->kind == PATH;
}

/* What would not be read back the same, or is no such text at all. */
static err_t check_text(const struct key *k, const char *text) {
    size_t n = strlen(text);
    if (n > k->max)
        return err_new(EXIT_USAGE, "%s is longer than %llu bytes", k->name, (unsigned long long)k->max);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return err_new(EXIT_USAGE, "%s holds a control character", k->name);
    if (n && (text[0] == ' ' || text[n - 1] == ' '))
        return err_new(EXIT_USAGE, "%s begins or ends with a blank", k->name);
    if (!k->fallback && !n)
        return err_new(EXIT_USAGE, "%s is empty", k->name);
    if (k->kind == PREFIX && !prefix_ok(text))
        return err_new(EXIT_USAGE, "prefix must be empty, or a-z and up to 7 of a-z, 0-9, '_' and '-'");
    if (k->kind == PATH &&
        (text[0] != '/' || strstr(text, "/../") || (n > 2 && !strcmp(text + n - 3, "/.."))))
        return err_new(EXIT_USAGE, "%s must be an absolute path without '..'", k->name);
    return NULL;
}

static err_t take_number(const struct key *k, const char *text, void *at) {
    uint64_t v = 0;
    if (k->kind == PORT && !strcmp(text, "off"))
        v = 0;
    else if (k->kind == SIZE)
        TRY(err_wrap(parse_size(text, &v), "%s", k->name));
    else if (k->kind == SPAN)
        TRY(err_wrap(parse_span(text, &v), "%s", k->name));
    else
        TRY(err_wrap(parse_u64(text, k->max, &v), "%s", k->name));
    if (v > k->max)
        return err_new(EXIT_USAGE, "%s: %s is too much", k->name, text);
    if (k->kind == UID_BASE) {
        if (v < UIDS_EACH || v % UIDS_EACH)
            return err_new(EXIT_USAGE, "%s must be a multiple of %d", k->name, UIDS_EACH);
        *(uint32_t *)at = (uint32_t)v;
    } else {
        *(uint64_t *)at = v;
    }
    return NULL;
}

static err_t take(const struct key *k, const char *text, void *conf) {
    void *at = (char *)conf + k->at;
    if (is_text(k)) {
        TRY(check_text(k, text));
        free(*(char **)at);
        *(char **)at = xstrdup(text);
        return NULL;
    }
    if (k->kind == MODE)
        return mode_of(text, at);
    if (k->kind == NET)
        return net_of(text, at);
    if (k->kind == CPUS && strcmp(text, "0"))
        return err_wrap(parse_cpus(text, at), "%s", k->name);
    return take_number(k, text, at);
}

static void show_size(struct buf *out, uint64_t v) {
    static const char units[] = " kmgt";
    size_t u = 0;
    while (v && v % 1024 == 0 && u < 4)
        v /= 1024, u++;
    buf_printf(out, "%llu", (unsigned long long)v);
    if (u)
        buf_add(out, units + u, 1);
}

static void show(const struct key *k, const void *conf, struct buf *out) {
    const void *at = (const char *)conf + k->at;
    if (is_text(k))
        buf_adds(out, *(char *const *)at ? *(char *const *)at : "");
    else if (k->kind == MODE)
        buf_adds(out, mode_name(*(const enum mode *)at));
    else if (k->kind == NET)
        buf_adds(out, net_name(*(const enum net *)at));
    else if (k->kind == UID_BASE)
        buf_printf(out, "%u", *(const uint32_t *)at);
    else if (k->kind == PORT && !*(const uint64_t *)at)
        buf_adds(out, "off");
    else if (k->kind == SIZE)
        show_size(out, *(const uint64_t *)at);
    else if (k->kind == SPAN)
        buf_printf(out, "%llums", (unsigned long long)*(const uint64_t *)at);
    else if (k->kind == CPUS && *(const uint64_t *)at % 1000)
        buf_printf(out, "%llu.%03llu", (unsigned long long)(*(const uint64_t *)at / 1000),
                   (unsigned long long)(*(const uint64_t *)at % 1000));
    else
        buf_printf(out, "%llu", (unsigned long long)(*(const uint64_t *)at / (k->kind == CPUS ? 1000 : 1)));
}

/* One reading of one file. */
struct reading {
    const struct key *keys;
    size_t n;
    void *conf;
    bool said[KEYS_MAX];
    err_t why;
};

static int on_pair(void *user, const char *section, const char *name, const char *value) {
    struct reading *r = user;
    char shown[64];
    escape_into(shown, sizeof shown, ESCAPE_LINE, name, strlen(name));
    if (*section)
        r->why = err_new(EXIT_USAGE, "sections are not used here");
    for (size_t i = 0; i < r->n && !r->why; i++) {
        if (strcmp(name, r->keys[i].name))
            continue;
        r->why =
            r->said[i] ? err_new(EXIT_USAGE, "%s is said twice", shown) : take(&r->keys[i], value, r->conf);
        r->said[i] = true;
        return !r->why;
    }
    if (!r->why)
        r->why = err_new(EXIT_USAGE, "there is no key '%s'", shown);
    return 0;
}

/* inih cuts long lines in two: refused before. */
static err_t check_lines(const char *path, const struct buf *b) {
    if (strlen(buf_text(b)) != b->len)
        return err_new(EXIT_USAGE, "%s holds a NUL byte", path);
    unsigned line = 1;
    for (const char *p = buf_text(b); *p; line++) {
        size_t n = strcspn(p, "\n");
        if (n > LINE_MAX_BYTES)
            return err_new(EXIT_USAGE, "%s:%u: longer than %d bytes", path, line, LINE_MAX_BYTES);
        p += n + (p[n] == '\n');
    }
    return NULL;
}

static err_t parse_file(const char *path, const struct buf *text, struct reading *r) {
    TRY(check_lines(path, text));
    ini_use_stack = false;
    ini_max_line = ini_initial_alloc = LINE_MAX_BYTES + 8;
    ini_allow_multiline = ini_allow_inline_comments = ini_allow_no_value = false;
    ini_stop_on_first_error = true;
    int line = ini_parse_string(buf_text(text), on_pair, r);
    if (line > 0 && !r->why)
        r->why = err_new(EXIT_USAGE, "not a line of the form 'key = value'");
    if (r->why)
        return err_wrap(TAKE(r->why), "%s:%d", path, line);
    for (size_t i = 0; i < r->n; i++) {
        const struct key *k = &r->keys[i];
        bool has = r->said[i] || (is_text(k) && *(char **)((char *)r->conf + k->at));
        if (!has && !k->fallback)
            return err_new(EXIT_USAGE, "%s: %s is missing", path, k->name);
        if (!has)
            TRY(take(k, k->fallback, r->conf));
    }
    return NULL;
}

static err_t write_file(const char *path, const struct key *keys, size_t n, const void *conf) {
    own_buf struct buf out = {0};
    for (size_t i = 0; i < n; i++) {
        own_buf struct buf value = {0};
        show(&keys[i], conf, &value);
        union { /* a place of any kind, to see that a read would take it */
            char *text;
            uint64_t number;
        } scratch = {0};
        struct key alone = keys[i];
        alone.at = 0;
        err_t e = take(&alone, buf_text(&value), &scratch);
        if (is_text(&alone))
            free(scratch.text);
        if (e)
            return e;
        buf_printf(&out, "%s = %s\n", keys[i].name, buf_text(&value));
    }
    return fs_write(path, buf_text(&out), out.len, geteuid(), getegid(),
                    0600); /* of every agent: not for the next one, nor for other accounts */
}

err_t conf_fleet_read(struct conf_fleet *ret) {
    own_free char *path = path_of(PATH_CONF);
    own_buf struct buf text = {0};
    own_conf_fleet struct conf_fleet c = {.image_dir = path_of(DIR_LIB "/images"),
                                          .harness_dir = path_of(DIR_LIB "/harness")};
    err_t e = fs_read(path, FILE_MAX, &text);
    if (e && e->status != EXIT_NOTFOUND)
        return e;
    err_free(e);
    struct reading r = {.keys = fleet_keys, .n = COUNT(fleet_keys), .conf = &c};
    TRY(parse_file(path, &text, &r));
    *ret = c;
    c = (struct conf_fleet){0};
    return NULL;
}

static void free_texts(const struct key *keys, size_t n, void *conf) {
    for (size_t i = 0; i < n; i++)
        if (is_text(&keys[i]))
            own_freep((char *)conf + keys[i].at);
}

void conf_fleet_free(struct conf_fleet *c) {
    free_texts(fleet_keys, COUNT(fleet_keys), c);
}

err_t conf_agent_read(const char *name, struct conf_agent *ret) {
    TRY(name_check(name));
    own_free char *path = path_of(DIR_ETC "/agents/%s.conf", name);
    own_buf struct buf text = {0};
    err_t e = fs_read(path, FILE_MAX, &text);
    if (e && e->status == EXIT_NOTFOUND) {
        err_free(e);
        return err_new(EXIT_NOTFOUND, "there is no agent '%s': `agent-cage ls` lists those that there are",
                       name);
    }
    TRY(e);
    own_conf_agent struct conf_agent c = {.name = xstrdup(name)};
    struct reading r = {.keys = agent_keys, .n = COUNT(agent_keys), .conf = &c};
    TRY(parse_file(path, &text, &r));
    if (c.mode == MODE_SEALED && c.net != NET_SEALED && c.net != NET_NONE)
        return err_new(EXIT_USAGE, "%s: net: a sealed agent's is sealed or none", path);
    *ret = c;
    c = (struct conf_agent){0};
    return NULL;
}

err_t conf_agent_write(const struct conf_agent *c) {
    TRY(name_check(c->name));
    own_free char *path = path_of(DIR_ETC "/agents/%s.conf", c->name);
    return write_file(path, agent_keys, COUNT(agent_keys), c);
}

err_t conf_agent_remove(const char *name) {
    TRY(name_check(name));
    own_free char *path = path_of(DIR_ETC "/agents/%s.conf", name);
    return fs_remove(path);
}

void conf_agent_free(struct conf_agent *c) {
    free_texts(agent_keys, COUNT(agent_keys), c);
    own_freep(&c->name);
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* "demo" of "demo.conf"; NULL for what is no agent's file. The caller frees. */
static char *agent_of(const char *file) {
    size_t n = strlen(file);
    if (n < 5 || strcmp(file + n - 5, ".conf"))
        return NULL;
    char *name = xstrndup(file, n - 5);
    if (name_ok(name))
        return name;
    free(name);
    return NULL;
}

err_t conf_agent_names(char ***ret) {
    own_free char *path = path_of(DIR_ETC "/agents");
    size_t n = 0;
    char **names = xcalloc(1, sizeof *names);
    DIR *d = opendir(path);
    if (!d && errno != ENOENT) {
        free(names);
        return err_sys(errno, "list %s", path);
    }
    for (struct dirent *entry; d && (entry = readdir(d));) {
        char *name = agent_of(entry->d_name);
        if (!name)
            continue;
        names = xrealloc(names, n + 2, sizeof *names);
        names[n++] = name;
        names[n] = NULL;
    }
    if (d)
        closedir(d);
    qsort(names, n, sizeof *names, by_name);
    *ret = names;
    return NULL;
}

void conf_names_free(char ***names) {
    for (char **p = *names; p && *p; p++)
        free(*p);
    own_freep(names);
}
