#include "break/witness.h"

#include "base/buf.h"
#include "base/fs.h"
#include "base/ids.h"
#include "base/own.h"
#include "break/network.h"
#include "cage/cgroup.h"
#include "cage/nft.h"
#include "cage/nft_read.h"
#include "cage/place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_number(const char *s) {
    return *s && strspn(s, "0123456789") == strlen(s);
}

pid_t witness_find(const char *word) {
    DIR *d = opendir("/proc");
    pid_t found = 0;
    for (struct dirent *each; d && !found && (each = readdir(d));) {
        own_buf struct buf line = {0};
        own_free char *path = xasprintf("/proc/%s/cmdline", each->d_name);
        own_err err_t e =
            is_number(each->d_name) ? fs_read(path, 1 << 16, &line) : err_new(EXIT_FAILED, "no process");
        size_t n = strlen(word);
        /* the probe itself: `/cage/agent-cage probe …`, not who carries its words to it */
        bool probe = line.len > 6 && !strcmp(line.p + strlen(line.p) + 1, "probe");
        if (!e && probe && line.len > n && !strcmp(line.p + line.len - n - 1, word))
            found = (pid_t)strtol(each->d_name, NULL, 10);
    }
    if (d)
        closedir(d);
    return found;
}

/* ---- one process ---- */

static char *status_field(const char *text, const char *name) {
    own_free char *key = xasprintf("\n%s:\t", name);
    const char *at = strstr(text, key);
    return at ? xstrndup(at + strlen(key), strcspn(at + strlen(key), "\n")) : xstrdup("");
}

static ino_t namespace_of(const char *process, const char *kind) {
    own_free char *path = xasprintf("/proc/%s/ns/%s", process, kind);
    struct stat st;
    return stat(path, &st) ? 0 : st.st_ino;
}

static void thread_posture(const char *path, struct buf *wrong) {
    static const struct {
        const char *field, *right;
    } want[] = {{"Seccomp", "2"},
                {"NoNewPrivs", "1"},
                {"CapInh", "0000000000000000"},
                {"CapPrm", "0000000000000000"},
                {"CapEff", "0000000000000000"},
                {"CapBnd", "0000000000000000"},
                {"CapAmb", "0000000000000000"}};
    own_buf struct buf text = {0};
    own_err err_t e = fs_read(path, 1 << 16, &text);
    for (size_t i = 0; !e && i < COUNT(want); i++) {
        own_free char *value = status_field(buf_text(&text), want[i].field);
        if (strcmp(value, want[i].right))
            buf_printf(wrong, "%s%s is %s", wrong->len ? ", " : "", want[i].field, value);
    }
}

static void each_thread(const char *process, struct buf *wrong) {
    own_free char *tasks = xasprintf("/proc/%s/task", process);
    DIR *d = opendir(tasks);
    for (struct dirent *each; d && (each = readdir(d));) {
        own_free char *path = xasprintf("%s/%s/status", tasks, each->d_name);
        if (is_number(each->d_name))
            thread_posture(path, wrong);
    }
    if (d)
        closedir(d);
}

/* Every thread of every process of the cage, whatever path started it. */
static void look_threads(pid_t pid, struct witness *w) {
    own_buf struct buf wrong = {0};
    own_free char *self = xasprintf("%d", pid);
    ino_t inside = namespace_of(self, "pid");
    DIR *d = opendir("/proc");
    size_t n = 0;
    for (struct dirent *each; d && (each = readdir(d));)
        if (is_number(each->d_name) && inside && namespace_of(each->d_name, "pid") == inside) {
            each_thread(each->d_name, &wrong);
            n++;
        }
    if (d)
        closedir(d);
    w->judged = n > 0;
    w->right = !wrong.len;
    snprintf(w->why, sizeof w->why, "%s", n ? buf_text(&wrong) : "its processes cannot be looked at");
}

