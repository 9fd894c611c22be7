#include "cli/spec_diff.h"

#include "lib/text/proto_read.h"
#include "tests/harness/suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static Bc__V1__NodeSpec *spec_of(const char *yaml)
{
	CLEANUP_PROBLEMS struct problems problems = { 0 };
	ProtobufCMessage *message = NULL;

	if (proto_read(yaml, strlen(yaml), &bc__v1__node_spec__descriptor, &message, &problems) < 0)
		fail_msg("%s", problems.texts[0]);
	return (Bc__V1__NodeSpec *)message;
}

static void check(const char *old_yaml, const char *new_yaml, int n, const char *want)
{
	Bc__V1__NodeSpec *old_spec = old_yaml ? spec_of(old_yaml) : NULL, *new_spec = spec_of(new_yaml);
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	assert_int_equal(spec_diff_print(old_spec, new_spec, to, false), n);
	(void)fclose(to);
	assert_string_equal(text, want);
	free(text);
	if (old_spec)
		bc__v1__node_spec__free_unpacked(old_spec, NULL);
	bc__v1__node_spec__free_unpacked(new_spec, NULL);
}

static void what_is_new_and_what_goes(void **state)
{
	(void)state;
	check(NULL,
	        "{revision: 1, instances: {items: [{id: a, runtime: fake, vcpus: 2, desiredState: RUNNING}]}}",
	        1, "+ instance a runtime=fake desiredState=RUNNING vcpus=2\n");
	check("instances: {items: [{id: a}, {id: b}]}", "instances: {items: [{id: b}]}", 1, "- instance a\n");
	check("volumes: [{id: v, sizeBytes: '1048576'}]", "{instances: {}, volumes: []}", 0,
	        "  volume v is no longer named: it is kept, unclaimed\n");
	check("holds: [{id: h}]", "{instances: {}}", 1, "- hold h\n");
	check("instances: {items: [{id: a}]}", "instances: {}", 1, "- instance a\n");
}

static void what_changes_is_named_with_its_path(void **state)
{
	(void)state;
	check("instances: {items: [{id: a, memoryBytes: '1', nics: [{policy: PUBLIC, bridge: {name: br0}}]}]}",
	        "instances: {items: [{id: a, memoryBytes: '2', nics: [{policy: PRIVATE, bridge: {name: br0}}]}]}",
	        1,
	        "~ instance a\n"
	        "      memoryBytes: 1 → 2\n"
	        "      nics[0].policy: PUBLIC → PRIVATE\n");
	check("instances: {items: [{id: a, userDataRef: r}]}", "instances: {items: [{id: a, kind: JOB}]}", 1,
	        "~ instance a\n"
	        "      kind: nothing → JOB\n"
	        "      userDataRef: r → nothing\n");
	check("instances: {items: [{id: a, nics: [{user: {}}]}]}",
	        "instances: {items: [{id: a, nics: [{user: {}}, {user: {}}]}]}", 1,
	        "~ instance a\n      nics: [{\"user\":{}}] → [{\"user\":{}},{\"user\":{}}]\n");
}

static void order_and_revision_say_nothing(void **state)
{
	(void)state;
	check("{revision: 1, instances: {items: [{id: a}, {id: b}]}}",
	        "{revision: 2, instances: {items: [{id: b}, {id: a}]}}", 0, "");
	check("{revision: 1, instances: {items: [{id: a}]}}", "{revision: 2}", 0,
	        "  no instances section: every instance stays as it is\n");
}

static void long_values_are_cut_between_characters(void **state)
{
	char yaml[2048], *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);
	int n = snprintf(yaml, sizeof(yaml), "instances: {items: [{id: a, nics: [{user: {}");

	(void)state;
	(void)snprintf(yaml + n, sizeof(yaml) - (size_t)n, ", nameservers: [");
	for (int i = 0; i < 60; i++)
		(void)strcat(yaml, "ääää, ");
	(void)strcat(yaml, "x]}]}]}");
	Bc__V1__NodeSpec *old_spec = spec_of("instances: {items: [{id: a}]}"), *new_spec = spec_of(yaml);

	assert_int_equal(spec_diff_print(old_spec, new_spec, to, false), 1);
	(void)fclose(to);
	assert_true(strlen(text) < 300);
	assert_non_null(strstr(text, "…\n"));
	assert_null(strchr(text, '?')); /* no broken character was left */
	free(text);
	bc__v1__node_spec__free_unpacked(old_spec, NULL);
	bc__v1__node_spec__free_unpacked(new_spec, NULL);
}

TEST_SUITE(spec_diff_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_new_and_what_goes),
		cmocka_unit_test(what_changes_is_named_with_its_path),
		cmocka_unit_test(order_and_revision_say_nothing),
		cmocka_unit_test(long_values_are_cut_between_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
