/* telegram: root's words to the Telegram front. The token goes over relay.sock and no further. */
#include "base/clock.h"
#include "base/own.h"
#include "cli/client.h"
#include "cli/secret.h"
#include "cli/self.h"
#include "cli/verb.h"

#include <string.h>
#include <unistd.h>

enum { TOKEN_MAX = 256, WAIT_MS = 10000, LOOK_MS = 200 };

static err_t say(struct client *c, const char *word, struct bytes data, struct client_end *ret) {
    struct msg m = {.type = MSG_front_word};
    m.front_word.front = bytes_of("telegram");
    m.front_word.word = bytes_of(word);
    m.front_word.data = data;
    return client_call(c, &m, CLIENT_WAIT_MS, NULL, NULL, ret);
}

/* Until it listens, or can say why it does not. */
static err_t await_bot(struct client *c, struct client_end *end) {
    int64_t until = clock_boot_ms() + WAIT_MS;
    do {
        TRY(say(c, "status", bytes_of(""), end));
        if (strncmp(end->text, "connecting", 10))
            break;
        usleep(LOOK_MS * 1000);
    } while (clock_boot_ms() < until);
    return NULL;
}

static const char how_to[] = "How to make the bot, in Telegram: write /newbot to @BotFather, choose a name, "
                             "and keep the token that it gives in a file\n"
                             "that only you can read. For topics: make a group, turn topics on in its "
                             "settings, add the bot as an administrator that may\n"
                             "manage topics and pin messages, and write /link there. For a group of an "
                             "agent's own: add the bot, and write /link NAME.\n";

static err_t set_up(struct client *c, const struct call *call) {
    static char token[TOKEN_MAX + 1];
    const char *path = call_option(call, "token-file");
    struct client_end end, now;
    size_t n = 0;
    if (!path) {
        printf("%s\nThen: %s telegram setup --token-file F (`-`: standard input)\n", how_to, self_name());
        return NULL;
    }
    err_t e = secret_read(path, token, sizeof token, &n);
    if (!e)
        e = say(c, "setup", (struct bytes){token, n}, &end);
    explicit_bzero(token, sizeof token);
    TRY(e);
    TRY(await_bot(c, &now));
    bool deaf = !strncmp(now.text, "deaf", 4);
    printf("%s", deaf ? "The token is kept, but the bot does not listen yet: " : "");
    self_print(stdout, now.text);
    self_print(stdout, deaf ? ". The relay goes on asking; `agent-cage telegram status` tells.\n\n" : "\n\n");
    self_print(stdout, end.text);
    printf("\n\n%s", how_to);
    return NULL;
}

err_t verb_telegram(const struct call *call, int *ret_status) {
    (void)ret_status;
    const char *word = call->args[0];
    own_client struct client c;
    struct client_end end;
    bool setup = !strcmp(word, "setup");
    if (!setup && strcmp(word, "status") && strcmp(word, "off"))
        return err_new(EXIT_USAGE, "telegram: setup, status or off");
    TRY(client_open(&c, "cli"));
    if (setup)
        return set_up(&c, call);
    TRY(say(&c, word, bytes_of(""), &end));
    self_print(stdout, end.text);
    putchar('\n');
    return NULL;
}
