#include "base/hex.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

void hex_put(char *out, const void *p, size_t n) {
    static const char digits[] = "0123456789abcdef";
    const unsigned char *bytes = p;
    for (size_t i = 0; i < n; i++) {
        *out++ = digits[bytes[i] >> 4];
        *out++ = digits[bytes[i] & 15];
    }
    *out = 0;
}

bool hex_get(const char *text, void *ret, size_t n) {
    if (strlen(text) != 2 * n || strspn(text, "0123456789abcdefABCDEF") != 2 * n)
        return false;
    unsigned char *out = ret;
    for (size_t i = 0; i < n; i++)
        out[i] = (unsigned char)(hex_digit(text[2 * i]) << 4 | hex_digit(text[2 * i + 1]));
    return true;
}

err_t hex_random(char *ret, size_t n) {
    unsigned char raw[HEX_RANDOM_MAX];
    if (n > sizeof raw)
        return err_sys(EINVAL, "random bytes");
    if (getrandom(raw, n, 0) != (ssize_t)n)
        return err_sys(errno, "random bytes");
    hex_put(ret, raw, n);
    explicit_bzero(raw, sizeof raw);
    return NULL;
}

err_t hex_key(char ret[HEX_KEY]) {
    return hex_random(ret, (HEX_KEY - 1) / 2);
}
