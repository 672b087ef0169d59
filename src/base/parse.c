#include "base/parse.h"
#include "base/escape.h"
#include "base/own.h"

#include <stdbool.h>
#include <string.h>

enum { SHOWN_MAX = 80 };

static err_t bad(const char *text, const char *wants) {
    char shown[SHOWN_MAX];
    escape_into(shown, sizeof shown, ESCAPE_LINE, text, strlen(text));
    return err_new(EXIT_USAGE, "'%s' is not %s", shown, wants);
}

/* The digits at *at, which moves behind them; false: none, a leading zero, or more than max. */
static bool digits(const char **at, uint64_t max, uint64_t *ret) {
    const char *p = *at;
    uint64_t v = 0;
    if (*p < '0' || *p > '9' || (*p == '0' && p[1] >= '0' && p[1] <= '9'))
        return false;
    for (; *p >= '0' && *p <= '9'; p++) {
        unsigned d = (unsigned)(*p - '0');
        if (max < d || v > (max - d) / 10)
            return false;
        v = v * 10 + d;
    }
    *at = p;
    *ret = v;
    return true;
}

err_t parse_u64(const char *text, uint64_t max, uint64_t *ret) {
    const char *at = text;
    uint64_t v;
    if (!digits(&at, UINT64_MAX, &v) || *at)
        return bad(text, "a whole number");
    if (v > max)
        return err_new(EXIT_USAGE, "%s is too much: at most %llu", text, (unsigned long long)max);
    *ret = v;
    return NULL;
}

struct unit {
    const char *name;
    uint64_t each;
};

static err_t with_unit(const char *text, const struct unit *units, size_t n, const char *wants,
                       uint64_t *ret) {
    const char *at = text;
    uint64_t v;
    if (!digits(&at, UINT64_MAX, &v))
        return bad(text, wants);
    for (size_t i = 0; i < n; i++)
        if (!strcasecmp(at, units[i].name)) {
            if (v > INT64_MAX / units[i].each)
                return bad(text, "a number that fits");
            *ret = v * units[i].each;
            return NULL;
        }
    return bad(text, wants);
}

err_t parse_size(const char *text, uint64_t *ret) {
    static const struct unit units[] = {{"", 1},
                                        {"k", UINT64_C(1) << 10},
                                        {"m", UINT64_C(1) << 20},
                                        {"g", UINT64_C(1) << 30},
                                        {"t", UINT64_C(1) << 40}};
    return with_unit(text, units, COUNT(units), "a size such as 512m or 4g", ret);
}

err_t parse_span(const char *text, uint64_t *ret_ms) {
    static const struct unit units[] = {{"", 1000},   {"ms", 1},      {"s", 1000},
                                        {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
    return with_unit(text, units, COUNT(units), "a time such as 30, 2m or 1h", ret_ms);
}

err_t parse_cpus(const char *text, uint64_t *ret_milli) {
    static const char wants[] = "a number of processors such as 2 or 1.5";
    const char *at = text;
    uint64_t whole, milli = 0;
    if (!digits(&at, 4096, &whole))
        return bad(text, wants);
    if (*at == '.') {
        uint64_t each = 100;
        if (!*++at)
            return bad(text, wants);
        for (; *at >= '0' && *at <= '9'; at++, each /= 10)
            milli += (uint64_t)(*at - '0') * each; /* each is 0 from the fourth place on */
    }
    if (*at || whole * 1000 + milli < 10 || whole * 1000 + milli > 4096 * 1000)
        return bad(text, wants);
    *ret_milli = whole * 1000 + milli;
    return NULL;
}
