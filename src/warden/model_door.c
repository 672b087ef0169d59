#include "warden/model_door.h"
#include "base/own.h"
#include "warden/account.h"
#include "warden/control.h"
#include "warden/warden.h"
#include "wire/seq.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DOOR_BACKLOG = 64 };

bool model_door_wanted(const struct box *b) {
    return *b->conf.upstream != 0;
}

/* The harness's network, through its process, which is proved to be the harness's and to live while it is looked at. */
static err_t harness_network(const struct ward *harness, int *ret) {
    uid_t uid = harness->box->conf.uid_base + room_uid(ROOM_HARNESS);
    pid_t pid = harness->made.pid;
    own_free char *path = xasprintf("/proc/%d/ns/net", (int)pid);
    own_fd int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    own_fd int netns = pidfd < 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (netns < 0)
        return err_sys(errno, "the harness's network");
    if (!account_owns(uid, pid) || poll(&(struct pollfd){.fd = pidfd, .events = POLLIN}, 1, 0))
        return err_new(EXIT_FAILED, "the harness ended");
    *ret = TAKE_FD(netns);
    return NULL;
}

static err_t listen_there(int netns, int *ret) {
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(MODEL_PORT), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (setns(netns, CLONE_NEWNET) < 0)
        return err_sys(errno, "enter the harness's network");
    own_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int one = 1; /* connections of an earlier agent may still be going away */
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0 ||
        bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, DOOR_BACKLOG) < 0)
        return err_sys(errno, "listen on port %d of the harness's loopback", MODEL_PORT);
    *ret = TAKE_FD(fd);
    return NULL;
}

/* The child: a network namespace belongs to a thread, and the warden's must stay its own. Says part_link, or why not. */
_Noreturn static void be_maker(int netns, int tell) {
    int fd = -1;
    err_t e = listen_there(netns, &fd);
    struct msg m = {.type = MSG_part_note};
    m.part_note.text = bytes_of(err_text(e));
    if (!e) {
        m = (struct msg){.type = MSG_part_link, .fds = {fd}, .nfds = 1};
        m.part_link.link = LINK_harness_model;
        m.part_link.peer = bytes_of("");
    }
    e = seq_send(tell, &m);
    _exit(e != NULL);
}

/* Nothing that the child does waits for anybody, so it is waited for here. */
static err_t make_door(int netns, int *ret) {
    int pair[2];
    TRY(seq_pair(pair));
    own_fd int hear = pair[0], tell = pair[1];
    pid_t pid = fork();
    if (pid < 0)
        return err_sys(errno, "fork");
    if (pid == 0)
        be_maker(netns, tell);
    own_closep(&tell);
    own_msg struct msg m = {0};
    enum seq_got got;
    err_t e = seq_recv(hear, &m, &got);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    if (e)
        return e;
    if (got != SEQ_MESSAGE || m.type != MSG_part_link)
        return err_new(EXIT_FAILED, "%s", got == SEQ_MESSAGE ? m.part_note.text.p : "the door's maker died");
    *ret = TAKE_FD(m.fds[0]);
    return NULL;
}

err_t model_door_give(struct box *b) {
    if (b->model_door < 0) {
        own_fd int netns = -1;
        TRY(harness_network(&b->ward[WARD_HARNESS], &netns));
        TRY(make_door(netns, &b->model_door));
    }
    return control_link(&b->ward[WARD_AGENT], LINK_harness_model, "", b->model_door);
}

void model_door_close(struct box *b) {
    if (b->model_door >= 0)
        close(b->model_door);
    b->model_door = -1;
}
