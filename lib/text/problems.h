/* What is wrong with a text: one line each, "file:LINE:COLUMN: what, what would be right". The first 20
 * are kept, the rest is counted, so that a text with ten thousand faults has an answer that can be read. */
#pragma once

#include "lib/base/err.h"

#include <stddef.h>

enum { PROBLEMS_KEPT_MAX = 20 };

struct problems {
	const char *file;               /* weak: the name shown; NULL shows "input" */
	char *texts[PROBLEMS_KEPT_MAX]; /* owned */
	size_t n;                       /* all of them, also those not kept */
};

/* line and column count from 1; line 0 leaves both out. */
void problems_add(struct problems *problems, unsigned line, unsigned column, const char *fmt, ...)
        __attribute__((format(printf, 4, 5)));
void problems_addv(struct problems *problems, unsigned line, unsigned column, const char *fmt, va_list ap)
        __attribute__((format(printf, 4, 0)));
/* The lines, joined, with "and N more" last; "" when there are none. Owned by the caller; NULL without
 * memory. */
char *problems_text(const struct problems *problems);
/* The first one, with how many more there are, as -EINVAL. 0 when there are none. */
int problems_to_err(const struct problems *problems, struct err *err);
void problems_done(struct problems *problems);

#define CLEANUP_PROBLEMS __attribute__((cleanup(problems_done)))
