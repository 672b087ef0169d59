/*
 * The table of what could run later. Names first, by pattern; then what an entry is, whatever its name. A pattern fits the
 * end of a path, part by part and whatever the case of letters (a checkout may land on a file system that knows none);
 * "x/" is everything below a folder x. The first row that fits counts, so the special ones stand first.
 */
#include "sealed/aftermath.h"

#include "base/own.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_MAX = 1 << 20, NAMED_MAX = 1000 };

#define own_path __attribute__((cleanup(aftermath_path_free)))

/* ---- what is in a file ---- */

static void add_word(struct buf *b, const char *word) {
    buf_printf(b, "%s%s", b->len ? ", " : "", word);
}

/* Keys of git's configuration that name a program, or bring in what names one: section, key ("*": any). */
static const struct {
    const char *section, *key;
} git_keys[] = {{"core", "fsmonitor"},
                {"core", "hookspath"},
                {"core", "sshcommand"},
                {"core", "gitproxy"},
                {"core", "pager"},
                {"core", "editor"},
                {"core", "askpass"},
                {"core", "alternaterefscommand"},
                {"core", "attributesfile"},
                {"core", "worktree"},
                {"sequence", "editor"},
                {"diff", "external"},
                {"diff", "command"},
                {"diff", "textconv"},
                {"filter", "clean"},
                {"filter", "smudge"},
                {"filter", "process"},
                {"merge", "driver"},
                {"mergetool", "cmd"},
                {"difftool", "cmd"},
                {"alias", "*"},
                {"pager", "*"},
                {"credential", "helper"},
                {"gpg", "program"},
                {"include", "path"},
                {"includeif", "path"},
                {"url", "insteadof"},
                {"url", "pushinsteadof"},
                {"remote", "uploadpack"},
                {"remote", "vcs"},
                {"remote", "receivepack"},
                {"submodule", "update"},
                {"interactive", "*"},
                {"browser", "cmd"},
                {"man", "cmd"},
                {"protocol", "allow"},
                {"sendemail", "*"},
                {"uploadpack", "*"},
                {"tar", "command"},
                {"web", "browser"},
                {"trailer", "cmd"},
                {"trailer", "command"}};

/* The section's name at "[name "sub"]", in small letters, up to the first blank, dot, quote or bracket. */
static void section_name(const char *p, char *out, size_t size) {
    size_t n = 0;
    for (p++; *p && !strchr(" \t.\"]", *p) && n + 1 < size; p++)
        out[n++] = (char)tolower((unsigned char)*p);
    out[n] = 0;
}

static bool key_is(const char *line, const char *key) {
    size_t n = strlen(key);
    return !strcmp(key, "*") ||
           (!strncasecmp(line, key, n) && !isalnum((unsigned char)line[n]) && line[n] != '-');
}

static void git_line(const char *section, const char *line, struct buf *found) {
    if (!isalpha((unsigned char)*line) || found->len > NAMED_MAX)
        return; /* as many as are named say enough */
    for (size_t i = 0; i < COUNT(git_keys); i++) {
        if (strcmp(section, git_keys[i].section) || !key_is(line, git_keys[i].key))
            continue;
        size_t n = 0;
        while (isalnum((unsigned char)line[n]) || line[n] == '-')
            n++;
        own_free char *word = xasprintf("%s.%.*s", section, n < 64 ? (int)n : 64, line);
        if (!strstr(buf_text(found), word))
            add_word(found, word);
        return;
    }
}

