#include "svc-converger/test/store_print.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void append(char *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void append(char *text, const char *fmt, ...)
{
	size_t n = strlen(text);
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text + n, STORE_PRINT_MAX - n, fmt, ap);
	va_end(ap);
}

static int print_instance(const struct store_instance *i, void *userdata, struct err *err)
{
	(void)err;
	append(userdata, "%s=%.*s@%llu,%d%s,%d,%u,%llx,%llx;", i->id, (int)i->n_spec, (const char *)i->spec,
	        (unsigned long long)i->revision, i->facts.recorded, i->facts.used_netd ? "n" : "",
	        i->facts.job, i->facts.restarts, (unsigned long long)i->facts.started_hash,
	        (unsigned long long)i->facts.nics_hash);
	return 0;
}

static int print_removal(const struct store_removal *m, void *userdata, struct err *err)
{
	(void)err;
	append(userdata, "-%s:%s:%s:%d;", m->id, m->runtime, m->allocation_id, m->uses_netd);
	return 0;
}

void store_print(struct store *store, char ret[static STORE_PRINT_MAX])
{
	static const struct store_handlers handlers = {
		.on_instance = print_instance,
		.on_removal = print_removal,
	};

	ret[0] = '\0';
	assert_int_equal(store_load(store, &handlers, ret, NULL), 0);
}
