/* The gateway's pure files, by value: heads, bodies, the swap's rules, figures of usage cut at every byte, secrets across borders. */
#include "http/body.h"
#include "agent/gateway/scan.h"
#include "agent/gateway/sift.h"
#include "agent/gateway/swap.h"
#include "base/own.h"
#include "../good.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define HOLDER "placeholder-0123456789abcdef"

/* ---- the swap ---- */

static const struct swap_row {
    enum vendor vendor;
    enum login login;
    const char *header; /* one of the request's */
    bool put;
    unsigned strays;
    const char *then; /* what goes on of it; NULL: nothing */
} swap_rows[] = {
    {ANTHROPIC, LOGIN_TOKEN, "Authorization: Bearer " HOLDER, true, 0, "authorization: Bearer "},
    {ANTHROPIC, LOGIN_TOKEN, "authorization:  bearer " HOLDER " ", true, 0, "authorization: Bearer "},
    {ANTHROPIC, LOGIN_TOKEN, "Authorization: Bearer other", false, 0, "Authorization: Bearer other"},
    {ANTHROPIC, LOGIN_TOKEN, "Authorization: Bearer " HOLDER "x", false, 1,
     "Authorization: Bearer " HOLDER "x"},
    {ANTHROPIC, LOGIN_TOKEN, "Authorization: Bearer x" HOLDER, false, 1, "Authorization: Bearer x" HOLDER},
    {ANTHROPIC, LOGIN_TOKEN, "Authorization: Basic " HOLDER, false, 1, "Authorization: Basic " HOLDER},
    {ANTHROPIC, LOGIN_TOKEN, "Authorization: " HOLDER, false, 1, "Authorization: " HOLDER},
    {ANTHROPIC, LOGIN_TOKEN, "x-api-key: " HOLDER, false, 1, "x-api-key: " HOLDER},
    {ANTHROPIC, LOGIN_KEY, "X-Api-Key: " HOLDER, true, 0, "x-api-key: "},
    {ANTHROPIC, LOGIN_KEY, "X-Api-Key: Bearer " HOLDER, false, 1, "X-Api-Key: Bearer " HOLDER},
    {ANTHROPIC, LOGIN_KEY, "Authorization: Bearer " HOLDER, false, 1, "Authorization: Bearer " HOLDER},
    {OPENAI, LOGIN_KEY, "Authorization: Bearer " HOLDER, true, 0, "authorization: Bearer "},
    {OPENAI, LOGIN_KEY, "x-api-key: " HOLDER, false, 1, "x-api-key: " HOLDER},
    {OPENAI, LOGIN_KEY, "Cookie: a=" HOLDER, false, 1, "Cookie: a=" HOLDER},
    {ANTHROPIC, LOGIN_NONE, "Authorization: Bearer " HOLDER, false, 0, NULL},
    {ANTHROPIC, LOGIN_TOKEN, "Accept-Encoding: gzip", false, 0, NULL},
    {ANTHROPIC, LOGIN_TOKEN, "Proxy-Authorization: Bearer " HOLDER, false, 0, NULL},
    {ANTHROPIC, LOGIN_TOKEN, "Host: elsewhere", false, 0, NULL},
};