/* Not git's own parser, and it need not be: a key that it misses still stands in a file that is reported. */
static void git_config(const char *text, struct buf *found) {
    char section[64] = "";
    while (*text) {
        const char *line = text + strspn(text, " \t\r");
        if (*line == '[') {
            section_name(line, section, sizeof section);
            const char *close = line + strcspn(line, "]\n");
            line = *close == ']' ? close + 1 + strspn(close + 1, " \t") : line;
        }
        git_line(section, line, found);
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
}

static void package_json(const char *text, struct buf *found) {
    static const char *const words[] = {"\"scripts\"",     "\"preinstall\"",     "\"install\"",
                                        "\"postinstall\"", "\"prepare\"",        "\"prepublish\"",
                                        "\"bin\"",         "\"packageManager\"", "\"dependencies\""};
    for (size_t i = 0; i < COUNT(words); i++)
        if (strstr(text, words[i])) {
            own_free char *word = xstrndup(words[i] + 1, strlen(words[i]) - 2);
            add_word(found, word);
        }
}

/* ---- names ---- */

#define HOOK "git runs it by itself"
#define GIT "git obeys it"
#define SENDS "sends git to another repository"
#define SENDS_AWAY "sends git to the repository that it names"
#define FILTERS "names filters that git runs"
#define ALTERNATES "makes git read another repository"
/* The like, under names or in folders without number. */
#define HOOKS "git runs it by itself where its hooks are looked for there"
#define GIT_HOME "git obeys it in a home, or where it is included"
#define USES_FILTERS "has git run the filters of its configuration"
#define BUILD "a build runs what it says"
#define INSTALL "installing the package runs what it says"
#define SHELL "a shell or a tool loads it on entering the folder"
#define EDITOR "an editor runs what it says when the folder is opened"
#define AGENT "a coding agent obeys it"
#define IMPORT "an interpreter loads it by itself"
#define CI "a build service runs what it says"
#define BOX "making the container runs what it says"
#define DESK "a desktop starts what it says"
#define BIN "a script of the package finds it before the system's programs"
#define PROGRAM "a program, new or changed"
#define FIFO "a FIFO: a program that reads it waits for ever"
#define SOCKET "a socket"

static const struct {
    const char *pattern;
    const char *reason; /* NULL: harmless, whatever follows */
    void (*look)(const char *text, struct buf *found);
} rows[] = {
    {".git/hooks/*.sample", NULL, NULL},
    {".git/hooks", HOOK, NULL},
    {".git/hooks/applypatch-msg", HOOK, NULL},
    {".git/hooks/pre-applypatch", HOOK, NULL},
    {".git/hooks/post-applypatch", HOOK, NULL},
    {".git/hooks/pre-commit", HOOK, NULL},
    {".git/hooks/pre-merge-commit", HOOK, NULL},
    {".git/hooks/prepare-commit-msg", HOOK, NULL},
    {".git/hooks/commit-msg", HOOK, NULL},
    {".git/hooks/post-commit", HOOK, NULL},
    {".git/hooks/pre-rebase", HOOK, NULL},
    {".git/hooks/post-checkout", HOOK, NULL},
    {".git/hooks/post-merge", HOOK, NULL},
    {".git/hooks/pre-push", HOOK, NULL},
    {".git/hooks/pre-receive", HOOK, NULL},
    {".git/hooks/update", HOOK, NULL},
    {".git/hooks/proc-receive", HOOK, NULL},
    {".git/hooks/post-receive", HOOK, NULL},
    {".git/hooks/post-update", HOOK, NULL},
    {".git/hooks/reference-transaction", HOOK, NULL},
    {".git/hooks/push-to-checkout", HOOK, NULL},
    {".git/hooks/pre-auto-gc", HOOK, NULL},
    {".git/hooks/post-rewrite", HOOK, NULL},
    {".git/hooks/sendemail-validate", HOOK, NULL},
    {".git/hooks/fsmonitor-watchman", HOOK, NULL},
    {".git/hooks/p4-changelist", HOOK, NULL},
    {".git/hooks/p4-prepare-changelist", HOOK, NULL},
    {".git/hooks/p4-post-changelist", HOOK, NULL},
    {".git/hooks/p4-pre-submit", HOOK, NULL},
    {".git/hooks/post-index-change", HOOK, NULL},
    {".git/hooks/", HOOKS, NULL},
    {".git/config", GIT, git_config},
    {".git/config.worktree", GIT, git_config},
    {".git/modules/*/config", GIT, git_config},
    {".git/modules/*/hooks/*", HOOKS, NULL},
    {".git/worktrees/*/config.worktree", GIT, git_config},
    {".git/commondir", SENDS, NULL},
    {".git/info/attributes", FILTERS, NULL},
    {".git/objects/info/alternates", ALTERNATES, NULL},
    {".git", SENDS_AWAY, NULL},
    {"hooks/post-*", HOOKS, NULL},
    {"hooks/pre-*", HOOKS, NULL},
    {"hooks/update", HOOKS, NULL},
    {"hooks/fsmonitor-watchman", HOOKS, NULL},
    {".gitmodules", "git fetches what it names", git_config},
    {".gitattributes", USES_FILTERS, NULL},
    {".gitconfig", GIT_HOME, git_config},
    {".husky/", HOOKS, NULL},
    {".githooks/", HOOKS, NULL},
    {".pre-commit-config.yaml", HOOKS, NULL},
    {"lefthook.y*ml", HOOKS, NULL},

    {"Makefile", BUILD, NULL},
    {"GNUmakefile", BUILD, NULL},
    {"Makefile.*", BUILD, NULL},
    {"*.mk", BUILD, NULL},
    {"*.mak", BUILD, NULL},
    {"CMakeLists.txt", BUILD, NULL},
    {"CMakePresets.json", BUILD, NULL},
    {"*.cmake", BUILD, NULL},
    {"meson.build", BUILD, NULL},
    {"configure", BUILD, NULL},
    {"configure.ac", BUILD, NULL},
    {"*.m4", BUILD, NULL},
    {"SConstruct", BUILD, NULL},
    {"SConscript", BUILD, NULL},
    {"justfile", BUILD, NULL},
    {".justfile", BUILD, NULL},
    {"Taskfile.y*ml", BUILD, NULL},
    {"Rakefile", BUILD, NULL},
    {"*.ninja", BUILD, NULL},
    {"BUILD", BUILD, NULL},
    {"*.bazel", BUILD, NULL},
    {"*.bzl", BUILD, NULL},
    {".bazelrc", BUILD, NULL},
    {"WORKSPACE", BUILD, NULL},
    {"build.gradle*", BUILD, NULL},
    {"settings.gradle*", BUILD, NULL},
    {"gradle-wrapper.*", BUILD, NULL},
    {"gradlew*", BUILD, NULL},
    {"pom.xml", BUILD, NULL},
    {".mvn/", BUILD, NULL},
    {"mvnw*", BUILD, NULL},
    {"build.xml", BUILD, NULL},
    {"build.rs", BUILD, NULL},
    {"Cargo.toml", BUILD, NULL},
    {".cargo/", BUILD, NULL},
    {"rust-toolchain*", BUILD, NULL},
    {"go.mod", BUILD, NULL},
    {"go.work", BUILD, NULL},
    {"build.zig*", BUILD, NULL},
    {"flake.nix", BUILD, NULL},
    {"*.nix", BUILD, NULL},
    {"*.csproj", BUILD, NULL},
    {"*.vcxproj", BUILD, NULL},
    {"Directory.Build.*", BUILD, NULL},
    {"*.pro", BUILD, NULL},
    {"Procfile", BUILD, NULL},

    {"package.json", INSTALL, package_json},
    {"package-lock.json", INSTALL, NULL},
    {"npm-shrinkwrap.json", INSTALL, NULL},
    {"yarn.lock", INSTALL, NULL},
    {"pnpm-lock.yaml", INSTALL, NULL},
    {".npmrc", INSTALL, NULL},
    {".yarnrc*", INSTALL, NULL},
    {".yarn/", INSTALL, NULL},
    {".pnp.*", IMPORT, NULL},
    {".pnpmfile.cjs", INSTALL, NULL},
    {"bunfig.toml", INSTALL, NULL},
    {"node_modules/.bin/", BIN, NULL},
    {"*.config.[jt]s", BUILD, NULL},
    {"*.config.[cm][jt]s", BUILD, NULL},
    {".*rc.[jt]s", BUILD, NULL},
    {".*rc.cjs", BUILD, NULL},
    {"gulpfile.*", BUILD, NULL},
    {"Gruntfile.*", BUILD, NULL},
    {"setup.py", INSTALL, NULL},
    {"setup.cfg", INSTALL, NULL},
    {"pyproject.toml", INSTALL, NULL},
    {"pip.conf", INSTALL, NULL},
    {"requirements*.txt", INSTALL, NULL},
    {"Pipfile*", INSTALL, NULL},
    {"conftest.py", IMPORT, NULL},
    {"sitecustomize.py", IMPORT, NULL},
    {"usercustomize.py", IMPORT, NULL},
    {"*.pth", IMPORT, NULL},
    {"tox.ini", BUILD, NULL},
    {"pytest.ini", BUILD, NULL},
    {"noxfile.py", BUILD, NULL},
    {".venv/", IMPORT, NULL},
    {"Gemfile*", INSTALL, NULL},
    {"*.gemspec", INSTALL, NULL},
    {"composer.json", INSTALL, NULL},

    {".envrc", SHELL, NULL},
    {".env", SHELL, NULL},
    {".env.*", SHELL, NULL},
    {"mise.toml", SHELL, NULL},
    {".mise.toml", SHELL, NULL},
    {".mise/", SHELL, NULL},
    {".tool-versions", SHELL, NULL},
    {".nvmrc", SHELL, NULL},
    {".node-version", SHELL, NULL},
    {".python-version", SHELL, NULL},
    {".ruby-version", SHELL, NULL},
    {".ripgreprc", SHELL, NULL},
    {".bash*", SHELL, NULL},
    {".profile", SHELL, NULL},
    {".zsh*", SHELL, NULL},
    {".zprofile", SHELL, NULL},
    {".inputrc", SHELL, NULL},
    {".gdbinit", "a debugger runs what it says", NULL},
    {".lldbinit", "a debugger runs what it says", NULL},
    {".curlrc", SHELL, NULL},
    {".wgetrc", SHELL, NULL},
    {".ssh/", "ssh obeys it", NULL},
    {".gnupg/", "gpg obeys it", NULL},

    {".vscode/", EDITOR, NULL},
    {"*.code-workspace", EDITOR, NULL},
    {".idea/", EDITOR, NULL},
    {".fleet/", EDITOR, NULL},
    {".zed/", EDITOR, NULL},
    {".dir-locals*.el", EDITOR, NULL},
    {".exrc", EDITOR, NULL},
    {".vimrc", EDITOR, NULL},
    {".nvimrc", EDITOR, NULL},
    {".nvim.lua", EDITOR, NULL},
    {".lvimrc", EDITOR, NULL},
    {"*.sublime-project", EDITOR, NULL},
    {".devcontainer/", EDITOR, NULL},
    {".devcontainer.json", EDITOR, NULL},

    {"CLAUDE*.md", AGENT, NULL},
    {"AGENTS*.md", AGENT, NULL},
    {"GEMINI.md", AGENT, NULL},
    {".claude/", AGENT, NULL},
    {".mcp.json", AGENT, NULL},
    {".codex/", AGENT, NULL},
    {".gemini/", AGENT, NULL},
    {".cursor/", AGENT, NULL},
    {".cursorrules", AGENT, NULL},
    {".windsurf*", AGENT, NULL},
    {".aider*", AGENT, NULL},
    {".github/copilot-instructions.md", AGENT, NULL},
    {"SKILL.md", AGENT, NULL},

    {".github/workflows/", CI, NULL},
    {".github/actions/", CI, NULL},
    {".gitlab-ci.y*ml", CI, NULL},
    {".circleci/", CI, NULL},
    {".travis.yml", CI, NULL},
    {"azure-pipelines.yml", CI, NULL},
    {"Jenkinsfile", CI, NULL},
    {"Dockerfile*", BOX, NULL},
    {"Containerfile*", BOX, NULL},
    {"*compose*.y*ml", BOX, NULL},
    {"Vagrantfile", BOX, NULL},
    {"*.tf", "terraform runs what it says", NULL},
    {"*.desktop", DESK, NULL},
    {"*.lnk", DESK, NULL},
    {"autorun.inf", DESK, NULL},
    {"*.service", "systemd starts what it says when it is installed", NULL},
};

static size_t parts(const char *path) {
    size_t n = 1;
    for (; *path; path++)
        n += *path == '/';
    return n;
}

struct aftermath_path aftermath_split(const char *path) {
    struct aftermath_path p = {.text = xstrdup(path), .n = parts(path)};
    size_t n = 0;
    p.at = xcalloc(p.n + 1, sizeof *p.at);
    for (size_t i = 0; path[i]; i++)
        if (path[i] == '/')
            p.at[++n] = i + 1;
    p.at[p.n] = strlen(path) + 1;
    return p;
}

void aftermath_path_free(struct aftermath_path *p) {
    free(p->text);
    free(p->at);
}

/* Does the pattern fit the `want` parts from `from` on? */
static bool fits_piece(const char *pattern, const struct aftermath_path *p, size_t from, size_t want) {
    char *end = p->text + p->at[from + want] - 1, was = *end;
    *end = 0;
    bool fits = !fnmatch(pattern, p->text + p->at[from], FNM_PATHNAME | FNM_CASEFOLD);
    *end = was;
    return fits;
}

bool aftermath_fits(const char *pattern, const struct aftermath_path *p) {
    size_t want = parts(pattern), len = strlen(pattern);
    char folder[64];
    if (!len || pattern[len - 1] != '/')
        return want <= p->n && fits_piece(pattern, p, p->n - want, want);
    if (len > sizeof folder)
        return true; /* no row is as long; it counts rather than is missed */
    snprintf(folder, sizeof folder, "%.*s", (int)len - 1, pattern);
    want--;
    for (size_t from = 0; from + want < p->n; from++) /* a folder of this name anywhere above it */
        if (fits_piece(folder, p, from, want))
            return true;
    return false;
}

/* ---- what it is ---- */

/* Does a link in folder `depth` lead out of the top folder? ".." counted part by part, as text: nothing is followed. */
static bool leads_out(const char *target, size_t depth) {
    size_t at = depth;
    if (*target == '/')
        return true;
    while (*target) {
        size_t n = strcspn(target, "/");
        if (n == 2 && !strncmp(target, "..", 2)) {
            if (!at)
                return true;
            at--;
        } else if (n && !(n == 1 && *target == '.'))
            at++;
        target += n;
        target += strspn(target, "/");
    }
    return false;
}

static const char *kind_reason(const struct collect_entry *e, char **ret_detail) {
    mode_t m = e->st.st_mode;
    if (S_ISLNK(m) && leads_out(e->target, e->depth)) {
        *ret_detail = xasprintf("to %.200s", e->target);
        return "a link out of the folder: what is done to it is done there";
    }
    if (S_ISFIFO(m))
        return FIFO;
    if (S_ISSOCK(m))
        return SOCKET;
    if (S_ISCHR(m) || S_ISBLK(m))
        return "a device";
    if (m & (S_ISUID | S_ISGID) && !S_ISDIR(m))
        return "a set-uid or set-gid program: who runs it becomes another";
    return NULL;
}

static const char *name_reason(int project, const struct collect_entry *e, char **ret_detail) {
    /* A link in the place of a folder that is obeyed: what it leads to is obeyed. */
    own_free char *inside = S_ISLNK(e->st.st_mode) ? xasprintf("%s/x", e->path) : NULL;
    own_path struct aftermath_path path = aftermath_split(e->path),
                                   below = aftermath_split(inside ? inside : "");
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (!aftermath_fits(rows[i].pattern, &path) && !(inside && aftermath_fits(rows[i].pattern, &below)))
            continue;
        own_buf struct buf text = {0}, found = {0};
        own_err err_t unread = rows[i].look ? collect_read(project, e->path, LOOK_MAX, &text) : NULL;
        if (rows[i].look)
            rows[i].look(buf_text(&text), &found);
        if (unread)
            buf_printf(&found, "not read: it is no plain file");
        if (found.len)
            *ret_detail = buf_take(&found);
        return rows[i].reason ? rows[i].reason : "";
    }
    return NULL;
}

