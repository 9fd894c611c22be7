#include "lib/base/err.h"

#include "lib/base/utf8.h"

#include <stdio.h>
#include <string.h>

static const char ELLIPSIS[] = "…";

/* n as snprintf() gives it. What is cut is cut between characters; names of files are any bytes. */
static void text_end(char *buf, size_t size, int n)
{
	if (n >= 0 && (size_t)n >= size) {
		buf[size - sizeof(ELLIPSIS)] = '\0';
		n = (int)utf8_mend(buf);
		memcpy(buf + n, ELLIPSIS, sizeof(ELLIPSIS));
		return;
	}
	(void)utf8_mend(buf);
}

__attribute__((format(printf, 3, 0))) static void text_print(
        char *buf, size_t size, const char *fmt, va_list ap)
{
	text_end(buf, size, vsnprintf(buf, size, fmt, ap));
}

int err_setv(struct err *err, int code, const char *fmt, va_list ap)
{
	if (!err || err->code < 0)
		return code;
	err->code = code;
	text_print(err->text, sizeof(err->text), fmt, ap);
	return code;
}

int err_set(struct err *err, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	code = err_setv(err, code, fmt, ap);
	va_end(ap);
	return code;
}

int err_wrap(struct err *err, const char *fmt, ...)
{
	char old[ERR_TEXT_MAX];
	char context[ERR_TEXT_MAX];
	va_list ap;

	if (!err)
		return 0;
	memcpy(old, err->text, sizeof(old));
	va_start(ap, fmt);
	text_print(context, sizeof(context), fmt, ap);
	va_end(ap);
	int n = snprintf(
	        err->text, sizeof(err->text), "%s: %s", context, old[0] ? old : strerror(-err->code));
	text_end(err->text, sizeof(err->text), n);
	return err->code;
}

const char *err_text(const struct err *err, int code)
{
	return err && err->text[0] ? err->text : strerror(-code);
}
