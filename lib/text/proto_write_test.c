#include "lib/text/proto_write.h"

#include "lib/base/cleanup.h"
#include "lib/text/proto_enum.h"
#include "lib/text/proto_read.h"
#include "lib/text/sample_test.pb-c.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

typedef Bc__TextSample__Sample Sample;

static char *json(const Sample *sample, unsigned flags)
{
	char *text = NULL;

	assert_int_equal(proto_write_json(&sample->base, flags, &text), 0);
	return text;
}

/* Reads and prints: what was written is what comes back. */
static void same(const char *text)
{
	CLEANUP_PROBLEMS struct problems problems = { .file = "t" };
	CLEANUP_FREE char *again = NULL, *yaml = NULL, *from_yaml = NULL;
	ProtobufCMessage *message = NULL;

	assert_int_equal(
	        proto_read(text, strlen(text), &bc__text_sample__sample__descriptor, &message, &problems), 0);
	again = json((Sample *)message, PROTO_WRITE_COMPACT);
	assert_string_equal(again, text);
	assert_int_equal(proto_write_yaml(message, 0, &yaml), 0);
	protobuf_c_message_free_unpacked(message, NULL);
	assert_int_equal(
	        proto_read(yaml, strlen(yaml), &bc__text_sample__sample__descriptor, &message, &problems), 0);
	from_yaml = json((Sample *)message, PROTO_WRITE_COMPACT);
	assert_string_equal(from_yaml, text);
	protobuf_c_message_free_unpacked(message, NULL);
}

static void it_is_the_standard_mapping(void **state)
{
	(void)state;
	same("{}");
	same("{\"i32\":-5,\"u32\":4294967295,\"i64\":\"-9\",\"u64\":\"18446744073709551615\","
	     "\"single\":0.1,\"twice\":0.5,"
	     "\"yesOrNo\":true,\"someText\":\"a/b\\n\\u0001\\\"ü😀\",\"someBytes\":\"+/8=\","
	     "\"color\":\"MINUS\"}");
	same("{\"child\":{}}");
	same("{\"child\":{\"name\":\"x\",\"deeper\":{\"child\":{\"memoryBytes\":\"1\"}}}}");
	same("{\"at\":\"2024-02-29T12:00:00.500Z\",\"lasts\":\"-1.500s\","
	     "\"times\":[\"1970-01-01T00:00:00Z\"]}");
	same("{\"twice\":\"NaN\",\"reals\":[\"Infinity\",\"-Infinity\",1e100,0.5]}");
	/* A member of a oneof is there even when it holds zero. */
	same("{\"pickNumber\":0}");
	same("{\"pickText\":\"\"}");
	same("{\"pickBytes\":\"\"}");
	same("{\"pickChild\":{}}");
	same("{\"pickColor\":\"COLOR_UNSPECIFIED\"}");
	same("{\"pickBool\":false,\"nicIndex\":0}");
	same("{\"numbers\":[0,1],\"texts\":[\"\",\"a\"],\"blobs\":[\"\"],\"children\":[{}],"
	     "\"colors\":[\"COLOR_UNSPECIFIED\"],"
	     "\"flags\":[false],\"bigs\":[\"0\"]}");
	same("{\"labels\":{\"a\":\"\",\"true\":\"x\",\"1\":\"y\"},\"byNumber\":{\"7\":{\"name\":\"seven\"}},"
	     "\"byTruth\":{\"false\":\"RED\",\"true\":\"GREEN\"},\"byBig\":{\"-5\":0.5},"
	     "\"history\":[{\"key\":\"k\",\"value\":\"v\"}],\"x2Y\":\"odd\"}");
}

static void texts_survive_yaml(void **state)
{
	(void)state;
	same("{\"texts\":[\"null\",\"~\",\"yes\",\"1\",\" lead\",\"trail \",\"a: b\",\"# c\",\"- d\","
	     "\"a\\n\",\"a\\n\\n\",\"\\na\","
	     "\"  a\\nb\",\"a\\n  b \\nc\",\"\\t\",\"a\\tb\\n\",\"\\r\\n\",\"\xc2\x85\",\"\xe2\x80\xa8\","
	     "\"|\","
	     "\">\",\"%\",\"@\",\"`\",\"{\",\"'\","
	     "\"\\\"\",\"\\\\\",\"---\",\"...\",\"--- a\\n\",\"\x7f\",\"\xef\xbb\xbf\",\"\xef\xbf\xbe\","
	     "\"!x\","
	     "\"&x\",\"*x\",\"?\",\"? \",\":\",\"a:\"]}");
}

