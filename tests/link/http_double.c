#include "http_double.h"
#include "base/fs.h"
#include "base/own.h"
#include "../loopback.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void put(int fd, const char *p, size_t n) {
    for (ssize_t k; n; p += k, n -= (size_t)k)
        if ((k = send(fd, p, n, MSG_NOSIGNAL)) <= 0)
            _exit(0);
}

static void puts_to(int fd, const char *text) {
    put(fd, text, strlen(text));
}

#define HEAD "HTTP/1.1 200 OK\r\n"
#define EVENTS HEAD "content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
#define START                                                                                                \
    "event: message_start\ndata: "                                                                           \
    "{\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":\"claude-x\","                          \
    "\"usage\":{\"input_tokens\":80,\"cache_read_input_tokens\":20,\"cache_creation_input_tokens\":0,"       \
    "\"output_tokens\":1}}}\n\n"
#define TEXT                                                                                                 \
    "event: content_block_delta\ndata: "                                                                     \
    "{\"type\":\"content_block_delta\",\"delta\":{\"text\":\"\\\"usage\\\":"                                 \
    "{\\\"input_tokens\\\":999999}\"}}\n\n"
#define END                                                                                                  \
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":7}}\n\nevent: "    \
    "message_stop\n"                                                                                         \
    "data: {\"type\":\"message_stop\"}\n\n"

static void chunk(int fd, const char *text) {
    char size[24];
    snprintf(size, sizeof size, "%zx\r\n", strlen(text));
    puts_to(fd, size);
    puts_to(fd, text);
    puts_to(fd, "\r\n");
}

static void with_length(int fd, const char *status, const char *type, const char *body) {
    own_free char *head = xasprintf("HTTP/1.1 %s\r\ncontent-type: %s\r\ncontent-length: %zu\r\n\r\n", status,
                                    type, strlen(body));
    puts_to(fd, head);
    puts_to(fd, body);
}

static void sse(int fd, const char *asked) {
    (void)asked;
    puts_to(fd, EVENTS);
    chunk(fd, START);
    usleep(50000);
    chunk(fd, TEXT);
    chunk(fd, END);
    puts_to(fd, "0\r\n\r\n");
}

static void json(int fd, const char *asked) {
    (void)asked;
    with_length(
        fd, "200 OK", "application/json",
        "{\"content\":[{\"text\":\"hi\",\"usage\":{\"input_tokens\":5}}],\"model\":\"claude-x\",\"usage\":"
        "{\"input_tokens\":80,\"cache_read_input_tokens\":20,\"output_tokens\":7}}");
}

static void body_of(int fd, size_t n) {
    static char block[65536];
    memset(block, 'Z', sizeof block);
    for (size_t k; n; n -= k)
        put(fd, block, k = n < sizeof block ? n : sizeof block);
}

static void big(int fd, const char *asked) {
    (void)asked;
    puts_to(fd, HEAD "content-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n");
    for (int i = 0; i < 160; i++) {
        puts_to(fd, "10000;x=y\r\n");
        body_of(fd, 65536);
        puts_to(fd, "\r\n");
    }
    puts_to(fd, "0\r\nx-trailer: 1\r\n\r\n");
}

static void length(int fd, const char *asked) {
    (void)asked;
    puts_to(fd, HEAD "content-length: 10485760\r\n\r\n");
    body_of(fd, HTTP_DOUBLE_BIG);
}

static void until_close(int fd, const char *asked) {
    (void)asked;
    puts_to(fd, HEAD "\r\nto the end");
    _exit(0);
}

static void cut(int fd, const char *asked) {
    (void)asked;
    puts_to(fd, EVENTS);
    chunk(fd, START);
    puts_to(fd, "40\r\nevent: half");
    _exit(0);
}

static void stall(int fd, const char *asked) {
    (void)asked;
    puts_to(fd, EVENTS);
    chunk(fd, START);
    pause();
}

/* The value of the credential's header, whichever it is. */
static void credential(const char *asked, char out[256]) {
    const char *at = strstr(asked, "Bearer ");
    at = at ? at + 7 : strstr(asked, "x-api-key: ") ? strstr(asked, "x-api-key: ") + 11 : "none\r";
    snprintf(out, 256, "%.*s", (int)strcspn(at, "\r"), at);
}

