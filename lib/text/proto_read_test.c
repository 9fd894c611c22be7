#include "lib/text/proto_read.h"

#include "lib/text/sample_test.pb-c.h"
#include "tests/harness/suite.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

typedef Bc__TextSample__Sample Sample;

static Sample *sample_free(Sample *sample)
{
	if (sample)
		bc__text_sample__sample__free_unpacked(sample, NULL);
	return NULL;
}

static void cleanup_sample(Sample **sample)
{
	(void)sample_free(*sample);
}
#define CLEANUP_SAMPLE __attribute__((cleanup(cleanup_sample)))

static Sample *read_sample(const char *text)
{
	CLEANUP_PROBLEMS struct problems problems = { .file = "t" };
	ProtobufCMessage *message = NULL;
	int r = proto_read(text, strlen(text), &bc__text_sample__sample__descriptor, &message, &problems);

	if (r < 0)
		fail_msg("refused: %s", problems.texts[0]);
	return (Sample *)message;
}

static void refused(const char *text, const char *problem)
{
	CLEANUP_PROBLEMS struct problems problems = { .file = "t" };
	ProtobufCMessage *message = NULL;
	int r = proto_read(text, strlen(text), &bc__text_sample__sample__descriptor, &message, &problems);

	if (r == 0)
		fail_msg("accepted: %s", text);
	assert_int_equal(r, -EINVAL);
	assert_null(message);
	assert_string_equal(problems.texts[0], problem);
}

static void every_shape_is_read(void **state)
{
	CLEANUP_SAMPLE Sample *s = read_sample(
	        "i32: -5\ns32: -6\nsf32: -7\nu32: 4294967295\nf32: '8'\ni64: -9\ns64: "
	        "\"-9223372036854775808\"\n"
	        "sf64: 10\nu64: '18446744073709551615'\nf64: 11e2\nsingle: 0.1\ntwice: -Infinity\n"
	        "yesOrNo: true\n"
	        "some_text: hi\nsomeBytes: aGk=\ncolor: DEEP_BLUE\nchild: {name: c, deeper: {u32: 1}}\n"
	        "at: 2024-02-29T12:00:00.5Z\nlasts: -1.5s\npickBytes: aGk\nnumbers: [1, '2']\ntexts: [a, "
	        "'', 0x1]\n"
	        "blobs: [aGk=, '']\nchildren: [{}, {name: d}]\ncolors: [RED, 2, MINUS]\nflags: [true, "
	        "false]\n"
	        "reals: [1, NaN]\ntimes: [1970-01-01T00:00:01Z]\nbigs: ['1', 2]\nlabels: {a: b, 1: c}\n"
	        "byNumber: {7: {name: seven}}\nbyTruth: {true: RED}\nbyBig: {-5: 0.5}\nhistory: [{key: k,"
	        " value: v}]\n"
	        "x2Y: odd\n");

	(void)state;
	assert_int_equal(s->i32, -5);
	assert_int_equal(s->s32, -6);
	assert_int_equal(s->sf32, -7);
	assert_true(s->u32 == UINT32_MAX);
	assert_int_equal(s->f32, 8);
	assert_true(s->i64 == -9);
	assert_true(s->s64 == INT64_MIN);
	assert_true(s->sf64 == 10);
	assert_true(s->u64 == UINT64_MAX);
	assert_true(s->f64 == 1100);
	assert_true(s->single == 0.1F);
	assert_true(isinf(s->twice) && s->twice < 0);
	assert_true(s->yes_or_no);
	assert_string_equal(s->some_text, "hi");
	assert_int_equal(s->some_bytes.len, 2);
	assert_memory_equal(s->some_bytes.data, "hi", 2);
	assert_int_equal(s->color, BC__TEXT_SAMPLE__SAMPLE__COLOR__DEEP_BLUE);
	assert_string_equal(s->child->name, "c");
	assert_int_equal(s->child->deeper->u32, 1);
	assert_true(s->at->seconds == 1709208000 && s->at->nanos == 500000000);
	assert_true(s->lasts->seconds == -1 && s->lasts->nanos == -500000000);
	assert_int_equal(s->pick_case, BC__TEXT_SAMPLE__SAMPLE__PICK_PICK_BYTES);
	assert_memory_equal(s->pick_bytes.data, "hi", 2);
	assert_int_equal(s->single_pick_case, BC__TEXT_SAMPLE__SAMPLE__SINGLE_PICK__NOT_SET);
	assert_int_equal(s->n_numbers, 2);
	assert_int_equal(s->numbers[1], 2);
	assert_int_equal(s->n_texts, 3);
	assert_string_equal(s->texts[2], "0x1");
	assert_int_equal(s->n_blobs, 2);
	assert_int_equal(s->blobs[1].len, 0);
	assert_int_equal(s->n_children, 2);
	assert_string_equal(s->children[1]->name, "d");
	assert_int_equal(s->n_colors, 3);
	assert_int_equal(s->colors[1], BC__TEXT_SAMPLE__SAMPLE__COLOR__GREEN);
	assert_int_equal(s->colors[2], -3);
	assert_int_equal(s->n_flags, 2);
	assert_true(isnan(s->reals[1]));
	assert_true(s->times[0]->seconds == 1);
	assert_true(s->bigs[0] == 1 && s->bigs[1] == 2);
	assert_int_equal(s->n_labels, 2);
	assert_string_equal(s->labels[1]->key, "1");
	assert_string_equal(s->labels[1]->value, "c");
	assert_int_equal(s->by_number[0]->key, 7);
	assert_string_equal(s->by_number[0]->value->name, "seven");
	assert_true(s->by_truth[0]->key);
	assert_true(s->by_big[0]->key == -5);
	assert_string_equal(s->history[0]->value, "v");
	assert_string_equal(s->x_2_y, "odd");
}

