#include "shim/environ.h"
#include "base/own.h"

#include <stdbool.h>
#include <string.h>

enum { LINE_MAX_BYTES = 64 * 1024, TOTAL_MAX_BYTES = 256 * 1024 };

/* Exact names, or, with a `*` at the end, what begins so. What is not here does not pass. */
static const char *const allowed[] = {
    /* language, time, terminal */
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TERM",
    "COLORTERM",
    "TERM_PROGRAM",
    "COLUMNS",
    "LINES",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    /* who runs us, so that tools behave as in a terminal of the harness */
    "CI",
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "CODEX_SANDBOX",
    "CODEX_SANDBOX_NETWORK_DISABLED",
    "AI_AGENT",
    /* programs that a tool starts to ask a person; names only */
    "EDITOR",
    "VISUAL",
    "PAGER",
    "MANPAGER",
    "LESS",
    "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR",
    "GIT_PAGER",
    /* git: who and where; not GIT_ASKPASS, GIT_SSH*, GIT_CONFIG*, GIT_TRACE* (credentials, programs, files) */
    "GIT_AUTHOR_*",
    "GIT_COMMITTER_*",
    "GIT_TERMINAL_PROMPT",
    "GIT_OPTIONAL_LOCKS",
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_PREFIX",
    "GIT_LITERAL_PATHSPECS",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
    "GIT_CEILING_DIRECTORIES",
    "GIT_MERGE_AUTOEDIT",
    /* builds and tests */
    "DEBIAN_FRONTEND",
    "NODE_ENV",
    "PYTHONUNBUFFERED",
    "PYTHONDONTWRITEBYTECODE",
    "RUST_BACKTRACE",
    "MAKEFLAGS",
    "SOURCE_DATE_EPOCH",
    "SHLVL",
    "OLDPWD",
};

static bool allows(const char *pattern, const char *name, size_t n) {
    size_t len = strlen(pattern);
    if (pattern[len - 1] == '*')
        return n >= len - 1 && !memcmp(pattern, name, len - 1);
    return n == len && !memcmp(pattern, name, len);
}

static bool is_allowed(const char *line) {
    const char *equals = strchr(line, '=');
    if (!equals)
        return false;
    for (size_t i = 0; i < COUNT(allowed); i++)
        if (allowed[i][0] == line[0] && allows(allowed[i], line, (size_t)(equals - line)))
            return true;
    return false;
}

size_t environ_allowed(char *const *env, struct bytes v[ENVIRON_MAX]) {
    size_t n = 0, total = 0;
    for (; *env && n < ENVIRON_MAX; env++) {
        if (!is_allowed(*env))
            continue;
        struct bytes line = bytes_of(*env);
        if (line.len > LINE_MAX_BYTES || total + line.len > TOTAL_MAX_BYTES)
            continue;
        total += line.len;
        v[n++] = line;
    }
    return n;
}