/* Of a name that git acts on, it is said, whatever the thing is: a hook hides among no links and no set-uid programs. */
static const char *kind_or_git(int project, const struct collect_entry *e, char **ret_detail) {
    own_free char *of_kind = NULL, *of_name = NULL;
    const char *kind = kind_reason(e, &of_kind);
    const char *named = kind ? name_reason(project, e, &of_name) : NULL;
    if (!kind || !named || !*named || aftermath_rank(named)) {
        *ret_detail = TAKE(of_kind);
        return kind;
    }
    *ret_detail = xasprintf("%s%s%s", kind, of_kind ? ", " : "", of_kind ? of_kind : "");
    return named;
}

const char *aftermath_reason(int project, const struct collect_entry *e, char **ret_detail) {
    *ret_detail = NULL;
    const char *reason = kind_or_git(project, e, ret_detail);
    if (reason)
        return reason;
    if (S_ISDIR(e->st.st_mode))
        return !strcmp(e->name, ".git") && e->depth
                   ? "a repository inside the project: git there obeys its config"
                   : NULL;
    reason = name_reason(project, e, ret_detail);
    if (reason)
        return *reason ? reason : NULL;
    return S_ISREG(e->st.st_mode) && e->st.st_mode & 0111 ? PROGRAM : NULL;
}

static bool is_one_of(const char *reason, const char *const *v, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!strcmp(reason, v[i]))
            return true;
    return false;
}

unsigned aftermath_rank(const char *reason) {
    static const char *const git[] = {HOOK, GIT, SENDS, SENDS_AWAY, FILTERS, ALTERNATES},
                             *const asked_for[] = {BUILD, INSTALL, CI, BOX},
                             *const by_name[] = {BIN, PROGRAM, FIFO, SOCKET};
    if (is_one_of(reason, git, COUNT(git)))
        return 0;
    if (is_one_of(reason, by_name, COUNT(by_name)))
        return 3;
    return is_one_of(reason, asked_for, COUNT(asked_for)) ? 2 : 1;
}