static void defaults_are_printed_when_asked_for(void **state)
{
	Bc__TextSample__Sample__Child child = BC__TEXT_SAMPLE__SAMPLE__CHILD__INIT;
	CLEANUP_FREE char *text = NULL;

	(void)state;
	assert_int_equal(proto_write_json(&child.base, PROTO_WRITE_DEFAULTS | PROTO_WRITE_INDENT, &text), 0);
	assert_string_equal(text, "{\n  \"name\": \"\",\n  \"memoryBytes\": \"0\"\n}\n");
	Sample sample = BC__TEXT_SAMPLE__SAMPLE__INIT;
	CLEANUP_FREE char *all = json(&sample, PROTO_WRITE_DEFAULTS);
	assert_non_null(strstr(all, "\"numbers\":[]"));
	assert_non_null(strstr(all, "\"labels\":{}"));
	assert_non_null(strstr(all, "\"color\":\"COLOR_UNSPECIFIED\""));
	assert_null(strstr(all, "child\":"));
	assert_null(strstr(all, "nicIndex"));
	same("{}");
}

static void numbers_get_no_more_digits_than_they_need(void **state)
{
	double reals[] = { 0.1, 1.0 / 3 };
	Sample sample = BC__TEXT_SAMPLE__SAMPLE__INIT;

	(void)state;
	sample.reals = reals;
	sample.n_reals = 1;
	CLEANUP_FREE char *few = json(&sample, 0);
	assert_string_equal(few, "{\"reals\":[0.1]}");
	sample.n_reals = 2;
	CLEANUP_FREE char *many = json(&sample, 0);
	assert_string_equal(many, "{\"reals\":[0.1,0.3333333333333333]}");
}

static void what_has_no_text_is_refused_or_numbered(void **state)
{
	Google__Protobuf__Timestamp at = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
	char latin1[] = "\xe4";
	Sample sample = BC__TEXT_SAMPLE__SAMPLE__INIT;
	char *text = NULL;

	(void)state;
	sample.some_text = latin1;
	assert_int_equal(proto_write_json(&sample.base, 0, &text), -EINVAL);
	assert_int_equal(proto_write_yaml(&sample.base, 0, &text), -EINVAL);
	sample.some_text = NULL;
	at.nanos = -1;
	sample.at = &at;
	assert_int_equal(proto_write_json(&sample.base, 0, &text), -EINVAL);
	sample.at = NULL;
	sample.color = 99;
	assert_null(text);
	text = json(&sample, 0);
	assert_string_equal(text, "{\"color\":99}");
	free(text);
}

static void a_message_that_holds_itself_is_refused(void **state)
{
	Bc__TextSample__Sample__Child child = BC__TEXT_SAMPLE__SAMPLE__CHILD__INIT;
	Sample sample = BC__TEXT_SAMPLE__SAMPLE__INIT;
	char *text = NULL;

	(void)state;
	child.deeper = &sample;
	sample.child = &child;
	assert_int_equal(proto_write_json(&sample.base, 0, &text), -EINVAL);
}

static void enums_by_name(void **state)
{
	int value;

	(void)state;
	assert_string_equal(proto_enum_name(&bc__text_sample__sample__color__descriptor, 7), "DEEP_BLUE");
	assert_null(proto_enum_name(&bc__text_sample__sample__color__descriptor, 3));
	assert_int_equal(proto_enum_value(&bc__text_sample__sample__color__descriptor, "MINUS", &value), 0);
	assert_int_equal(value, -3);
	assert_int_equal(
	        proto_enum_value(&bc__text_sample__sample__color__descriptor, "minus", &value), -ENOENT);
}

TEST_SUITE(proto_write_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_the_standard_mapping),
		cmocka_unit_test(texts_survive_yaml),
		cmocka_unit_test(defaults_are_printed_when_asked_for),
		cmocka_unit_test(numbers_get_no_more_digits_than_they_need),
		cmocka_unit_test(what_has_no_text_is_refused_or_numbered),
		cmocka_unit_test(a_message_that_holds_itself_is_refused),
		cmocka_unit_test(enums_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