static void look_namespaces(pid_t pid, struct witness *w) {
    own_free char *self = xasprintf("%d", pid);
    own_buf struct buf shared = {0};
    w->judged = true;
    for (const char *const *kind =
             (const char *const[]){"mnt", "pid", "net", "ipc", "uts", "user", "cgroup", NULL};
         *kind; kind++) {
        ino_t its = namespace_of(self, *kind);
        w->judged &= its != 0;
        if (its && its == namespace_of("self", *kind))
            buf_printf(&shared, "%s%s", shared.len ? ", " : "the host's own: ", *kind);
    }
    w->right = !shared.len;
    snprintf(w->why, sizeof w->why, "%s",
             w->judged ? buf_text(&shared) : "its namespaces cannot be looked at");
}

/* An id that is nobody's; for an ordinary user, whose ids are all one, that person's. */
static void look_uid(pid_t pid, struct witness *w) {
    own_buf struct buf text = {0};
    own_free char *path = xasprintf("/proc/%d/status", pid);
    own_err err_t e = fs_read(path, 1 << 16, &text);
    unsigned uid = 0;
    own_free char *field = e ? xstrdup("") : status_field(buf_text(&text), "Uid");
    w->judged = sscanf(field, "%u", &uid) == 1;
    if (geteuid() != 0) {
        w->right = uid == geteuid();
        snprintf(w->why, sizeof w->why, "%s",
                 w->right ? "" : "the cage has another account than the one that made it");
        return;
    }
    own_free char *name = ids_name(uid);
    w->right = uid != 0 && !name;
    snprintf(w->why, sizeof w->why, name ? "outside it is the account %.100s" : "%.0s", name ? name : "");
}

static void look_limits(pid_t pid, struct witness *w) {
    own_buf struct buf text = {0};
    own_free char *path = xasprintf("/proc/%d/limits", pid);
    own_err err_t e = fs_read(path, 1 << 16, &text);
    const char *core = strstr(buf_text(&text), "Max core file size ");
    unsigned long soft = 1, hard = 1;
    w->judged = !e && core;
    w->right = core && sscanf(core, "Max core file size %lu %lu", &soft, &hard) == 2 && !soft && !hard;
    snprintf(w->why, sizeof w->why, "%s", w->right ? "" : "its core limit is not 0");
}

/* The engine's limits. An ordinary user's engine has none where groups are v1. */
static void look_use(pid_t pid, struct witness *w) {
    struct cgroup_host h;
    struct cgroup_use u;
    own_err err_t e = cgroup_detect("", &h);
    own_err err_t e2 = e ? NULL : cgroup_use("", pid, &u);
    if (e || e2) {
        snprintf(w->why, sizeof w->why, "%.400s", err_text(e ? e : e2));
        return;
    }
    w->right = u.memory_max != UINT64_MAX && u.pids_max != UINT64_MAX;
    w->judged = w->right || geteuid() == 0 || h.kind == CGROUP_V2;
    if (!w->right)
        snprintf(w->why, sizeof w->why,
                 "no limit of %s; an ordinary user's podman sets none where control groups are %s",
                 u.memory_max == UINT64_MAX ? "memory" : "processes", cgroup_kind_name(h.kind));
}

/* ---- the rules ---- */

static void look_counters(const char *listed, struct witness *w) {
    struct nft_count c[NFT_COUNTS_MAX];
    size_t n = 0;
    own_err err_t e = nft_read_counts(NET_SEALED, listed, c, &n);
    w->judged = !e;
    if (e) {
        snprintf(w->why, sizeof w->why, "%.400s", err_text(e));
        return;
    }
    uint64_t refused = 0;
    for (size_t i = 0; i < n; i++)
        if (!strcmp(c[i].chain, "refuse"))
            refused += c[i].packets;
    w->right = refused > 0;
    snprintf(w->why, sizeof w->why, "%s", w->right ? "" : "no rule has refused a packet");
}

/* After everything that was tried, against what would be set now. The warden asks podman for its networks, a run does without. */
static void look_rules(const char *listed, enum kind kind, struct witness *w) {
    struct host h;
    own_place struct place place = {0};
    own_err err_t e = kind == KIND_SEALED_AGENT ? host_read(&h) : host_look(&h);
    own_err err_t e2 = e ? NULL : place_read(&h, NET_SEALED, &place);
    w->judged = !e && !e2;
    own_err err_t differs = w->judged ? nft_same(NET_SEALED, &place.nft, listed) : NULL;
    w->right = w->judged && !differs;
    snprintf(w->why, sizeof w->why, "%.400s", w->judged ? err_text(differs) : err_text(e ? e : e2));
}

