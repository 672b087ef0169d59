#include "cli/operator.h"
#include "base/escape.h"
#include "base/own.h"
#include "base/paths.h"
#include "cli/client.h"
#include "cli/self.h"
#include "wire/seq.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static void print(FILE *to, struct bytes text) {
    own_buf struct buf hints = {0}, safe = {0};
    self_hints(&hints, text.p);
    escape_text(&safe, ESCAPE_LINE, buf_text(&hints), hints.len);
    fprintf(to, "%s\n", buf_text(&safe));
    fflush(to);
}

static err_t connect_warden(int *ret_fd) {
    own_free char *path = path_of(PATH_WARDEN_SOCKET);
    err_t e = seq_connect(path, ret_fd);
    if (!e)
        return NULL;
    err_t plain = e->errnum == EACCES || e->errnum == EPERM
                      ? err_new(EXIT_POLICY, "only root may make or remove agents: say it again with sudo")
                      : client_no_fleet();
    err_free(e);
    return plain;
}

/* The warden has the order and does not hang on us. */
static void on_interrupt(int signo) {
    static const char text[] = "\nthe warden goes on with it; see `agent-cage ls`\n";
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(128 + signo);
}

void operator_goes_on(void) {
    signal(SIGINT, on_interrupt);
}

err_t operator_call(const struct msg *m) {
    own_fd int fd = -1;
    TRY(connect_warden(&fd));
    struct msg hello = {.type = MSG_op_hello};
    hello.op_hello.fingerprint = msg_fingerprint();
    TRY(err_wrap(seq_send(fd, &hello), "greet the warden"));
    TRY(err_wrap(seq_send(fd, m), "ask the warden"));
    operator_goes_on();
    for (;;) {
        own_msg struct msg r = {0};
        enum seq_got got;
        TRY(err_wrap(seq_recv(fd, &r, &got), "hear from the warden"));
        if (got == SEQ_END)
            return err_new(EXIT_FAILED, "the warden left before it was done: look at `agent-cage ls`");
        if (r.type == MSG_op_progress)
            print(stderr, r.op_progress.text);
        if (r.type != MSG_op_end)
            continue;
        if (r.op_end.status)
            return err_new((int)r.op_end.status, "%s", r.op_end.text.p);
        print(stdout, r.op_end.text);
        return NULL;
    }
}
