#include "lib/text/problems.h"

#include "lib/base/cleanup.h"

#include <string.h>

static const char NO_MEMORY[] = "out of memory";

void problems_addv(struct problems *problems, unsigned line, unsigned column, const char *fmt, va_list ap)
{
	CLEANUP_FREE char *what = NULL;
	const char *file = problems->file ? problems->file : "input";
	size_t i = problems->n++;

	if (i >= PROBLEMS_KEPT_MAX)
		return;
	if (vasprintf(&what, fmt, ap) < 0)
		what = NULL;
	int n = line
	        ? asprintf(&problems->texts[i], "%s:%u:%u: %s", file, line, column, what ? what : NO_MEMORY)
	        : asprintf(&problems->texts[i], "%s: %s", file, what ? what : NO_MEMORY);
	if (n < 0)
		problems->texts[i] = NULL;
}

void problems_add(struct problems *problems, unsigned line, unsigned column, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	problems_addv(problems, line, column, fmt, ap);
	va_end(ap);
}

static size_t kept(const struct problems *problems)
{
	return problems->n < PROBLEMS_KEPT_MAX ? problems->n : PROBLEMS_KEPT_MAX;
}

static const char *text_of(const struct problems *problems, size_t i)
{
	return problems->texts[i] ? problems->texts[i] : NO_MEMORY;
}

char *problems_text(const struct problems *problems)
{
	char *text = NULL;
	size_t n_text;
	FILE *f = open_memstream(&text, &n_text);

	if (!f)
		return NULL;
	for (size_t i = 0; i < kept(problems); i++)
		(void)fprintf(f, "%s%s", i ? "\n" : "", text_of(problems, i));
	if (problems->n > PROBLEMS_KEPT_MAX)
		(void)fprintf(f, "\nand %zu more", problems->n - PROBLEMS_KEPT_MAX);
	if (fclose(f) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

int problems_to_err(const struct problems *problems, struct err *err)
{
	if (problems->n == 0)
		return 0;
	if (problems->n == 1)
		return err_set(err, -EINVAL, "%s", text_of(problems, 0));
	return err_set(err, -EINVAL, "%.440s (and %zu more)", text_of(problems, 0), problems->n - 1);
}

void problems_done(struct problems *problems)
{
	for (size_t i = 0; i < kept(problems); i++)
		free(problems->texts[i]);
	*problems = (struct problems){ .file = problems->file };
}
