/* What a room uses: the same figures from v1's and from v2's files. */
#include "cage/cgroup.h"

#include "base/buf.h"
#include "base/fs.h"
#include "base/own.h"
#include "base/parse.h"
#include "cage/cgroup_where.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Above this v1's memory.limit_in_bytes means "none" (it is PAGE_COUNTER_MAX, a little below 2^63). */
#define V1_NO_LIMIT (1ull << 62)

/* A file of one number, or "max"; UINT64_MAX when it is not there. */
static uint64_t number(const char *group, const char *file) {
    own_free char *path = xasprintf("%s/%s", group, file);
    own_free char *line = NULL;
    uint64_t v = UINT64_MAX;
    own_err err_t e = fs_read_line(path, &line);
    own_err err_t e2 = e || !strcmp(line, "max") ? NULL : parse_u64(line, UINT64_MAX, &v);
    return v;
}

/* The number behind `key ` in a file of such lines; UINT64_MAX without it. */
static uint64_t keyed(const char *group, const char *file, const char *key) {
    own_free char *path = xasprintf("%s/%s", group, file);
    own_buf struct buf text = {0};
    own_err err_t e = fs_read(path, 1 << 20, &text);
    uint64_t v = UINT64_MAX;
    size_t n = strlen(key);
    char *at = e ? NULL : text.p;
    for (char *line; at && (line = strsep(&at, "\n"));)
        if (!strncmp(line, key, n) && line[n] == ' ') {
            own_err err_t bad = parse_u64(line + n + 1, UINT64_MAX, &v);
            break;
        }
    return v;
}

static uint64_t less(uint64_t a, uint64_t b) {
    return a == UINT64_MAX || b == UINT64_MAX ? a : a > b ? a - b : 0;
}

static void use_v2(const char *group, struct cgroup_use *u) {
    u->memory = less(number(group, "memory.current"), keyed(group, "memory.stat", "inactive_file"));
    u->memory_max = number(group, "memory.max");
    u->pids = number(group, "pids.current");
    u->pids_max = number(group, "pids.max");
    uint64_t usec = keyed(group, "cpu.stat", "usage_usec");
    u->cpu_ns = usec == UINT64_MAX ? usec : usec * 1000;
    u->oom_kills = keyed(group, "memory.events", "oom_kill");
}

static void use_v1(const char *sys, pid_t pid, struct cgroup_use *u) {
    own_free char *memory = cgroup_where(sys, pid, "memory");
    own_free char *pids = cgroup_where(sys, pid, "pids");
    own_free char *cpu = cgroup_where(sys, pid, "cpuacct");
    if (memory) {
        u->memory = less(number(memory, "memory.usage_in_bytes"),
                         keyed(memory, "memory.stat", "total_inactive_file"));
        u->memory_max = number(memory, "memory.limit_in_bytes");
        if (u->memory_max >= V1_NO_LIMIT)
            u->memory_max = UINT64_MAX;
        u->oom_kills = keyed(memory, "memory.oom_control", "oom_kill");
    }
    if (pids) {
        u->pids = number(pids, "pids.current");
        u->pids_max = number(pids, "pids.max");
    }
    if (cpu)
        u->cpu_ns = number(cpu, "cpuacct.usage");
}

err_t cgroup_use(const char *sys, pid_t pid, struct cgroup_use *ret) {
    struct cgroup_use u = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
    struct cgroup_host h;
    TRY(cgroup_detect(sys, &h));
    own_free char *v2 = h.kind == CGROUP_V2 ? cgroup_where(sys, pid, NULL) : NULL;
    if (v2)
        use_v2(v2, &u);
    else if (h.kind == CGROUP_V1 || h.kind == CGROUP_HYBRID)
        use_v1(sys, pid, &u);
    *ret = u;
    return NULL;
}
