#include "base/names.h"
#include "base/escape.h"
#include "base/own.h"

#include <stddef.h>
#include <string.h>

/* [a-z] and then up to max - 1 of [a-z0-9] or one of `more`. */
static bool word(const char *s, size_t max, const char *more) {
    if (*s < 'a' || *s > 'z')
        return false;
    size_t n = 1;
    for (; s[n]; n++)
        if (n >= max || !((s[n] >= 'a' && s[n] <= 'z') || (s[n] >= '0' && s[n] <= '9') || strchr(more, s[n])))
            return false;
    return n <= max;
}

bool name_ok(const char *name) {
    return name && word(name, AGENT_NAME_MAX, "-");
}

err_t name_check(const char *name) {
    if (name_ok(name))
        return NULL;
    char shown[64];
    escape_into(shown, sizeof shown, ESCAPE_LINE, name ? name : "", name ? strlen(name) : 0);
    return err_new(EXIT_USAGE,
                   "'%s' is not an agent's name: it starts with a-z and holds at most %d of a-z, 0-9 and '-'",
                   shown, AGENT_NAME_MAX);
}

bool prefix_ok(const char *prefix) {
    return prefix && (!*prefix || word(prefix, 8, "_-"));
}

static const char *const modes[MODE_COUNT] = {
    [MODE_POD] = "pod", [MODE_BARE] = "bare", [MODE_SEALED] = "sealed"};
static const char *const nets[NET_COUNT] = {
    [NET_OPEN] = "open", [NET_SEALED] = "sealed", [NET_NONE] = "none", [NET_UPSTREAM] = "upstream"};
static const struct {
    const char *name, *suffix;
    uint32_t uid;
} rooms[ROOM_COUNT] = {
    [ROOM_AGENT] = {"agent", "", 50000},
    [ROOM_HARNESS] = {"harness", "_h", 55000},
    [ROOM_EXECUTOR] = {"executor", "_x", 60000},
};

const char *mode_name(enum mode mode) {
    return (size_t)mode < MODE_COUNT ? modes[mode] : "?";
}

const char *net_name(enum net net) {
    return (size_t)net < NET_COUNT ? nets[net] : "?";
}

const char *room_name(enum room room) {
    return (size_t)room < ROOM_COUNT ? rooms[room].name : "?";
}

uint32_t room_uid(enum room room) {
    return rooms[room].uid;
}

const char *room_suffix(enum room room) {
    return rooms[room].suffix;
}

static err_t choose(const char *what, const char *const *words, size_t n, const char *text, size_t *ret) {
    char all[64] = "", shown[64];
    for (size_t i = 0; i < n; i++) {
        if (!strcmp(text, words[i])) {
            *ret = i;
            return NULL;
        }
        size_t at = strlen(all);
        snprintf(all + at, sizeof all - at, "%s%s", !i ? "" : i + 1 < n ? ", " : " or ", words[i]);
    }
    escape_into(shown, sizeof shown, ESCAPE_LINE, text, strlen(text));
    return err_new(EXIT_USAGE, "'%s' is not a %s: %s", shown, what, all);
}

err_t mode_of(const char *text, enum mode *ret) {
    size_t i;
    TRY(choose("mode", modes, COUNT(modes), text, &i));
    *ret = (enum mode)i;
    return NULL;
}

err_t net_of(const char *text, enum net *ret) {
    size_t i;
    TRY(choose("network policy", nets, NET_UPSTREAM, text, &i));
    *ret = (enum net)i;
    return NULL;
}
