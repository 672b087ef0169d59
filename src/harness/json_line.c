#include "harness/json_line.h"
#include "base/escape.h"
#include "base/own.h"

#include <stdlib.h>
#include <string.h>

static int hex4(const char *p, size_t n) {
    int v = 0;
    if (n < 4)
        return -1;
    for (size_t i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdef";
        const char *at = p[i] ? strchr(digits, p[i] | 0x20) : NULL;
        if (!at)
            return -1;
        v = v * 16 + (int)(at - digits);
    }
    return v;
}

/* The value of a "\uXXXX" at p; -1: there is none. */
static int escape_at(const char *p, size_t n) {
    return n >= 6 && p[0] == '\\' && p[1] == 'u' ? hex4(p + 2, n - 2) : -1;
}

/* Halves of a character that stand alone, and NULs, at which a text would end here, become U+FFFD, which is as long. */
static void mend_escapes(char *p, size_t n) {
    for (size_t i = 0; i + 1 < n; i++) {
        if (p[i] != '\\')
            continue;
        int high = escape_at(p + i, n - i);
        bool is_high = high >= 0xd800 && high < 0xdc00;
        int low = is_high ? escape_at(p + i + 6, n - i - 6) : -1;
        if (is_high && low >= 0xdc00 && low < 0xe000)
            i += 11;
        else if (!high || (high >= 0xd800 && high < 0xe000))
            memcpy(p + i + 2, "fffd", 4);
        else
            i++; /* what stands behind a backslash is its */
    }
}

json_t *json_line(char *p, size_t n) {
    mend_escapes(p, n);
    json_t *j = NULL;
    if (utf8_valid(p, n))
        j = json_loadb(p, n, JSON_ALLOW_NUL, NULL);
    else {
        own_buf struct buf clean = {0};
        escape_utf8(&clean, p, n);
        j = json_loadb(buf_text(&clean), clean.len, JSON_ALLOW_NUL, NULL);
    }
    if (json_is_object(j))
        return j;
    json_decref(j);
    return NULL;
}

const json_t *json_at(const json_t *j, const char *path) {
    char name[64];
    while (j && *path) {
        size_t n = strcspn(path, ".");
        snprintf(name, sizeof name, "%.*s", (int)n, path);
        j = json_object_get(j, name);
        path += n + (path[n] == '.');
    }
    return j;
}

const char *json_words(const json_t *j, const char *path) {
    const char *s = json_string_value(json_at(j, path));
    return s ? s : "";
}

uint64_t json_count(const json_t *j, const char *path) {
    json_int_t v = json_integer_value(json_at(j, path));
    return v > 0 ? (uint64_t)v : 0;
}

bool json_says(const json_t *j, const char *path, const char *value) {
    return !strcmp(json_words(j, path), value);
}

void json_release(json_t **j) {
    json_decref(*j);
    *j = NULL;
}