/* Both rows of what is read there; without a listing neither is judged. */
static void look_network(pid_t pid, enum kind kind, struct witness *counters, struct witness *rules) {
    own_buf struct buf listed = {0};
    own_err err_t e = network_rules(pid, &listed);
    if (!e) {
        look_counters(buf_text(&listed), counters);
        look_rules(buf_text(&listed), kind, rules);
        return;
    }
    snprintf(counters->why, sizeof counters->why, "%.400s", err_text(e));
    snprintf(rules->why, sizeof rules->why, "%.400s", err_text(e));
}

static void look_inwards(pid_t pid, struct witness *w) {
    int answer = network_knock(pid, PROBE_PORT);
    w->judged = answer == 0 || answer == ETIMEDOUT;
    w->right = answer == ETIMEDOUT;
    snprintf(w->why, sizeof w->why, "%s",
             w->right     ? ""
             : !answer    ? "a packet from this host was heard inside"
             : answer > 0 ? strerrordesc_np(answer)
                          : "it has no address that anybody outside could name");
}

/* The room is found by its network: its first process is not the one that is looked at. */
static void look_ports(pid_t pid, struct witness *w) {
    own_buf struct buf text = {0};
    own_free char *self = xasprintf("%d", pid);
    ino_t inside = namespace_of(self, "net");
    own_err err_t e = geteuid()
                          ? err_new(EXIT_FAILED, "an ordinary user's engine does not tell of a run's ports")
                          : network_ports(&text);
    snprintf(w->why, sizeof w->why, "%.400s", e ? err_text(e) : "the engine knows no such room");
    for (char *rest = e ? NULL : text.p, *line; rest && (line = strsep(&rest, "\n"));) {
        char *first = strsep(&line, " ");
        if (!inside || namespace_of(first, "net") != inside)
            continue;
        w->judged = true;
        w->right = !line || !*line;
        snprintf(w->why, sizeof w->why, "%s%.400s", w->right ? "" : "published: ", w->right ? "" : line);
    }
}

static void look_accepted(size_t accepted, struct witness *w) {
    w->judged = true;
    w->right = !accepted;
    if (accepted)
        snprintf(w->why, sizeof w->why, "%zu connections reached this host", accepted);
}

void witness_look(pid_t pid, enum kind kind, size_t accepted, struct witness ret[WITNESS_MAX],
                  size_t *ret_n) {
    size_t n = 0;
    ret[n] = (struct witness){.what = "CP-11 whose the processes are outside"};
    look_uid(pid, &ret[n++]);
    ret[n] = (struct witness){.what = "CP-20 filter and privileges of every thread, seen from outside"};
    look_threads(pid, &ret[n++]);
    ret[n] = (struct witness){.what = "CP-20 namespaces of its own, seen from outside"};
    look_namespaces(pid, &ret[n++]);
    ret[n] = (struct witness){.what = "CP-20 core limit, seen from outside"};
    look_limits(pid, &ret[n++]);
    ret[n] = (struct witness){.what = "RX-02 limits of memory and processes, seen from outside"};
    look_use(pid, &ret[n++]);
    ret[n] = (struct witness){.what = "NW-23 nothing comes in from this host"};
    look_inwards(pid, &ret[n++]);
    ret[n] = (struct witness){.what = "NW-23 no port of this host leads in"};
    look_ports(pid, &ret[n++]);
    if (kind_sealed(kind)) {
        ret[n] = (struct witness){.what = "NW-02 the refusals are counted by the rules"};
        ret[n + 1] = (struct witness){.what = "NW-19 the rules at the end are those that were set"};
        look_network(pid, kind, &ret[n], &ret[n + 1]);
        n += 2;
        ret[n] = (struct witness){.what = "NW-10 nothing reached the listeners of this host"};
        look_accepted(accepted, &ret[n++]);
    }
    *ret_n = n;
}