static void echo(int fd, const char *asked) {
    char value[256], half[256];
    credential(asked, value);
    puts_to(fd, HEAD "transfer-encoding: chunked\r\n\r\n");
    snprintf(half, sizeof half, "you sent %.10s", value);
    chunk(fd, half); /* the credential falls into two chunks, and comes a while apart */
    usleep(30000);
    chunk(fd, value + 10);
    puts_to(fd, "0\r\n\r\n");
}

static void hecho(int fd, const char *asked) {
    char value[256];
    credential(asked, value);
    own_free char *head = xasprintf(HEAD "x-seen: %s\r\ncontent-length: 0\r\n\r\n", value);
    puts_to(fd, head);
}

static void unauthorized(int fd, const char *asked) {
    (void)asked;
    with_length(fd, "401 Unauthorized", "application/json", "{\"type\":\"error\"}");
}

static void too_many(int fd, const char *asked) {
    (void)asked;
    with_length(fd, "429 Too Many Requests", "application/json", "{\"type\":\"error\"}");
}

static void overloaded(int fd, const char *asked) {
    (void)asked;
    with_length(fd, "529 Overloaded", "application/json", "{\"type\":\"error\"}");
}

static void mute(int fd, const char *asked) {
    (void)fd, (void)asked;
    _exit(0);
}

static void hello(int fd, const char *asked) {
    (void)asked;
    with_length(fd, "200 OK", "text/plain", "hello");
}

static const struct {
    const char *word;
    void (*answer)(int fd, const char *asked);
} answers[] = {{"sse", sse},           {"json", json},        {"big", big},      {"length", length},
               {"close", until_close}, {"cut", cut},          {"stall", stall},  {"echo", echo},
               {"hecho", hecho},       {"401", unauthorized}, {"429", too_many}, {"529", overloaded},
               {"mute", mute},         {"hello", hello}};

/* One request, head and body; false: the connection ended. */
static bool hear_request(int fd, struct buf *ret) {
    buf_clear(ret);
    char chunk_bytes[65536];
    size_t want = 0;
    for (;;) {
        const char *end = ret->len ? strstr(buf_text(ret), "\r\n\r\n") : NULL;
        const char *length_at = end ? strcasestr(buf_text(ret), "\r\ncontent-length: ") : NULL;
        bool chunked = end && strcasestr(buf_text(ret), "transfer-encoding: chunked");
        if (end)
            want = (size_t)(end - ret->p) + 4 + (length_at ? strtoul(length_at + 18, NULL, 10) : 0);
        if (end && !chunked && ret->len >= want)
            return true;
        if (chunked && ret->len > 5 && !memcmp(ret->p + ret->len - 5, "0\r\n\r\n", 5))
            return true;
        ssize_t n = read(fd, chunk_bytes, sizeof chunk_bytes);
        if (n <= 0)
            return false;
        buf_add(ret, chunk_bytes, (size_t)n);
    }
}

_Noreturn static void serve(int fd, int log) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct buf asked = {0};
    while (hear_request(fd, &asked)) {
        size_t head = (size_t)(strstr(asked.p, "\r\n\r\n") - asked.p) + 4;
        (void)!write(log, asked.p, asked.len < head + 4096 ? asked.len : head + 4096);
        (void)!write(log, "\n", 1);
        const char *at = strstr(asked.p, "do=");
        for (size_t i = 0; at && i < COUNT(answers); i++)
            if (!strncmp(at + 3, answers[i].word, strlen(answers[i].word)) &&
                at[3 + strlen(answers[i].word)] == ' ')
                answers[i].answer(fd, asked.p);
    }
    _exit(0);
}

void http_double_start(struct http_double *d) {
    uint16_t port;
    snprintf(d->log, sizeof d->log, "/tmp/agent-cage-double-XXXXXX");
    int log = mkostemp(d->log, O_APPEND | O_CLOEXEC), listener = loopback_listen(64, &port);
    if (log < 0)
        abort();
    d->port = port;
    d->pid = fork();
    if (d->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGCHLD, SIG_IGN);
        for (int fd; (fd = accept(listener, NULL, NULL)) >= 0; close(fd))
            if (fork() == 0)
                serve(fd, log);
        _exit(1);
    }
    close(log);
    close(listener);
}

void http_double_stop(struct http_double *d) {
    kill(d->pid, SIGKILL);
    waitpid(d->pid, NULL, 0);
    unlink(d->log);
}

void http_double_log(const struct http_double *d, struct buf *out) {
    own_err err_t e = fs_read(d->log, 64 << 20, out);
}
