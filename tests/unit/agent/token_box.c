/* A token that another implementation (WebCrypto of Node.js) encrypted to an agent: opened once, by that agent alone, unchanged. */
#include "agent/token_box.h"
#include "base/hex.h"
#include "base/own.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define TOKEN "sk-ant-oat01-planted-planted"

/* The number, its first byte first. */
static const char private_hex[] = "f9c11278c4c1da98dfe7a1b397e9eab330eeaaeec0b43feb170c25554d245ac2";
static const char public_hex[] =
    "04a3314f0cbe3be0cfaa5bfef844819c405565211162c8d51c1f8c352c0a723f064ae82e0e9c8b2816be774551740b5c"
    "8bc5c77fe606d982cd2f6ff81defbcd124";
static const char box_hex[] =
    "04e9b1cef2a4565f0410200153618536eba4622131f4aa346f004e414c9defda91700ff31254656af038ccfd9a489903"
    "f4d86d68252c9fe0bd65077663fe288cbfa24a309d28013c360227371da5dea002040b1a851a625c562cca354eab7863"
    "1c7ad51175d1be78c1d803f3333ab08873d8bf51a9e375589630d9dd2f6a957cce";

enum { BOX = sizeof box_hex / 2 };

static char room[TOKEN_BOX_MAX];

static struct token_box *box_of(const char *agent) {
    uint8_t number[32], private[32], public[TOKEN_KEY];
    assert_true(hex_get(private_hex, number, sizeof number));
    assert_true(hex_get(public_hex, public, sizeof public));
    const uint16_t one = 1;
    bool little = *(const uint8_t *)&one;
    for (size_t i = 0; i < sizeof number; i++)
    private[i] = number[little ? sizeof number - 1 - i : i];
    struct token_box *t;
    assert_null(token_box_with(agent, private, (struct bytes){(char *)public, sizeof public}, &t));
    return t;
}

static void vector(char ret[BOX]) {
    assert_true(hex_get(box_hex, ret, BOX));
}

static void expect(struct token_box *t, const char *box, size_t n, int status) {
    size_t len = 0;
    own_err err_t e = token_box_open(t, (struct bytes){box, n}, room, &len);
    assert_int_equal(e ? e->status : EXIT_OK, status);
    assert_int_equal(len, status ? 0 : sizeof TOKEN - 1);
    if (!status)
        assert_memory_equal(room, TOKEN, len);
}

static void another_implementation_is_understood_once(void **state) {
    (void)state;
    struct token_box *t = box_of("worker");
    char box[BOX], shown[TOKEN_SHOWN], before[TOKEN_KEY];
    vector(box);
    assert_string_equal(token_key_shown(shown, token_box_key(t)), "04e9-b1ce-f2a4-565f-91cd");
    memcpy(before, token_box_key(t).p, TOKEN_KEY);
    expect(t, box, BOX, EXIT_OK);
    assert_memory_not_equal(token_box_key(t).p, before, TOKEN_KEY);
    expect(t, box, BOX, EXIT_POLICY);
    assert_null(token_key_id(token_box_key(t), (uint8_t *)box)); /* replayed under the name of the next key */
    expect(t, box, BOX, EXIT_POLICY);
    token_box_free(t);
}

static void what_was_changed_stays_closed_and_changes_nothing(void **state) {
    (void)state;
    struct token_box *t = box_of("worker");
    char box[BOX];
    vector(box);
    for (size_t i = 0; i < BOX; i++) { /* id, point (off its curve then), nonce, text, tag */
        box[i] ^= 1;
        expect(t, box, BOX, EXIT_POLICY);
        box[i] ^= 1;
    }
    expect(t, box, BOX - 1, EXIT_POLICY);
    expect(t, box, BOX, EXIT_OK);
    token_box_free(t);
}

static void another_agent_cannot_open_it(void **state) {
    (void)state;
    char box[BOX];
    vector(box);
    struct token_box *t = box_of("worker2"); /* though it had the same pair */
    expect(t, box, BOX, EXIT_POLICY);
    token_box_free(t);
    assert_null(token_box_new("worker", &t));
    expect(t, box, BOX, EXIT_POLICY);
    assert_null(token_key_id(token_box_key(t), (uint8_t *)box));
    expect(t, box, BOX, EXIT_POLICY);
    token_box_free(t);
}

static void points_that_are_none_are_refused(void **state) {
    (void)state;
    struct token_box *t = box_of("worker");
    char box[BOX];
    vector(box);
    for (unsigned head = 0; head < 8; head++) { /* infinity, compressed, hybrid */
        box[TOKEN_ID] = (char)head;
        expect(t, box, BOX, head == 4 ? EXIT_OK : EXIT_POLICY);
        if (head == 4) {
            token_box_free(t);
            t = box_of("worker");
        }
    }
    vector(box);
    memset(box + TOKEN_ID + 1, 0, TOKEN_KEY - 1);
    expect(t, box, BOX, EXIT_POLICY);
    memset(box + TOKEN_ID + 1, 0xff, TOKEN_KEY - 1);
    expect(t, box, BOX, EXIT_POLICY);
    token_box_free(t);
}

static void its_length_is_bounded(void **state) {
    (void)state;
    static char large[TOKEN_BOX_MAX + 1];
    struct token_box *t = box_of("worker");
    expect(t, large, 0, EXIT_USAGE);
    expect(t, large, TOKEN_HEAD + TOKEN_TAG, EXIT_USAGE);
    expect(t, large, sizeof large, EXIT_USAGE);
    vector(large);
    expect(t, large, TOKEN_BOX_MAX, EXIT_POLICY);
    token_box_free(t);
    own_err err_t e = token_box_new("a-name-that-is-longer-than-32-bytes", &t);
    assert_int_equal(e->status, EXIT_USAGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_implementation_is_understood_once),
        cmocka_unit_test(what_was_changed_stays_closed_and_changes_nothing),
        cmocka_unit_test(another_agent_cannot_open_it),
        cmocka_unit_test(points_that_are_none_are_refused),
        cmocka_unit_test(its_length_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
