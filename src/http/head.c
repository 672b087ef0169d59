#include "http/head.h"

#include <string.h>
#include <strings.h>

static err_t bad(const char *why) {
    return err_new(EXIT_USAGE, "a head that is not HTTP/1.1: %s", why);
}

bool head_is(struct bytes b, const char *word) {
    return b.len == strlen(word) && !strncasecmp(b.p, word, b.len);
}

/* RFC 9110, 5.6.2 */
static bool is_token_byte(unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_token(struct bytes b) {
    for (size_t i = 0; i < b.len; i++)
        if (!is_token_byte((unsigned char)b.p[i]))
            return false;
    return b.len > 0;
}

/* The next line without its CRLF; false: a bare CR or LF, a NUL, or no line. */
static bool take_line(struct bytes *rest, struct bytes *ret) {
    const char *cr = memchr(rest->p, '\r', rest->len);
    size_t n = cr ? (size_t)(cr - rest->p) : rest->len;
    if (n + 1 >= rest->len || rest->p[n + 1] != '\n' || memchr(rest->p, '\n', n) || memchr(rest->p, 0, n))
        return false;
    *ret = (struct bytes){rest->p, n};
    rest->p += n + 2;
    rest->len -= n + 2;
    return true;
}

/* Up to the next blank, which goes too. */
static struct bytes take_word(struct bytes *line) {
    const char *blank = memchr(line->p, ' ', line->len);
    struct bytes word = {line->p, blank ? (size_t)(blank - line->p) : line->len};
    size_t used = word.len + (blank != NULL);
    line->p += used;
    line->len -= used;
    return word;
}

static struct bytes trimmed(struct bytes b) {
    while (b.len && (b.p[0] == ' ' || b.p[0] == '\t'))
        b.p++, b.len--;
    while (b.len && (b.p[b.len - 1] == ' ' || b.p[b.len - 1] == '\t'))
        b.len--;
    return b;
}

static err_t take_header(struct bytes line, struct head *h) {
    const char *colon = memchr(line.p, ':', line.len);
    struct bytes name = {line.p, colon ? (size_t)(colon - line.p) : 0};
    if (!is_token(name))
        return bad("a header without a name, or a folded line");
    if (h->n == HEADERS_MAX)
        return bad("too many headers");
    struct bytes value = trimmed((struct bytes){colon + 1, line.len - name.len - 1});
    for (size_t i = 0; i < value.len; i++)
        if (((unsigned char)value.p[i] < ' ' && value.p[i] != '\t') || value.p[i] == 127)
            return bad("a control byte in a header");
    h->headers[h->n++] = (struct header){name, value};
    return NULL;
}

const struct header *head_find(const struct head *h, const char *name, bool *ret_more) {
    const struct header *found = NULL;
    *ret_more = false;
    for (size_t i = 0; i < h->n; i++) {
        if (!head_is(h->headers[i].name, name))
            continue;
        *ret_more |= found != NULL;
        found = found ? found : &h->headers[i];
    }
    return found;
}

/* Is the word among the parts of a list header, whichever of that name? */
static bool lists(const struct head *h, const char *name, struct bytes word) {
    for (size_t i = 0; i < h->n; i++) {
        struct bytes rest = h->headers[i].value;
        while (head_is(h->headers[i].name, name) && rest.len) {
            const char *comma = memchr(rest.p, ',', rest.len);
            struct bytes part = {rest.p, comma ? (size_t)(comma - rest.p) : rest.len};
            struct bytes one = trimmed(part);
            if (one.len == word.len && !strncasecmp(one.p, word.p, one.len))
                return true;
            size_t used = part.len + (comma != NULL);
            rest.p += used;
            rest.len -= used;
        }
    }
    return false;
}

bool head_hop_by_hop(const struct head *h, const struct header *one) {
    static const char *const always[] = {"connection",
                                         "keep-alive",
                                         "proxy-authenticate",
                                         "proxy-authorization",
                                         "proxy-connection",
                                         "te",
                                         "trailer",
                                         "transfer-encoding",
                                         "upgrade"};
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        if (head_is(one->name, always[i]))
            return true;
    return lists(h, "connection", one->name);
}

static err_t take_length(struct bytes text, uint64_t *ret) {
    uint64_t n = 0;
    if (!text.len || text.len > 18)
        return bad("a Content-Length that is no number");
    for (size_t i = 0; i < text.len; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return bad("a Content-Length that is no number");
        n = n * 10 + (uint64_t)(text.p[i] - '0');
    }
    *ret = n;
    return NULL;
}

/* RFC 9112, 6.3: what the headers say about the body; nothing_said is how it ends when they say nothing. */
static err_t settle_framing(struct head *h, enum framing nothing_said) {
    bool more_lengths, more_codings;
    const struct header *length = head_find(h, "content-length", &more_lengths);
    const struct header *coding = head_find(h, "transfer-encoding", &more_codings);
    if ((length && coding) || more_lengths || more_codings)
        return bad("the length of its body is said twice");
    if (coding && !head_is(coding->value, "chunked"))
        return bad("a transfer coding other than chunked");
    h->framing = coding ? FRAMING_CHUNKED : length ? FRAMING_LENGTH : nothing_said;
    return length ? take_length(length->value, &h->length) : NULL;
}

static err_t take_headers(struct bytes rest, struct head *h) {
    struct bytes line;
    for (;;) {
        if (!take_line(&rest, &line))
            return bad("a line that does not end as it must");
        if (!line.len)
            break;
        TRY(take_header(line, h));
    }
    if (rest.len)
        return bad("bytes behind its end");
    h->close = lists(h, "connection", bytes_of("close"));
    h->upgrades = lists(h, "connection", bytes_of("upgrade"));
    return NULL;
}

err_t head_request(const char *p, size_t n, struct head *ret) {
    struct head h = {0};
    struct bytes rest = {p, n}, line;
    if (!take_line(&rest, &line))
        return bad("its first line does not end as it must");
    h.method = take_word(&line);
    h.target = take_word(&line);
    if (!is_token(h.method) || !h.target.len)
        return bad("a request is METHOD TARGET HTTP/1.1");
    if (line.len != 8 || memcmp(line.p, "HTTP/1.1", 8))
        return bad("another version is asked for");
    for (size_t i = 0; i < h.target.len; i++)
        if ((unsigned char)h.target.p[i] <= ' ' || (unsigned char)h.target.p[i] >= 127)
            return bad("an odd byte in its target");
    TRY(take_headers(rest, &h));
    TRY(settle_framing(&h, FRAMING_NONE));
    bool more;
    const struct header *expect = head_find(&h, "expect", &more);
    if (expect && (more || !head_is(expect->value, "100-continue")))
        return bad("it expects what is not known here");
    h.expects = expect != NULL;
    *ret = h;
    return NULL;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

err_t head_response(const char *p, size_t n, bool to_head, struct head *ret) {
    struct head h = {0};
    struct bytes rest = {p, n}, line;
    if (!take_line(&rest, &line))
        return bad("its first line does not end as it must");
    if (line.len < 12 || (memcmp(line.p, "HTTP/1.1 ", 9) && memcmp(line.p, "HTTP/1.0 ", 9)) ||
        !is_digit(line.p[9]) || !is_digit(line.p[10]) || !is_digit(line.p[11]) ||
        (line.len > 12 && line.p[12] != ' '))
        return bad("a response is HTTP/1.1 STATUS REASON");
    bool old = line.p[7] == '0';
    h.status =
        (unsigned)(line.p[9] - '0') * 100 + (unsigned)(line.p[10] - '0') * 10 + (unsigned)(line.p[11] - '0');
    h.reason = line.len > 13 ? (struct bytes){line.p + 13, line.len - 13} : bytes_of("");
    if (h.status < 100 || h.status > 599)
        return bad("a status that there is not");
    TRY(take_headers(rest, &h));
    TRY(settle_framing(&h, FRAMING_CLOSE));
    h.close |= old;
    if (to_head || h.status < 200 || h.status == 204 || h.status == 304)
        h.framing = FRAMING_NONE;
    *ret = h;
    return NULL;
}
