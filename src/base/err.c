#include "base/err.h"
#include "base/own.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static err_t make(int status, int errnum, const char *fmt, va_list ap) {
    err_t e = xcalloc(1, sizeof *e);
    e->status = status;
    e->errnum = errnum;
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    return e;
}

err_t err_new(int status, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    err_t e = make(status, 0, fmt, ap);
    va_end(ap);
    return e;
}

err_t err_sys(int errnum, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    err_t e = make(EXIT_FAILED, errnum, fmt, ap);
    va_end(ap);
    size_t n = strlen(e->text);
    const char *why = strerrordesc_np(errnum);
    snprintf(e->text + n, sizeof e->text - n, ": %s", why ? why : "unknown error");
    return e;
}

err_t err_wrap(err_t e, const char *fmt, ...) {
    if (!e)
        return NULL;
    char inner[ERR_TEXT_MAX];
    memcpy(inner, e->text, sizeof inner);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    size_t n = strlen(e->text);
    snprintf(e->text + n, sizeof e->text - n, ": %s", inner);
    return e;
}

err_t err_as(err_t e, int status) {
    if (e)
        e->status = status;
    return e;
}

const char *err_text(const struct err *e) {
    return e ? e->text : "";
}

void err_free(err_t e) {
    free(e);
}

void err_freep(err_t *e) {
    err_free(*e);
    *e = NULL;
}

void die(err_t e) {
    fprintf(stderr, "agent-cage: %s\n", e->text);
    exit(e->status);
}
