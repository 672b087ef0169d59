#include "proto/budget.h"
#include "base/own.h"

#include <string.h>

static const struct {
    const char *name;
    uint64_t seconds;
} spans[] = {{"hour", BUDGET_HOUR_S}, {"day", BUDGET_DAY_S}, {"week", BUDGET_WEEK_S}};

bool budget_decimal(const char **at, uint64_t *ret_millionths) {
    uint64_t n = 0;
    unsigned digits = 0, places = 0;
    bool point = false;
    for (; (**at >= '0' && **at <= '9') || (**at == '.' && !point); ++*at) {
        if (**at == '.') {
            point = true;
            continue;
        }
        if (++digits > 12 || (point && ++places > 6))
            return false;
        n = n * 10 + (uint64_t)(**at - '0');
    }
    for (; places < 6; places++)
        n *= 10;
    *ret_millionths = n;
    return digits > 0;
}

err_t budget_of(const char *text, struct budget *ret) {
    struct budget b = {0};
    const char *at = text;
    uint64_t n = 0;
    if (!*text || !strcmp(text, "none")) {
        *ret = b;
        return NULL;
    }
    bool good = budget_decimal(&at, &n);
    uint64_t unit = *at == 'k' ? 1000 : *at == 'M' ? 1000000 : 1;
    at += unit != 1;
    good = good && n / 1000000 <= UINT64_C(1000000000) && (b.limit = (n / 1000 * unit) / 1000) > 0;
    if (*at == '/') {
        for (size_t i = 0; i < COUNT(spans); i++)
            if (!strcmp(at + 1, spans[i].name))
                b.span_s = spans[i].seconds;
        good = good && b.span_s;
    } else
        good = good && !*at;
    if (!good)
        return err_new(EXIT_USAGE,
                       "a budget is a number of tokens and a span, as 5M/day, 200k/hour, 10M/week or 20M "
                       "(in all), or none");
    *ret = b;
    return NULL;
}

const char *budget_span_name(uint64_t span_s) {
    for (size_t i = 0; i < COUNT(spans); i++)
        if (spans[i].seconds == span_s)
            return spans[i].name;
    return "";
}
