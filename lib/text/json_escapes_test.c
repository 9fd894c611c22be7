#include "lib/text/json_escapes.h"

#include "lib/base/cleanup.h"
#include "tests/harness/suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void rewrites(const char *text, const char *expected)
{
	CLEANUP_FREE char *out = NULL;
	struct json_edits edits;
	size_t n;

	assert_int_equal(json_escapes_rewrite(text, strlen(text), &out, &n, &edits), 0);
	assert_string_equal(out ? out : text, expected);
	if (out)
		assert_int_equal(n, strlen(expected));
	json_edits_done(&edits);
}

static void both_escapes_go_inside_double_quotes_only(void **state)
{
	(void)state;
	rewrites("{\"a\":\"x\\/y\"}", "{\"a\":\"x/y\"}");
	rewrites("[\"\\ud83d\\ude00\\uD83D\\uDE01!\"]", "[\"😀😁!\"]");
	rewrites("[\"\\\\/ \\\\\\/ \\\"\\/\"]", "[\"\\\\/ \\\\/ \\\"/\"]");
	rewrites(" \n[\"\\/\"]", " \n[\"/\"]");
	/* Halves, and what only looks like a pair, are left for libyaml to refuse. */
	rewrites("[\"\\/\", \"\\ud83d\", \"\\ud83dx\\ude00\", \"\\ude00\\ud83d\"]",
	        "[\"/\", \"\\ud83d\", \"\\ud83dx\\ude00\", \"\\ude00\\ud83d\"]");
	rewrites("[\"\\ud83d\\ude0", "[\"\\ud83d\\ude0");
	rewrites("[\"\\/\\", "[\"/\\");
}

static void characters_that_yaml_wants_escaped_are(void **state)
{
	(void)state;
	rewrites("[\"a\x7f\xc2\x85\xc2\xa0\"]", "[\"a\\u007f\\u0085\xc2\xa0\"]");
	rewrites("[\"\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa\"]", "[\"\\u2028\\u2029\xe2\x80\xaa\"]");
	rewrites("[\"\xef\xbb\xbf\xef\xbf\xbe\xef\xbf\xbf\xef\xbf\xbd\"]",
	        "[\"\\ufeff\\ufffe\\uffff\xef\xbf\xbd\"]");
	/* Malformed ones are left for libyaml to refuse. */
	rewrites("[\"\xef\xbf\xff\"]", "[\"\xef\xbf\xff\"]");
	rewrites("[\"\xc2", "[\"\xc2");
	rewrites("[\"\xe2\x80", "[\"\xe2\x80");
}

static void other_contexts_are_left_alone(void **state)
{
	(void)state;
	rewrites("a: \"x\\/y\"", "a: \"x\\/y\"");
	rewrites("['a\"\\/\"', \"\\/\"]", "['a\"\\/\"', \"/\"]");
	rewrites("['it''s \"\\/\"', \"\\/\"]", "['it''s \"\\/\"', \"/\"]");
	rewrites("{a: b\"\\/\", \"c\":\"\\/\"}", "{a: b\"\\/\", \"c\":\"/\"}");
	rewrites("{a: x:\"\\/\", b: \"\\/\"}", "{a: x:\"\\/\", b: \"/\"}");
	rewrites("[ # it's, \"\\/\n\"\\/\"]", "[ # it's, \"\\/\n\"/\"]");
	rewrites("[\"a\" # \"\\/\n, \"\\/\"]", "[\"a\" # \"\\/\n, \"/\"]");
}

static void tabs_between_tokens_become_spaces(void **state)
{
	(void)state;
	rewrites("\t{\t\"a\tb\"\t:\t[\t1\t]\n\t}\n\t", " { \"a\tb\" : [ 1\t]\n }\n ");
	rewrites("{a\tb: 'c\td'}", "{a\tb: 'c\td'}");
}

static void columns_are_those_of_the_original(void **state)
{
	/*                   1234567890123456 */
	const char *text = "[\"\\/\\/\",7,\"\\/\",8,\n9,\"\\ud83d\\ude00é\\/\x7f\",5]";
	CLEANUP_FREE char *out = NULL;
	struct json_cursor cursor = { 0 };
	struct json_edits edits;
	size_t n;

	(void)state;
	assert_int_equal(json_escapes_rewrite(text, strlen(text), &out, &n, &edits), 0);
	assert_string_equal(out, "[\"//\",7,\"/\",8,\n9,\"😀é/\\u007f\",5]");
	assert_int_equal(json_edits_column(&edits, &cursor, 1, 2), 2);
	assert_int_equal(json_edits_column(&edits, &cursor, 1, 7), 9);
	assert_int_equal(json_edits_column(&edits, &cursor, 1, 13), 16);
	assert_int_equal(json_edits_column(&edits, &cursor, 2, 1), 1);
	assert_int_equal(json_edits_column(&edits, &cursor, 2, 15), 22);
	assert_int_equal(json_edits_column(&edits, &cursor, 3, 1), 1);
	/* Going back is right too. */
	assert_int_equal(json_edits_column(&edits, &cursor, 1, 7), 9);
	assert_int_equal(json_edits_column(&edits, &cursor, 1, 2), 2);
	json_edits_done(&edits);
}

TEST_SUITE(json_escapes_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_escapes_go_inside_double_quotes_only),
		cmocka_unit_test(characters_that_yaml_wants_escaped_are),
		cmocka_unit_test(other_contexts_are_left_alone),
		cmocka_unit_test(tabs_between_tokens_become_spaces),
		cmocka_unit_test(columns_are_those_of_the_original),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