static void the_credential_has_one_place(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(swap_rows); i++) {
        const struct swap_row *r = &swap_rows[i];
        struct upstream u = {
            .vendor = r->vendor, .tls = true, .host = "api.example", .port = 443, .path = "/base"};
        struct swap_rules rules = {.upstream = &u, .login = r->login, .placeholder = bytes_of(HOLDER)};
        own_free char *text = xasprintf("POST /v1/%s HTTP/1.1\r\n%s\r\nContent-Length: 2\r\n\r\n",
                                        r->vendor == OPENAI ? "responses" : "messages", r->header);
        struct head h;
        NO_ERROR(head_request(text, strlen(text), &h));
        assert_int_equal(swap_judge(&rules, &h), GATE_ERRORS);
        struct swapped s;
        swap_request(&rules, &h, &s);
        own_free char *all = xasprintf("%s%s", buf_text(&s.before), buf_text(&s.after));
        if (s.put != r->put || s.strays != r->strays)
            fail_msg("row %zu (%s): put %d, strays %u", i, r->header, s.put, s.strays);
        assert_ptr_equal(strstr(all, "POST /base/v1/"), all);
        assert_non_null(strstr(all, " HTTP/1.1\r\nhost: api.example\r\naccept-encoding: identity\r\n"));
        assert_non_null(strstr(all, "\r\ncontent-length: 2\r\n\r\n"));
        if (r->then ? !strstr(all, r->then)
                    : strstr(all, HOLDER) || strstr(all, "gzip") || strstr(all, "elsewhere"))
            fail_msg("row %zu: %s", i, all);
        if (r->put) {
            assert_null(strstr(all, HOLDER));
            size_t n = s.before.len, k = strlen(r->then);
            assert_memory_equal(s.before.p + n - k, r->then, k);
        }
        swapped_free(&s);
    }
}

