#include "up/web_link.h"
#include "base/conf.h"
#include "base/escape.h"
#include "base/own.h"
#include "base/paths.h"
#include "proto/msg.h"
#include "wire/seq.h"

#include <poll.h>
#include <stdio.h>

enum { PATIENCE_MS = 2000 };

static err_t ask(int fd) {
    struct msg hello = {.type = MSG_front_hello}, word = {.type = MSG_front_word};
    hello.front_hello.fingerprint = msg_fingerprint();
    hello.front_hello.front = bytes_of("up");
    word.front_word.cookie = 1;
    word.front_word.front = bytes_of("web");
    word.front_word.word = bytes_of("login");
    TRY(seq_send(fd, &hello));
    return seq_send(fd, &word);
}

static err_t hear(int fd, const char *self, struct msg *ret) {
    struct pollfd p = {fd, POLLIN, 0};
    enum seq_got got = SEQ_END;
    if (poll(&p, 1, PATIENCE_MS) > 0)
        TRY(seq_recv(fd, ret, &got));
    return got == SEQ_MESSAGE && ret->type == MSG_relay_end
               ? NULL
               : err_new(EXIT_FAILED, "the relay does not answer: `%s web login` asks again", self);
}

void web_link_print(const char *self) {
    own_conf_fleet struct conf_fleet conf = {0};
    own_err err_t bad = conf_fleet_read(&conf);
    if (bad || !conf.web)
        return;
    own_free char *path = path_of(PATH_RELAY_SOCKET);
    own_fd int fd = -1;
    own_msg struct msg m = {0};
    err_t e = seq_connect(path, &fd);
    if (!e)
        e = ask(fd);
    if (!e)
        e = hear(fd, self, &m);
    if (e)
        printf("web page: ");
    else if (!m.relay_end.status)
        printf("In a browser, once, within 10 minutes (`%s web login` prints another): ", self);
    escape_print(stdout, ESCAPE_TEXT, e ? err_text(e) : m.relay_end.text.p);
    putchar('\n');
    err_free(e);
    fflush(stdout);
}
