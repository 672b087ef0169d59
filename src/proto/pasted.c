#include "proto/pasted.h"

#include <string.h>

enum { KEY_MIN = 32, TOKEN_MIN = 60, BOT_DIGITS_MIN = 8, BOT_SECRET_MIN = 30 };

/* How keys and tokens begin, and how long they are at least. */
static const struct {
    const char *head;
    size_t min;
} heads[] = {{"sk-", KEY_MIN}, {"ghp_", 20},  {"gho_", 20}, {"github_pat_", 20},
             {"xoxb-", 20},    {"xoxp-", 20}, {"AKIA", 20}, {"glpat-", 20}};

static const char word_set[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";

static size_t span(const char *p, size_t n) {
    size_t k = 0;
    while (k < n && strchr(word_set, p[k]) && p[k])
        k++;
    return k;
}

static bool is_key(const char *p, size_t n) {
    size_t word = span(p, n);
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        if (word >= heads[i].min && !memcmp(p, heads[i].head, strlen(heads[i].head)))
            return true;
    return false;
}

/* 123456789:AA…, a Telegram bot's; in an address "bot" stands before it. */
static bool is_bot(const char *p, size_t n) {
    size_t k = n > 3 && !memcmp(p, "bot", 3) ? 3 : 0, digits = 0;
    while (k + digits < n && p[k + digits] >= '0' && p[k + digits] <= '9')
        digits++;
    k += digits;
    return digits >= BOT_DIGITS_MIN && k < n && p[k] == ':' && span(p + k + 1, n - k - 1) >= BOT_SECRET_MIN;
}

/* Three parts of base64url, of which the first is an object: a JSON Web Token. */
static bool is_jwt(const char *p, size_t n) {
    size_t head = n > 3 && !memcmp(p, "eyJ", 3) ? span(p, n) : 0;
    if (!head || head + 1 >= n || p[head] != '.')
        return false;
    size_t body = span(p + head + 1, n - head - 1), behind = head + 1 + body;
    return body && behind < n && p[behind] == '.' && behind >= TOKEN_MIN;
}

bool pasted_credential(const char *p, size_t n) {
    static const char *const fields[] = {"\"refreshToken\"", "\"refresh_token\"", "\"accessToken\"",
                                         "\"access_token\""};
    for (size_t i = 0; i < n; i++) {
        bool begins = i == 0 || !span(p + i - 1, 1);
        if (begins && (is_key(p + i, n - i) || is_jwt(p + i, n - i) || is_bot(p + i, n - i)))
            return true;
    }
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const char *at = memmem(p, n, fields[i], strlen(fields[i]));
        const char *end = p + n;
        for (at = at ? at + strlen(fields[i]) : end; at < end; at++)
            if (span(at, (size_t)(end - at)) >= KEY_MIN)
                return true;
    }
    return false;
}