/* A ChatGPT log-in: no "/v1" there, and its account beside the credential, once; elsewhere nothing of both. */
static void an_account_beside_it(void **state) {
    (void)state;
    static const struct {
        const char *path, *line, *header;
    } rows[] = {
        {"/backend-api/codex", "POST /backend-api/codex/responses HTTP/1.1\r\n",
         "\r\nchatgpt-account-id: acc-1\r\n"},
        {"", "POST /v1/responses HTTP/1.1\r\n", "\r\nchatgpt-account-id: mine\r\n"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct upstream u = {.vendor = OPENAI, .tls = true, .host = "api.example", .port = 443};
        snprintf(u.path, sizeof u.path, "%s", rows[i].path);
        struct swap_rules rules = {.upstream = &u,
                                   .login = LOGIN_TOKEN,
                                   .placeholder = bytes_of(HOLDER),
                                   .account = bytes_of("acc-1")};
        static const char text[] = "POST /v1/responses HTTP/1.1\r\nchatgpt-account-id: mine\r\n"
                                   "authorization: Bearer " HOLDER "\r\nContent-Length: 2\r\n\r\n";
        struct head h;
        NO_ERROR(head_request(text, sizeof text - 1, &h));
        struct swapped s;
        swap_request(&rules, &h, &s);
        own_free char *all = xasprintf("%s%s", buf_text(&s.before), buf_text(&s.after));
        assert_ptr_equal(strstr(all, rows[i].line), all);
        const char *header = strstr(all, "chatgpt-account-id");
        assert_non_null(strstr(all, rows[i].header));
        assert_null(strstr(header + 1, "chatgpt-account-id"));
        swapped_free(&s);
    }
}

static void paths(void **state) {
    (void)state;
    static const struct {
        const char *line;
        enum gate_error anthropic, openai;
    } rows[] = {
        {"POST /v1/messages?beta=true", GATE_ERRORS, GATE_NOT_HERE},
        {"POST /v1/messages/count_tokens", GATE_ERRORS, GATE_NOT_HERE},
        {"POST /v1/responses", GATE_NOT_HERE, GATE_ERRORS},
        {"POST /v1/chat/completions", GATE_NOT_HERE, GATE_ERRORS},
        {"GET /v1/models?limit=1000", GATE_ERRORS, GATE_ERRORS},
        {"GET /v1/models/claude-x:latest", GATE_ERRORS, GATE_ERRORS},
        {"HEAD /v1/models", GATE_ERRORS, GATE_ERRORS},
        {"GET /v1", GATE_NOT_HERE, GATE_NOT_HERE},
        {"GET /v1/", GATE_NOT_HERE, GATE_NOT_HERE},
        /* What is the owner's, and what spends without figures. */
        {"GET /v1/files/file_1/content", GATE_NOT_HERE, GATE_NOT_HERE},
        {"POST /v1/files", GATE_NOT_HERE, GATE_NOT_HERE},
        {"POST /v1/messages/batches", GATE_NOT_HERE, GATE_NOT_HERE},
        {"GET /v1/messages/batches/b/results", GATE_NOT_HERE, GATE_NOT_HERE},
        {"GET /v1/responses/resp_1", GATE_NOT_HERE, GATE_NOT_HERE},
        {"POST /v1/batches", GATE_NOT_HERE, GATE_NOT_HERE},
        {"POST /v1/organizations/api_keys", GATE_NOT_HERE, GATE_NOT_HERE},
        /* Ways around the table. */
        {"GET /v1/messages", GATE_NOT_HERE, GATE_NOT_HERE},
        {"POST /v1/models", GATE_NOT_HERE, GATE_NOT_HERE},
        {"POST /v1/messages/", GATE_NOT_HERE, GATE_NOT_HERE},
        {"POST /v1/messagesx", GATE_NOT_HERE, GATE_NOT_HERE},
        {"GET /v1/models/../files", GATE_NOT_HERE, GATE_NOT_HERE},
        {"GET /v1/models/a/b", GATE_NOT_HERE, GATE_NOT_HERE},
        {"GET /v1/models/.x", GATE_NOT_HERE, GATE_NOT_HERE},
        {"GET /v1/models//x", GATE_NOT_HERE, GATE_NOT_HERE},
        {"GET /v1/models/%2e%2e/x", GATE_NOT_HERE, GATE_NOT_HERE},
        {"GET /v1/models/a\\b", GATE_NOT_HERE, GATE_NOT_HERE},
        {"GET /v1/models;y", GATE_NOT_HERE, GATE_NOT_HERE},
        {"GET /V1/models", GATE_NOT_HERE, GATE_NOT_HERE},
        {"GET https://api.example/v1/models", GATE_NOT_HERE, GATE_NOT_HERE},
        {"PUT /v1/messages", GATE_NOT_HERE, GATE_NOT_HERE},
        {"OPTIONS *", GATE_NOT_HERE, GATE_NOT_HERE},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        own_free char *text = xasprintf("%s HTTP/1.1\r\n\r\n", rows[i].line);
        struct head h;
        NO_ERROR(head_request(text, strlen(text), &h));
        for (int openai = 0; openai < 2; openai++) {
            struct upstream u = {.vendor = openai ? OPENAI : ANTHROPIC, .host = "h", .port = 80};
            struct swap_rules rules = {.upstream = &u, .login = LOGIN_KEY, .placeholder = bytes_of(HOLDER)};
            if (swap_judge(&rules, &h) != (openai ? rows[i].openai : rows[i].anthropic))
                fail_msg("%s: %d", rows[i].line, swap_judge(&rules, &h));
        }
    }
}

/* Another session's placeholder is refused in either vendor's header, and no other credential is taken for one. */
static void placeholders_of_other_sessions(void **state) {
    (void)state;
#define DIGITS "0123456789abcdef0123456789abcdef0123456789abcdef"
    static const struct {
        const char *header;
        enum gate_error want;
    } rows[] = {
        {"Authorization: Bearer placeholder-" DIGITS, GATE_ERRORS},
        {"x-api-key: placeholder-" DIGITS, GATE_ERRORS},
        {"Authorization: Bearer placeholder-1" DIGITS, GATE_ERRORS},
        {"Authorization: Bearer placeholder-f"
         "123456789abcdef0123456789abcdef0123456789abcdef",
         GATE_ENDED},
        {"authorization: bearer  placeholder-f"
         "123456789abcdef0123456789abcdef0123456789abcdef ",
         GATE_ENDED},
        {"X-Api-Key: placeholder-f"
         "123456789abcdef0123456789abcdef0123456789abcdef",
         GATE_ENDED},
        {"x-other: placeholder-f"
         "123456789abcdef0123456789abcdef0123456789abcdef",
         GATE_ERRORS},
        {"x-api-key: placeholder-x"
         "123456789abcdef0123456789abcdef0123456789abcdef",
         GATE_ERRORS},
        {"x-api-key: short", GATE_ERRORS},
        {"Authorization: Bearer sk-of-somebody-else", GATE_ERRORS},
    };
    struct upstream u = {.vendor = ANTHROPIC, .host = "h", .port = 80};
    struct swap_rules rules = {
        .upstream = &u, .login = LOGIN_KEY, .placeholder = bytes_of("placeholder-" DIGITS)};
#undef DIGITS
    for (size_t i = 0; i < COUNT(rows); i++) {
        own_free char *text = xasprintf("POST /v1/messages HTTP/1.1\r\n%s\r\n\r\n", rows[i].header);
        struct head h;
        NO_ERROR(head_request(text, strlen(text), &h));
        if (swap_judge(&rules, &h) != rows[i].want)
            fail_msg("%s", rows[i].header);
    }
}

/* ---- bodies ---- */

/* Unpacks the body in pieces of `step` bytes; the content, or NULL when it is refused. */
static char *unpack(const char *text, size_t step, bool *ret_over) {
    struct body b;
    struct buf out = {0};
    size_t n = strlen(text);
    body_begin(&b, FRAMING_CHUNKED, 0);
    for (size_t at = 0; at < n && !b.over;) {
        size_t used, have = n - at < step ? n - at : step;
        struct bytes content;
        err_t e = body_take(&b, text + at, have, &used, &content);
        if (e) {
            err_free(e);
            buf_free(&out);
            return NULL;
        }
        buf_add(&out, content.p, content.len);
        at += used;
    }
    *ret_over = b.over;
    return buf_take(&out);
}

static void chunked_bodies(void **state) {
    (void)state;
    static const struct {
        const char *text, *content; /* NULL: refused */
        bool over;
    } rows[] = {
        {"5\r\nhello\r\n0\r\n\r\n", "hello", true},
        {"5;a=b\r\nhello\r\n1\r\n!\r\n0\r\nX: y\r\nZ: w\r\n\r\n", "hello!", true},
        {"A\r\n0123456789\r\n", "0123456789", false},
        {"5\r\nhel", "hel", false},
        {"5\nhello\r\n0\r\n\r\n", NULL, false},
        {"5\r\nhello!\r\n", NULL, false},
        {"\r\n", NULL, false},
        {"g\r\n", NULL, false},
        {"-1\r\n", NULL, false},
        {"1234567890123456\r\n", NULL, false},
        {"5\r\nhello\r\n0\r\n\n", NULL, false},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        for (size_t step = 1; step < 12; step++) {
            bool over = false;
            own_free char *got = unpack(rows[i].text, step, &over);
            if (!got != !rows[i].content ||
                (got && (strcmp(got, rows[i].content) != 0 || over != rows[i].over)))
                fail_msg("row %zu, step %zu: %s", i, step, got ? got : "refused");
        }
}

/* ---- figures ---- */

static void expect_tokens(const struct scan *s, struct tokens want, const char *model, size_t cut) {
    if (memcmp(&s->seen, &want, sizeof want) != 0 || strcmp(s->model, model) != 0)
        fail_msg("cut at %zu: %d %d %d %d %s", cut, (int)s->seen.input, (int)s->seen.output,
                 (int)s->seen.cache_read, (int)s->seen.cache_write, s->model);
}

static void figures_cut_at_every_byte(void **state) {
    (void)state;
    static const struct {
        enum vendor vendor;
        bool events;
        const char *text;
        struct tokens want;
        const char *model;
    } rows[] = {
        {ANTHROPIC,
         true,
         "event: message_start\r\ndata: "
         "{\"type\":\"message_start\",\"message\":{\"model\":\"claude-x\",\"content\":[{\"usage\":"
         "{\"input_tokens\":9}}],\"usage\":{\"input_tokens\":3,\"cache_creation_input_tokens\":4,\"cache_"
         "read_input_tokens\":5,"
         "\"output_tokens\":1,\"cache_creation\":{\"ephemeral_5m_input_tokens\":4}}}}\r\n\r\n: a "
         "comment\ndata: {\"delta\":{\"text\":"
         "\"\\\",\\\"usage\\\":{\\\"input_tokens\\\":77}\"}}\n\ndata: "
         "{\"type\":\"message_delta\",\"usage\":{\"output_tokens\":6}}\n\n",
         {3, 6, 5, 4},
         "claude-x"},
        {ANTHROPIC,
         false,
         "{\"model\":\"m\",\"content\":[{\"input\":{\"usage\":{\"output_tokens\":99}}}],\"usage\":{\"input_"
         "tokens\":1,"
         "\"output_tokens\":2}}",
         {1, 2, 0, 0},
         "m"},
        {OPENAI,
         true,
         "data: "
         "{\"type\":\"response.completed\",\"response\":{\"output\":[{\"usage\":{\"input_tokens\":88}}],"
         "\"model\":\"gpt\","
         "\"usage\":{\"input_tokens\":10,\"input_tokens_details\":{\"cached_tokens\":4},\"output_tokens\":7}}"
         "}\n\n",
         {6, 7, 4, 0},
         "gpt"},
        {OPENAI,
         true,
         "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":2}}\n\ndata: "
         "[DONE]\n\n",
         {10, 2, 0, 0},
         ""},
        {ANTHROPIC, false, "{\"input_tokens\":12}", {0}, ""},
        {ANTHROPIC,
         false,
         "{\"usage\":null,\"x\":{\"usage\":{\"input_tokens\":4}},\"usage\":{\"input_tokens\":-4}}",
         {0},
         ""},
        {ANTHROPIC, false, "[{\"usage\":{\"input_tokens\":4}}]", {0}, ""},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        size_t n = strlen(rows[i].text);
        for (size_t cut = 0; cut <= n; cut++) {
            own_free struct scan *s = xmalloc(sizeof *s);
            scan_begin(s, rows[i].vendor, rows[i].events);
            scan_feed(s, rows[i].text, cut);
            scan_feed(s, rows[i].text + cut, n - cut);
            expect_tokens(s, rows[i].want, rows[i].model, cut);
        }
        own_free struct scan *s = xmalloc(sizeof *s);
        scan_begin(s, rows[i].vendor, rows[i].events);
        for (size_t k = 0; k < n; k++)
            scan_feed(s, rows[i].text + k, 1);
        expect_tokens(s, rows[i].want, rows[i].model, n);
    }
}

