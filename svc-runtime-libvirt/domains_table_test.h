/* A table of domains without a libvirt, for tests: it counts what it tells. */
#pragma once

#include "svc-runtime-libvirt/domains.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct table {
	struct domains *domains;
	unsigned n_changed, n_gone;
};

static void table_on_changed(struct domain_entry *entry, void *userdata)
{
	struct table *t = userdata;

	assert_true(entry->look.present);
	t->n_changed++;
}

static void table_on_gone(struct domain_entry *entry, void *userdata)
{
	struct table *t = userdata;

	assert_false(entry->look.present);
	t->n_gone++;
}

/* Never connected: no look is taken; that one is wished shows in look_again. */
static inline int table_setup(void **state)
{
	static const struct domains_handlers handlers = { .on_changed = table_on_changed,
		.on_gone = table_on_gone };
	static const struct look_paths paths = { .pid_dir = "/nowhere", .proc_dir = "/nowhere" };
	struct table *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	*state = t;
	return domains_new(NULL, &paths, &handlers, t, &t->domains);
}

static inline int table_teardown(void **state)
{
	struct table *t = *state;

	t->domains = domains_free(t->domains);
	free(t);
	return 0;
}

#define WITH_TABLE(test) cmocka_unit_test_setup_teardown(test, table_setup, table_teardown)