static void presence_is_kept(void **state)
{
	CLEANUP_SAMPLE Sample *zero = read_sample("nicIndex: 0\npickText: ''\nchild: {}\n");
	CLEANUP_SAMPLE Sample *none =
	        read_sample("nicIndex: null\nchild: ~\npickNumber: null\npickText: x\nnumbers:\nlabels: "
	                    "null\n");
	CLEANUP_SAMPLE Sample *empty = read_sample("{}");

	(void)state;
	assert_int_equal(zero->single_pick_case, BC__TEXT_SAMPLE__SAMPLE__SINGLE_PICK_NIC_INDEX);
	assert_int_equal(zero->pick_case, BC__TEXT_SAMPLE__SAMPLE__PICK_PICK_TEXT);
	assert_non_null(zero->child);
	assert_int_equal(none->single_pick_case, BC__TEXT_SAMPLE__SAMPLE__SINGLE_PICK__NOT_SET);
	assert_null(none->child);
	assert_int_equal(none->pick_case, BC__TEXT_SAMPLE__SAMPLE__PICK_PICK_TEXT);
	assert_int_equal(none->n_numbers, 0);
	assert_string_equal(empty->some_text, "");
}

static void mistakes_are_told_with_place_path_and_remedy(void **state)
{
	static const struct {
		const char *text, *problem;
	} CASES[] = {
		{ "[]", "t:1:1: a list stands where a mapping is expected" },
		{ "some_txt: a", "t:1:1: unknown key 'some_txt' in Sample, did you mean 'someText'?" },
		{ "child:\n  nmae: x", "t:2:3: child: unknown key 'nmae' in Child, did you mean 'name'?" },
		{ "zzzzzz: 1", "t:1:1: unknown key 'zzzzzz' in Sample" },
		{ "someText: a\nsome_text: b",
		        "t:2:1: 'some_text' and 'someText' (line 1) exclude each other; remove one" },
		{ "pickText: a\npickNumber: 1",
		        "t:2:1: 'pickNumber' and 'pickText' (line 1) exclude each other; remove one" },
		{ "child: {name: x, name: y}",
		        "t:1:18: key 'name' is given twice, first at line 1; remove one" },
		{ "u32: -1", "t:1:6: u32: -1 is out of range; write a whole number from 0 to 4294967295" },
		{ "u32: 4294967296",
		        "t:1:6: u32: 4294967296 is out of range; write a whole number from 0 to 4294967295" },
		{ "i32: 1.5",
		        "t:1:6: i32: '1.5' is not a whole number; write decimal digits without leading "
		        "zeros" },
		{ "i32: 010",
		        "t:1:6: i32: '010' is not a whole number; write decimal digits without leading "
		        "zeros" },
		{ "i32: true", "t:1:6: i32: true or false stands where a whole number is expected" },
		{ "u64: 18446744073709551616",
		        "t:1:6: u64: 18446744073709551616 is out of range; write a whole number from 0 "
		        "to 18446744073709551615" },
		{ "i64: -9223372036854775809",
		        "t:1:6: i64: -9223372036854775809 is out of range; write a whole number from "
		        "-9223372036854775808 to 9223372036854775807" },
		{ "child: {memoryBytes: 2GiB}",
		        "t:1:22: child.memoryBytes: '2GiB' is not a number of bytes; write 2147483648" },
		{ "single: 1e39",
		        "t:1:9: single: 1e39 is out of range; at most 3.40282e+38 either way can be held" },
		{ "twice: fast",
		        "t:1:8: twice: 'fast' is not a number; write one such as 0.5, or NaN, Infinity, "
		        "-Infinity" },
		{ "yesOrNo: yes",
		        "t:1:10: yesOrNo: 'yes' is not true or false; write one of these two without "
		        "quotes" },
		{ "yesOrNo: 1", "t:1:10: yesOrNo: a number stands where true or false is expected" },
		{ "someText: 12",
		        "t:1:11: someText: a number stands where text is expected; write it in quotes: "
		        "\"12\"" },
		{ "someText: {a: b}", "t:1:11: someText: a mapping stands where text is expected" },
		{ "{\"someText\":\"a\\u0000b\"}",
		        "t:1:13: someText: the text holds a NUL character; leave it out" },
		{ "someBytes: '%%'",
		        "t:1:12: someBytes: the text is not base64; write groups of four letters of A-Z, "
		        "a-z, 0-9, + "
		        "and /, ended with =" },
		{ "color: BLUE",
		        "t:1:8: color: 'BLUE' is not a value of Color; one of: MINUS, RED, GREEN, "
		        "DEEP_BLUE" },
		{ "color: green",
		        "t:1:8: color: 'green' is not a value of Color, did you mean 'GREEN'?; one of: "
		        "MINUS, RED, "
		        "GREEN, DEEP_BLUE" },
		{ "color: 3",
		        "t:1:8: color: '3' is not a value of Color; one of: MINUS, RED, GREEN, DEEP_BLUE" },
		{ "color: [RED]", "t:1:8: color: a list stands where a name is expected" },
		{ "at: yesterday",
		        "t:1:5: at: 'yesterday' is not a time; write one such as 2024-02-29T12:00:00Z" },
		{ "lasts: 5m",
		        "t:1:8: lasts: '5m' is not a duration in seconds; write one such as 90s or 0.5s" },
		{ "numbers: 1", "t:1:10: numbers: a number stands where a list is expected" },
		{ "numbers: [1, x]",
		        "t:1:14: numbers[1]: 'x' is not a whole number; write decimal digits without "
		        "leading zeros" },
		{ "numbers:\n- 1\n-\n", "t:3:2: numbers[1]: null stands in a list; leave the entry out" },
		{ "children:\n- deeper:\n    children:\n    - {}\n    - {name: [a]}\n",
		        "t:5:14: children[0].deeper.children[1].name: a list stands where text is expected" },
		{ "labels: [a]", "t:1:9: labels: a list stands where a mapping is expected" },
		{ "labels: {a: 1}",
		        "t:1:13: labels[\"a\"]: a number stands where text is expected; write it in "
		        "quotes: \"1\"" },
		{ "labels: {a: }",
		        "t:1:13: labels[\"a\"]: null stands where a value is expected; leave the key out" },
		{ "byNumber: {x: {}}",
		        "t:1:12: byNumber[\"x\"]: 'x' is not a whole number; write decimal digits "
		        "without leading zeros" },
		{ "byTruth: {maybe: RED}",
		        "t:1:11: byTruth[\"maybe\"]: 'maybe' is not a key of this map; keys are true and "
		        "false" },
		{ "pickChild: {name: [a]}\n",
		        "t:1:19: pickChild.name: a list stands where text is expected" },
		{ "a\nb", "t:1:1: text stands where a mapping is expected" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++)
		refused(CASES[i].text, CASES[i].problem);
}

static void all_mistakes_are_told_and_twenty_shown(void **state)
{
	CLEANUP_PROBLEMS struct problems problems = { .file = "t" };
	CLEANUP_FREE char *text = NULL, *told = NULL;
	ProtobufCMessage *message = NULL;
	size_t n;
	FILE *f = open_memstream(&text, &n);

	(void)state;
	(void)fputs("children:\n", f);
	for (int i = 0; i < 10001; i++)
		(void)fputs("- {nam: x}\n", f);
	(void)fclose(f);
	assert_int_equal(
	        proto_read(text, n, &bc__text_sample__sample__descriptor, &message, &problems), -EINVAL);
	assert_int_equal(problems.n, 10001);
	told = problems_text(&problems);
	assert_non_null(strstr(told,
	        "t:21:4: children[19]: unknown key 'nam' in Child, did you mean 'name'?\nand 9981 more"));
}

static void a_part_of_a_document_keeps_its_path(void **state)
{
	CLEANUP_PROBLEMS struct problems problems = { .file = "t" };
	CLEANUP(doc) struct doc *doc = NULL;
	ProtobufCMessage *message = NULL;
	const char *text = "outer:\n  i32: x\n";

	(void)state;
	assert_int_equal(doc_parse(text, strlen(text), &doc, &problems), 0);
	assert_int_equal(proto_read_node(doc_get(doc_root(doc), "outer"), "outer",
	                         &bc__text_sample__sample__descriptor, &message, &problems),
	        -EINVAL);
	assert_string_equal(problems.texts[0],
	        "t:2:8: outer.i32: 'x' is not a whole number; write decimal digits without leading zeros");
}

TEST_SUITE(proto_read_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_shape_is_read),
		cmocka_unit_test(presence_is_kept),
		cmocka_unit_test(mistakes_are_told_with_place_path_and_remedy),
		cmocka_unit_test(all_mistakes_are_told_and_twenty_shown),
		cmocka_unit_test(a_part_of_a_document_keeps_its_path),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
