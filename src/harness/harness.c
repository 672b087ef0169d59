#include "harness/harness.h"
#include "base/escape.h"

#include <string.h>

#define HARNESS(word, name) extern const struct harness name;
#include "harness/harness.def"
#undef HARNESS

static const struct {
    const char *word;
    const struct harness *harness;
} rows[] = {
#define HARNESS(word, name) {word, &name},
#include "harness/harness.def"
#undef HARNESS
};

err_t harness_of(const char *text, const struct harness **ret, const char **ret_arg) {
    size_t n = strcspn(text, ":");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strlen(rows[i].word) == n && !strncmp(text, rows[i].word, n)) {
            *ret = rows[i].harness;
            *ret_arg = text[n] ? text + n + 1 : "";
            return NULL;
        }
    char shown[128];
    return err_new(EXIT_NOTFOUND, "there is no harness '%s'",
                   escape_into(shown, sizeof shown, ESCAPE_LINE, text, strlen(text)));
}
