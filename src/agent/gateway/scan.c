#include "agent/gateway/scan.h"
#include "base/own.h"

#include <jansson.h>
#include <string.h>

enum key { KEY_OTHER, KEY_USAGE, KEY_MODEL, KEY_MESSAGE, KEY_RESPONSE };

static enum key key_of(const char *text) {
    static const char *const names[] = {
        [KEY_USAGE] = "usage", [KEY_MODEL] = "model", [KEY_MESSAGE] = "message", [KEY_RESPONSE] = "response"};
    for (size_t k = KEY_USAGE; k < COUNT(names); k++)
        if (!strcmp(text, names[k]))
            return (enum key)k;
    return KEY_OTHER;
}

static void begin_document(struct scan *s) {
    s->depth = 0;
    s->in_string = s->escaped = s->want_key = false;
    s->caught_at = 0;
}

void scan_begin(struct scan *s, enum vendor vendor, bool events) {
    *s = (struct scan){.vendor = vendor, .events = events};
}

/* ---- the figures ---- */

/* The number at KEY, or at KEY.INNER. */
static uint64_t number(json_t *o, const char *key, const char *inner) {
    json_t *v = json_object_get(o, key);
    json_int_t n = json_integer_value(inner ? json_object_get(v, inner) : v);
    return n < 0 ? 0 : (uint64_t)n < UINT64_C(1) << 40 ? (uint64_t)n : UINT64_C(1) << 40;
}

static void raise(uint64_t *place, uint64_t n) {
    *place = n > *place ? n : *place;
}

static void read_anthropic(struct tokens *t, json_t *o) {
    raise(&t->input, number(o, "input_tokens", NULL));
    raise(&t->output, number(o, "output_tokens", NULL));
    raise(&t->cache_read, number(o, "cache_read_input_tokens", NULL));
    raise(&t->cache_write, number(o, "cache_creation_input_tokens", NULL));
}

/* Responses, and the older Chat Completions: what came from the cache is within the input. */
static void read_openai(struct tokens *t, json_t *o) {
    uint64_t in = number(o, "input_tokens", NULL), prompt = number(o, "prompt_tokens", NULL);
    uint64_t cached = number(o, "input_tokens_details", "cached_tokens");
    raise(&cached, number(o, "prompt_tokens_details", "cached_tokens"));
    raise(&in, prompt);
    raise(&t->cache_read, cached);
    raise(&t->input, in > cached ? in - cached : 0);
    raise(&t->output, number(o, "output_tokens", NULL));
    raise(&t->output, number(o, "completion_tokens", NULL));
}

static void take_usage(struct scan *s) {
    static void (*const readers[VENDOR_COUNT])(struct tokens *, json_t *) = {
        [ANTHROPIC] = read_anthropic, [OPENAI] = read_openai};
    json_t *o = json_loadb(s->usage, s->nusage, 0, NULL);
    if (o && readers[s->vendor])
        readers[s->vendor](&s->seen, o);
    json_decref(o);
}

/* ---- JSON ---- */

/* Does the value that begins now stand where the vendors put KEY? */
static bool stands(const struct scan *s, enum key key) {
    if (s->depth == 1)
        return s->object[1] && s->key[1] == (int)key;
    return s->depth == 2 && s->object[1] && s->object[2] && s->key[2] == (int)key &&
           (s->key[1] == KEY_MESSAGE || s->key[1] == KEY_RESPONSE);
}

static void catch (struct scan *s, const char *p, size_t n) {
    if (!s->caught_at)
        return;
    if (n > sizeof s->usage - s->nusage) { /* no usage object is that long */
        s->caught_at = 0;
        return;
    }
    memcpy(s->usage + s->nusage, p, n);
    s->nusage += n;
}

static void open_container(struct scan *s, bool object) {
    if (object && !s->caught_at && stands(s, KEY_USAGE)) {
        s->caught_at = s->depth + 1;
        s->nusage = 0;
    }
    s->depth++;
    if (s->depth <= SCAN_DEPTH) {
        s->object[s->depth] = object;
        s->key[s->depth] = KEY_OTHER;
    }
    s->want_key = object;
}

