#include "tests/property/kernel.h"

#include "tests/property/set.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "lib/base/tap_name.h"
#include "tests/harness/timeout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A list that is changed while it is made is told to be of no use, in words beside it. */
static json_t *tree_of(const char *const *argv)
{
	static const char *const WORDS[] = { "sh", "-c",
		"(ip -j -d link show; nft -j -n list ruleset) 2>&1 | tail -c 2000", NULL };

	uint64_t until_usec = clock_monotonic_usec() + test_timeout_usec(TEST_SERVICE_SEC);

	while (clock_monotonic_usec() < until_usec) {
		CLEANUP_FREE char *text = set_output(argv);
		json_t *tree = text ? json_loads(text, 0, NULL) : NULL;

		if (tree)
			return tree;
		(void)usleep(20000); /* runs out: nothing tells when they have come to rest */
	}
	(void)fprintf(stderr, "%s\n", set_output(WORDS) ?: "");
	set_die("%s says nothing that can be read", argv[0]);
}

bool kernel_is_ours_by_name(const char *name)
{
	return tap_name_parse(name, NULL, NULL) || strncmp(name, "bcx", 3) == 0;
}

static void links_read(struct kernel *kernel)
{
	static const char *const ARGV[] = { "ip", "-j", "-d", "link", "show", NULL };
	json_t *list = tree_of(ARGV), *link;
	size_t i;

	kernel->links = json_object();
	json_array_foreach(list, i, link)(void)
	        json_object_set(kernel->links, json_string_value(json_object_get(link, "ifname")), link);
	json_decref(list);
}

static void note(json_t *where, const char *key)
{
	(void)json_object_set_new(where, key, json_true());
}

/* An interface, and what stands beside it in the same key. */
static void concat_read(struct kernel *kernel, const char *set, json_t *concat)
{
	const char *ifname = json_string_value(json_array_get(concat, 0));
	const char *beside = json_string_value(json_array_get(concat, 1));
	char key[128];

	if (!ifname || !beside || !tap_name_parse(ifname, NULL, NULL))
		return;
	(void)snprintf(key, sizeof(key), "%s %s %s", set, ifname, beside);
	note(kernel->pairs, key);
}

/* Published ports are keys of maps: an address, perhaps, the protocol and the port. */
static void port_read(struct kernel *kernel, const char *set, json_t *concat)
{
	json_t *last = json_array_get(concat, json_array_size(concat) - 1);
	char key[32];

	if (strncmp(set, "published", 9) != 0 || !last)
		return;
	if (json_is_integer(last))
		(void)snprintf(key, sizeof(key), "%d", (int)json_integer_value(last));
	else
		(void)snprintf(key, sizeof(key), "%s", json_string_value(last));
	note(kernel->ports, key);
}

/* Every name of our form anywhere in an element, its comment included. */
static void element_read(struct kernel *kernel, const char *set, json_t *element)
{
	json_t *part;
	const char *key;
	size_t i;

	if (json_is_string(element)) {
		char name[64], pair[128];

		(void)snprintf(name, sizeof(name), "%s", json_string_value(element));
		if (!tap_name_parse(name, NULL, NULL))
			return;
		note(kernel->named, name);
		(void)snprintf(pair, sizeof(pair), "%s %s", set, name);
		note(kernel->pairs, pair);
	} else if (json_is_array(element)) {
		json_array_foreach(element, i, part) element_read(kernel, set, part);
	} else if (json_is_object(element)) {
		json_t *concat = json_object_get(element, "concat");

		if (concat) {
			concat_read(kernel, set, concat);
			port_read(kernel, set, concat);
		}
		json_object_foreach(element, key, part) element_read(kernel, set, part);
	}
}

static void rules_read(struct kernel *kernel)
{
	static const char *const ARGV[] = { "nft", "-j", "-n", "list", "ruleset", NULL };
	json_t *tree = tree_of(ARGV), *item;
	size_t i;

	kernel->named = json_object();
	kernel->pairs = json_object();
	kernel->ports = json_object();
	json_array_foreach(json_object_get(tree, "nftables"), i, item)
	{
		json_t *set = json_object_get(item, "set") ?: json_object_get(item, "map");
		const char *table = json_string_value(json_object_get(set, "table"));

		if (set && table && strcmp(table, "bc") == 0)
			element_read(kernel, json_string_value(json_object_get(set, "name")),
			        json_object_get(set, "elem"));
	}
	json_decref(tree);
}

void kernel_read_links(struct kernel *ret)
{
	*ret = (struct kernel){ 0 };
	links_read(ret);
}

void kernel_read(struct kernel *ret)
{
	kernel_read_links(ret);
	rules_read(ret);
}

void kernel_done(struct kernel *kernel)
{
	json_decref(kernel->links);
	json_decref(kernel->named);
	json_decref(kernel->pairs);
	json_decref(kernel->ports);
	*kernel = (struct kernel){ 0 };
}

bool kernel_has(const struct kernel *kernel, const char *set, const char *ifname, const char *address)
{
	char key[128];

	(void)snprintf(key, sizeof(key), address ? "%s %s %s" : "%s %s", set, ifname, address);
	return json_object_get(kernel->pairs, key) != NULL;
}

bool kernel_publishes(const struct kernel *kernel, unsigned port)
{
	char key[32];

	(void)snprintf(key, sizeof(key), "%u", port);
	return json_object_get(kernel->ports, key) != NULL;
}