/* ---- secrets in streams ---- */

static void add(void *ctx, const char *p, size_t n) {
    buf_add(ctx, p, n);
}

static void a_secret_is_starred_whatever_the_pieces(void **state) {
    (void)state;
    static const struct {
        const char *secret, *text, *want;
        unsigned found;
    } rows[] = {
        {"sk-secret", "a sk-secret b", "a ********* b", 1},
        {"sk-secret", "sk-sk-secretsk-secret", "sk-******************", 2},
        {"aabaab", "aaabaabaab", "a******aab", 1},
        {"aaaa", "aaaaaaa", "****aaa", 1},
        {"abcabd", "abcabcabd", "abc******", 1},
        {"sk-secret", "sk-secre", "sk-secre", 0},
        {"", "anything", "anything", 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        for (size_t k = 2; k < 2 * strlen(rows[i].text) + 2; k++) {
            size_t step = k / 2;
            bool as_it_is = k % 2; /* what is clean is passed by */
            struct needle d;
            struct sift s = {0};
            own_buf struct buf out = {0};
            needle_init(&d, bytes_of(rows[i].secret));
            for (size_t at = 0; at < strlen(rows[i].text); at += step) {
                const char *p = rows[i].text + at;
                size_t n = strlen(p) < step ? strlen(p) : step;
                if (as_it_is && sift_clean(&s, &d, p, n))
                    add(&out, p, n);
                else
                    sift_feed(&s, &d, p, n, add, &out);
            }
            sift_end(&s, &d, add, &out);
            if (strcmp(buf_text(&out), rows[i].want) != 0 || s.found != rows[i].found)
                fail_msg("row %zu, step %zu: '%s', found %d", i, step, buf_text(&out), (int)s.found);
            needle_free(&d);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(placeholders_of_other_sessions),
        cmocka_unit_test(the_credential_has_one_place),
        cmocka_unit_test(an_account_beside_it),
        cmocka_unit_test(paths),
        cmocka_unit_test(chunked_bodies),
        cmocka_unit_test(figures_cut_at_every_byte),
        cmocka_unit_test(a_secret_is_starred_whatever_the_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
