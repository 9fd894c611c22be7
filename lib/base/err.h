/* Words for an error, beside the -errno that carries its kind.
 *
 * A function that can fail returns 0 or -errno; where a person will read the reason it takes a
 * `struct err *err` last. The text says what was wrong, with which value, what would be right and where to look.
 * Only the RPC edge turns the errno into a gRPC code (rpc/status.h): EINVAL is the caller's mistake, EBUSY a
 * wrong state, ENOENT, EEXIST, EACCES and EOPNOTSUPP what they say, ENOSPC/ENOMEM host capacity, EAGAIN "later". */
#pragma once

#include <stdarg.h>

enum { ERR_TEXT_MAX = 512 }; /* bytes, with the NUL; longer texts are cut with "…" */

struct err {
	int code; /* -errno, 0 while nothing failed */
	char text[ERR_TEXT_MAX];
};

/* Sets code and text and returns code. err may be NULL. An err that is already set keeps its first cause. */
int err_set(struct err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int err_setv(struct err *err, int code, const char *fmt, va_list ap) __attribute__((format(printf, 3, 0)));

/* Puts context in front of the text ("context: text"); keeps the code and returns it. */
int err_wrap(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The text, or strerror() of code when nobody wrote one. Never NULL; valid while err lives. */
const char *err_text(const struct err *err, int code);
