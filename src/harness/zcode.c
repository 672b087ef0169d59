/*
 * zcode of Z.AI: `zcode --prompt TEXT`, one program for each turn; its output is the answer. Written after its description and
 * not tried (docs/harnesses.md): there is no package of it to be had. No conversation is taken up.
 */
#include "harness/json_line.h"
#include "harness/vendor.h"

#include <signal.h>

static const struct vendor_word zcode_argv[] = {
    {"--prompt", ALWAYS},
    {"{text}", ALWAYS},
    {NULL},
};

static const struct vendor_word zcode_env[] = {
    {"ANTHROPIC_BASE_URL={base_url}", ALWAYS},
    {"ANTHROPIC_AUTH_TOKEN={placeholder}", IF_TOKEN},
    {"ANTHROPIC_API_KEY={placeholder}", IF_KEY},
    {"ANTHROPIC_MODEL={model}", IF_MODEL},
    {NULL},
};

static err_t zcode_begin(struct vendor *v, const char *text) {
    (void)text; /* it is on the command line */
    program_write(v->program, "", 0, true);
    return NULL;
}

static void zcode_plain(struct vendor *v, const char *text) {
    vendor_says(v, text);
}

/* A line that happens to be an object is part of the answer too. */
static void zcode_line(struct vendor *v, const json_t *j) {
    char *text = json_dumps(j, JSON_COMPACT);
    vendor_says(v, text ? text : "");
    free(text);
}

static void zcode_interrupt(struct vendor *v) {
    program_signal(v->program, SIGINT);
}

const struct protocol zcode_protocol = {
    .word = "zcode",
    .program = "zcode",
    .argv = zcode_argv,
    .env = zcode_env,
    .begin = zcode_begin,
    .line = zcode_line,
    .plain = zcode_plain,
    .interrupt = zcode_interrupt,
    .status_judges = true,
};

static err_t zcode_open(const struct floor *f, void **ret) {
    return vendor_open(&zcode_protocol, f, ret);
}

extern const struct harness zcode_harness;
const struct harness zcode_harness = VENDOR_HARNESS(zcode_open);
