#include "warden/state.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/own.h"
#include "cage/cgroup.h"
#include "warden/account.h"
#include "warden/warden.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { SAMPLE_S = 5, SAMPLES = 300 / SAMPLE_S + 1, LINE_BYTES = 1 << 16 };

/* The last five minutes, the newest at [(count - 1) % SAMPLES]. */
static struct {
    struct cpu_ticks tick[SAMPLES];
    size_t count;
} ring;

/* user nice system idle iowait irq softirq steal (guest is in user): proc(5) */
bool cpu_parse(const char *line, struct cpu_ticks *ret) {
    uint64_t t[8] = {0};
    int n = sscanf(line,
                   "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
                   " %" SCNu64,
                   &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]);
    if (n < 4)
        return false;
    uint64_t idle = t[3] + t[4], all = 0;
    for (size_t i = 0; i < COUNT(t); i++)
        all += t[i];
    *ret = (struct cpu_ticks){all - idle, all};
    return true;
}

unsigned cpu_share(const struct cpu_ticks *from, const struct cpu_ticks *to) {
    if (to->all <= from->all || to->busy < from->busy)
        return 0;
    uint64_t share = (to->busy - from->busy) * 100 / (to->all - from->all);
    return share > 100 ? 100 : (unsigned)share;
}

static bool read_ticks(struct cpu_ticks *ret) {
    own_buf struct buf b = {0};
    own_err err_t e = fs_read("/proc/stat", 1 << 20, &b);
    return !e && cpu_parse(buf_text(&b), ret);
}

static void on_sample(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what, (void)arg;
    struct cpu_ticks now;
    if (read_ticks(&now))
        ring.tick[ring.count++ % SAMPLES] = now;
}

void state_init(struct warden *w) {
    on_sample(-1, 0, NULL);
    struct event *sample = event_new(w->base, -1, EV_PERSIST, on_sample, NULL);
    event_add(sample, &(struct timeval){SAMPLE_S, 0});
}

/* `key:   1234 kB` of /proc/meminfo, in bytes. */
static uint64_t meminfo(const char *text, const char *key) {
    const char *at = strstr(text, key);
    uint64_t kb = 0;
    if (!at || sscanf(at + strlen(key), " %" SCNu64, &kb) != 1)
        return 0;
    return kb * 1024;
}

static void host_of(struct msg_ret_state *ret) {
    own_buf struct buf mem = {0};
    own_err err_t e = fs_read("/proc/meminfo", 1 << 16, &mem);
    if (!e) {
        ret->host_memory_total = meminfo(buf_text(&mem), "MemTotal:");
        ret->host_memory_free = meminfo(buf_text(&mem), "MemAvailable:");
    }
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    ret->host_cores = cores > 0 ? (uint64_t)cores : 1;
    struct cpu_ticks now;
    if (!ring.count || !read_ticks(&now))
        return;
    size_t newest = ring.count - 1, oldest = ring.count > SAMPLES ? ring.count - SAMPLES : 0;
    if (newest > oldest && now.all - ring.tick[newest % SAMPLES].all < 50)
        newest--; /* a moment ago is too short a span to be "now" */
    ret->host_cpu_now = cpu_share(&ring.tick[newest % SAMPLES], &now);
    ret->host_cpu_5min = cpu_share(&ring.tick[oldest % SAMPLES], &now);
}

/* Field 22 of /proc/PID/stat, in clock ticks since boot; the name in field 2 may hold anything, so from its last ')'. */
int64_t state_started_ms(pid_t pid) {
    own_free char *path = xasprintf("/proc/%d/stat", (int)pid), *line = NULL;
    own_err err_t e = fs_read_line(path, &line);
    const char *at = e ? NULL : strrchr(line, ')');
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    uint64_t ticks = 0;
    long hz = sysconf(_SC_CLK_TCK);
    if (!at || hz <= 0 || sscanf(at, " %" SCNu64, &ticks) != 1)
        return clock_boot_ms();
    return (int64_t)(ticks * 1000 / (uint64_t)hz);
}

static uint64_t known(uint64_t n) {
    return n == UINT64_MAX ? 0 : n;
}

/* Its own first process is not one that anybody started. */
static uint64_t others(uint64_t processes) {
    return processes ? processes - 1 : 0;
}

static bool is_full(int root, const char *place) {
    own_fd int fd = -1;
    own_err err_t e = fs_open_beneath(root, place, O_PATH | O_DIRECTORY, 0, &fd);
    struct statfs s;
    return !e && !fstatfs(fd, &s) && s.f_type == TMPFS_MAGIC && s.f_bavail <= s.f_blocks / 64;
}

/* The room's folders in memory that are full. The text is good until the next call. */
static struct bytes full_of_room(pid_t pid) {
    static const char *const places[] = {"tmp", "var/tmp", "run/lock", "dev/shm"};
    static char text[64];
    own_free char *path = xasprintf("/proc/%d/root", (int)pid);
    own_fd int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    *text = '\0';
    for (size_t i = 0; root >= 0 && i < COUNT(places); i++)
        if (is_full(root, places[i]))
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s/%s", *text ? ", " : "", places[i]);
    return bytes_of(text);
}

static void use_of_room(const struct ward *x, struct msg_ret_state *ret) {
    ret->full = full_of_room(x->made.pid);
    struct cgroup_use use;
    own_err err_t e = cgroup_use("", x->made.pid, &use);
    if (e)
        return;
    ret->memory_used = known(use.memory);
    ret->memory_kills = known(use.oom_kills);
    ret->processes = others(known(use.pids));
}

/* A bare executor stands in no group of its own on a host with cgroup v1. */
static void use_of_account(const struct ward *x, struct msg_ret_state *ret) {
    struct account_use use = account_use(x->box->conf.uid_base + room_uid(ROOM_EXECUTOR));
    ret->memory_used = use.memory;
    ret->processes = others(use.processes);
}

void state_of(struct warden *w, const struct box *b, struct msg_ret_state *ret) {
    (void)w;
    *ret = (struct msg_ret_state){.agent = bytes_of(""), .full = bytes_of("")};
    host_of(ret);
    if (!b)
        return;
    ret->memory_max = b->conf.memory;
    ret->pids_max = b->conf.pids;
    if (b->state == BOX_RUNNING)
        ret->up_ms = (uint64_t)(clock_boot_ms() - b->up_boot_ms);
    const struct ward *x = &b->ward[ROOM_EXECUTOR];
    if (x->state != WARD_READY || !x->made.pid)
        return;
    if (b->conf.mode == MODE_BARE)
        use_of_account(x, ret);
    else
        use_of_room(x, ret);
}
