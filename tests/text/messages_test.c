/* Every message that a service of bc.v1 takes or gives keeps its contents through JSON and YAML. */
#include "bc/v1/converger.pb-c.h"
#include "bc/v1/intelligence.pb-c.h"
#include "bc/v1/netd.pb-c.h"
#include "bc/v1/runtime.pb-c.h"
#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "lib/text/proto_read.h"
#include "lib/text/proto_shape.h"
#include "lib/text/proto_write.h"
#include "tests/harness/suite.h"
#include "tests/text/random_message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { TYPES_MAX = 512, ROUNDS = 50, DEPTH = 5 };

struct types {
	const ProtobufCMessageDescriptor *items[TYPES_MAX];
	size_t n;
};

static void types_add(struct types *types, const ProtobufCMessageDescriptor *type)
{
	for (size_t i = 0; i < types->n; i++)
		if (types->items[i] == type)
			return;
	assert_true(types->n < TYPES_MAX);
	types->items[types->n++] = type;
	for (unsigned i = 0; i < type->n_fields; i++)
		if (type->fields[i].type == PROTOBUF_C_TYPE_MESSAGE &&
		        !proto_field_is_map(type, &type->fields[i]))
			types_add(types, proto_field_message(&type->fields[i]));
}

static void types_collect(struct types *types)
{
	static const ProtobufCServiceDescriptor *const SERVICES[] = { &bc__v1__converger__descriptor,
		&bc__v1__control_plane__descriptor, &bc__v1__netd__descriptor, &bc__v1__runtime__descriptor,
		&bc__v1__intelligence__descriptor };

	for (size_t s = 0; s < ARRAY_SIZE(SERVICES); s++) {
		for (unsigned m = 0; m < SERVICES[s]->n_methods; m++) {
			types_add(types, SERVICES[s]->methods[m].input);
			types_add(types, SERVICES[s]->methods[m].output);
		}
	}
}

static uint8_t *packed(const ProtobufCMessage *message, size_t *ret_size)
{
	uint8_t *bytes = malloc(protobuf_c_message_get_packed_size(message) + 1);

	assert_non_null(bytes);
	*ret_size = protobuf_c_message_pack(message, bytes);
	return bytes;
}

static void must_read_as(const char *text, const ProtobufCMessage *message, uint64_t seed)
{
	CLEANUP_PROBLEMS struct problems problems = { .file = message->descriptor->name };
	CLEANUP_FREE uint8_t *before = NULL, *after = NULL;
	ProtobufCMessage *again = NULL;
	size_t n_before, n_after;

	if (proto_read(text, strlen(text), message->descriptor, &again, &problems) < 0)
		fail_msg("seed %llu: %s\n%s", (unsigned long long)seed, problems.texts[0], text);
	before = packed(message, &n_before);
	after = packed(again, &n_after);
	if (n_before != n_after || memcmp(before, after, n_before) != 0)
		fail_msg("seed %llu: %s changed\n%s", (unsigned long long)seed, message->descriptor->name,
		        text);
	protobuf_c_message_free_unpacked(again, NULL);
}

static void round_trip(struct random *random, const ProtobufCMessageDescriptor *type, uint64_t seed)
{
	static const unsigned FLAGS[] = { 0, PROTO_WRITE_INDENT, PROTO_WRITE_DEFAULTS,
		PROTO_WRITE_DEFAULTS | PROTO_WRITE_INDENT };
	ProtobufCMessage *message = random_message(random, type, DEPTH);

	for (size_t i = 0; i < ARRAY_SIZE(FLAGS); i++) {
		CLEANUP_FREE char *json = NULL, *yaml = NULL;

		assert_int_equal(proto_write_json(message, FLAGS[i], &json), 0);
		must_read_as(json, message, seed);
		assert_int_equal(proto_write_yaml(message, FLAGS[i], &yaml), 0);
		must_read_as(yaml, message, seed);
	}
	protobuf_c_message_free_unpacked(message, NULL);
}

static void every_message_keeps_its_contents(void **state)
{
	const char *given = getenv("BC_TEST_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0) : clock_realtime_usec();
	struct random random = { .state = seed };
	struct types types = { .n = 0 };

	(void)state;
	print_message("BC_TEST_SEED=%llu\n", (unsigned long long)seed);
	types_collect(&types);
	assert_true(types.n > 60);
	for (size_t i = 0; i < types.n; i++)
		for (int round = 0; round < ROUNDS; round++)
			round_trip(&random, types.items[i], seed);
}

TEST_SUITE(messages_test)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(every_message_keeps_its_contents) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