static void close_container(struct scan *s) {
    if (s->caught_at && s->depth == s->caught_at) {
        catch (s, "}", 1);
        if (s->caught_at)
            take_usage(s);
        s->caught_at = 0;
    }
    if (s->depth)
        s->depth--;
    s->want_key = false;
}

static void end_string(struct scan *s) {
    s->in_string = false;
    if (!s->depth || s->depth >= SCAN_DEPTH)
        return;
    bool whole = s->ntext < sizeof s->text;
    s->text[whole ? s->ntext : 0] = 0;
    if (s->want_key && s->object[s->depth])
        s->key[s->depth] = key_of(s->text);
    else if (whole && stands(s, KEY_MODEL))
        memcpy(s->model, s->text, s->ntext + 1);
}

/* Inside a string: up to what ends it or needs a look. Returns how many bytes were taken. */
static size_t string_bytes(struct scan *s, const char *p, size_t n) {
    if (s->escaped) {
        s->escaped = false;
        s->ntext = sizeof s->text; /* no key and no model that we know has an escape in it */
        return 1;
    }
    const char *quote = memchr(p, '"', n);
    size_t plain = quote ? (size_t)(quote - p) : n;
    const char *slash = memchr(p, '\\', plain);
    plain = slash ? (size_t)(slash - p) : plain;
    for (size_t i = 0; i < plain && s->ntext < sizeof s->text; i++)
        s->text[s->ntext++] = p[i];
    if (plain == n)
        return n;
    s->escaped = slash != NULL;
    if (!slash)
        end_string(s);
    return plain + 1;
}

static void outside_byte(struct scan *s, char c) {
    switch (c) {
    case '"':
        s->in_string = true;
        s->ntext = 0;
        return;
    case '{':
    case '[':
        open_container(s, c == '{');
        return;
    case '}':
    case ']':
        close_container(s);
        return;
    case ':':
        s->want_key = false;
        return;
    case ',':
        s->want_key = s->depth && s->depth <= SCAN_DEPTH && s->object[s->depth];
        return;
    default:
        return;
    }
}

static void feed_json(struct scan *s, const char *p, size_t n) {
    for (size_t i = 0; i < n;) {
        if (s->in_string) {
            size_t used = string_bytes(s, p + i, n - i);
            catch (s, p + i, used);
            i += used;
            continue;
        }
        unsigned was = s->caught_at;
        outside_byte(s, p[i]);
        if (was && s->caught_at) /* the closing brace was kept by close_container() */
            catch (s, p + i, 1);
        else if (s->caught_at)
            catch (s, "{", 1);
        i++;
    }
}

/* ---- server-sent events (the HTML standard, 9.2) ---- */

static void end_line(struct scan *s) {
    if (s->line == LINE_FIELD && !s->nfield) /* an empty line ends the event */
        begin_document(s);
    s->line = LINE_FIELD;
    s->nfield = 0;
}

static void field_byte(struct scan *s, char c) {
    if (c == ':')
        s->line = s->nfield == 4 && !memcmp(s->field, "data", 4) ? LINE_DATA : LINE_OTHER;
    else if (s->nfield < sizeof s->field && c != '\r')
        s->field[s->nfield++] = c;
}

static void feed_events(struct scan *s, const char *p, size_t n) {
    while (n) {
        if (*p == '\n') {
            end_line(s);
            p++, n--;
            continue;
        }
        if (s->line == LINE_FIELD) {
            field_byte(s, *p);
            p++, n--;
            continue;
        }
        const char *newline = memchr(p, '\n', n);
        size_t rest = newline ? (size_t)(newline - p) : n;
        if (s->line == LINE_DATA)
            feed_json(s, p, rest);
        p += rest, n -= rest;
    }
}

void scan_feed(struct scan *s, const char *p, size_t n) {
    if (s->events)
        feed_events(s, p, n);
    else
        feed_json(s, p, n);
}
