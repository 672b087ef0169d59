/* What is said at the end of a sealed run. */
#ifndef SEALED_REPORT_H
#define SEALED_REPORT_H

#include "sealed/run.h"

/* Looks at outbox and project, tells it in a few lines, and keeps the aftermath for `agent-cage aftermath`. ended: how the
 * command ended, in words. *ret: the lines, escaped, beside an error too; the caller frees. */
err_t report_run(struct sealed_run *r, const char *ended, int64_t span_ms, char **ret);

/* Parts of it, for what is no run: what lies in the outbox; what changed in the project, which is kept below `lib` too. */
err_t report_outbox(const struct outbox_place *box, struct buf *out);
err_t report_project(const char *lib, const char *path, const struct project *p,
                     const struct aftermath_before *before, struct buf *out);

/* What the last run on this project reported; EXIT_NOTFOUND: there was none. The caller frees. */
err_t report_last(const struct ground *g, const struct project *p, char **ret);

#endif
