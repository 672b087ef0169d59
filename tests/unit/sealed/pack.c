/* Names that do no harm, and a tar file that holds plain files alone. */
#include "sealed/pack.h"

#include "base/fs.h"
#include "base/own.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static void names(void **state) {
    (void)state;
    static const struct {
        const char *path, *name;
    } rows[] = {
        {"report.txt", "report.txt"},  {"a/b.c", "a/b.c"}, {"../x", "__/x"},       {"a/../../x", "a/__/__/x"},
        {"/etc/passwd", "etc/passwd"}, {"-rf", "_rf"},     {".bashrc", "_bashrc"}, {"a\nb", "a_b"},
        {"\033[31m", "_[31m"},         {"x.", "x_"},       {"x ", "x_"},           {"na\xc3\xafve", "na__ve"},
        {"a*b?\"<>|:\\", "a_b_______"}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        bool changed;
        own_free char *name = pack_name(rows[i].path, &changed);
        assert_string_equal(name, rows[i].name);
        assert_int_equal(changed, strcmp(rows[i].path, rows[i].name) != 0);
    }
    char longest[4096];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    for (size_t i = 200; i < sizeof longest - 1; i += 200)
        longest[i] = '/';
    bool changed;
    own_free char *name = pack_name(longest, &changed);
    assert_true(strlen(name) < 100 && changed);
}

static unsigned octal(const char *field, size_t n) {
    own_free char *text = xstrndup(field, n);
    return (unsigned)strtoul(text, NULL, 8);
}

static void tar(void **state) {
    (void)state;
    char dir[] = "/tmp/unit-pack-XXXXXX", block[512];
    own_buf struct buf said = {0}, all = {0};
    assert_non_null(mkdtemp(dir));
    own_free char *out = xasprintf("%s.tar", dir);
    own_fd int box = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
               to = open(out, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    own_fd int file = openat(box, "-a\n", O_WRONLY | O_CREAT | O_CLOEXEC, 04755);
    assert_int_equal(write(file, "hello", 5), 5);
    assert_int_equal(symlinkat("/etc/passwd", box, "link"), 0);
    assert_int_equal(mkfifoat(box, "fifo", 0644), 0);
    assert_null(pack_tar(box, to, &said));
    assert_null(fs_read(out, 1 << 20, &all));
    assert_int_equal(all.len, 4 * 512); /* head, body, and the two empty blocks of the end */
    memcpy(block, all.p, 512);
    assert_string_equal(block, "_a_");
    assert_int_equal(octal(block + 100, 7), 0644);
    assert_int_equal(octal(block + 124, 11), 5);
    assert_memory_equal(all.p + 512, "hello", 5);
    assert_non_null(strstr(buf_text(&said), "link"));
    assert_non_null(strstr(buf_text(&said), "fifo"));
    assert_non_null(strstr(buf_text(&said), "-a\\n"));
    unlink(out);
    own_err err_t e = fs_remove(dir);
    assert_null(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(names), cmocka_unit_test(tar)};
    return cmocka_run_group_tests_name("sealed/pack", tests, NULL, NULL);
}
