#include "lib/text/document.h"
#include "tests/harness/suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct doc *parsed(const char *text)
{
	CLEANUP_PROBLEMS struct problems problems = { .file = "t" };
	struct doc *doc = NULL;
	int r = doc_parse(text, strlen(text), &doc, &problems);

	if (r < 0)
		fail_msg("refused: %s", problems.texts[0]);
	return doc;
}

static void refused_n(const char *text, size_t n, const char *problem)
{
	CLEANUP_PROBLEMS struct problems problems = { .file = "t" };
	CLEANUP(doc) struct doc *doc = NULL;

	assert_int_equal(doc_parse(text, n, &doc, &problems), -EINVAL);
	assert_null(doc);
	assert_true(problems.n >= 1);
	assert_string_equal(problems.texts[0], problem);
}

static void refused(const char *text, const char *problem)
{
	refused_n(text, strlen(text), problem);
}

static const struct doc_node *at(const struct doc *doc, const char *key)
{
	const struct doc_node *node = doc_get(doc_root(doc), key);

	assert_non_null(node);
	return node;
}

static void scalars_have_the_kinds_of_the_core_schema(void **state)
{
	CLEANUP(doc)
	struct doc *doc = parsed("null1: null\nnull2: ~\nnull3:\ntrue1: true\nyes: yes\non: on\n"
	                         "n1: -12.5e+3\nn2: 0\ns1: 0123\ns2: 0x1f\ns3: '12'\ns4: 12:30\ns5: +1\n"
	                         "s6: .5\ns7: \"true\"\ns8: ''\ns9: True\n");
	static const struct {
		const char *key;
		enum doc_kind kind;
	} CASES[] = { { "null1", DOC_NULL }, { "null2", DOC_NULL }, { "null3", DOC_NULL },
		{ "true1", DOC_BOOL }, { "yes", DOC_STRING }, { "on", DOC_STRING }, { "n1", DOC_NUMBER },
		{ "n2", DOC_NUMBER }, { "s1", DOC_STRING }, { "s2", DOC_STRING }, { "s3", DOC_STRING },
		{ "s4", DOC_STRING }, { "s5", DOC_STRING }, { "s6", DOC_STRING }, { "s7", DOC_STRING },
		{ "s8", DOC_STRING }, { "s9", DOC_STRING } };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++)
		if (at(doc, CASES[i].key)->kind != CASES[i].kind)
			fail_msg("%s is %s", CASES[i].key, doc_kind_text(at(doc, CASES[i].key)->kind));
	assert_string_equal(at(doc, "n1")->text, "-12.5e+3");
	assert_null(doc_get(doc_root(doc), "none"));
	assert_null(doc_get(NULL, "none"));
	assert_null(doc_get(at(doc, "n1"), "none"));
}

static void positions_are_those_of_the_text(void **state)
{
	CLEANUP(doc) struct doc *doc = parsed("# first\nlist:\n  - é: 1\n    key: [a, b]\n  - x\n");
	const struct doc_node *list = at(doc, "list");

	(void)state;
	assert_int_equal(list->n_items, 2);
	assert_int_equal(list->key_line, 2);
	assert_int_equal(list->line, 3);
	assert_int_equal(list->column, 3);
	const struct doc_node *key = doc_get(list->first, "key");
	assert_int_equal(key->key_line, 4);
	assert_int_equal(key->key_column, 5);
	assert_int_equal(key->first->next->column, 14);
	assert_int_equal(list->first->next->line, 5);
}

static void json_is_read_with_all_its_escapes(void **state)
{
	CLEANUP(doc)
	struct doc *doc = parsed(
	        "\t{\"a\":\"\\/\\ud83d\\ude00\\u0041\\n\\t\\b\\f\\r\\\"\\\\\",\n\t\"b\":[1,2.5,true,null],"
	        "\"nul\":\"x\\u0000y\" ,\"empty\":{},\"deep\":{\"x\":[[]]}}\n");
	const struct doc_node *b = at(doc, "b");

	(void)state;
	assert_string_equal(at(doc, "a")->text, "/😀A\n\t\b\f\r\"\\");
	assert_int_equal(b->n_items, 4);
	assert_int_equal(b->first->kind, DOC_NUMBER);
	assert_int_equal(b->first->next->next->kind, DOC_BOOL);
	assert_int_equal(b->first->next->next->next->kind, DOC_NULL);
	assert_int_equal(at(doc, "nul")->n_text, 3);
	assert_memory_equal(at(doc, "nul")->text, "x\0y", 4);
	assert_int_equal(at(doc, "empty")->kind, DOC_MAP);
}

static void what_is_not_plain_data_is_refused_with_its_place(void **state)
{
	(void)state;
	refused("", "t:1:1: the text is empty");
	refused("# only a comment\n", "t:1:1: the text is empty");
	refused("a: &x 1\nb: *x\n",
	        "t:1:4: anchors ('&x') are not supported; write the value out where it is used");
	refused("a: *x\n", "t:1:4: aliases ('*x') are not supported; write the value out");
	refused("a: 1\nb: !!str 2\n",
	        "t:2:4: tags ('!x') are not supported; the field says what its type is");
	refused("a: 1\n---\nb: 2\n", "t:2:1: a second document starts here; one is expected");
	refused("? [a]\n: b\n", "t:1:3: a list or mapping stands where a key is expected; keys are text");
	refused("a: 1\nb: 2\na: 3\n", "t:3:1: key 'a' is given twice, first at line 1; remove one");
	refused("{\"a\":1,\"x\":\"\\/\",\"a\":2}",
	        "t:1:17: key 'a' is given twice, first at line 1; remove one");
	refused("a: [1, 2\nb: 3\n",
	        "t:2:2: did not find expected ',' or ']', while parsing a flow sequence that began at "
	        "line 1");
	refused("a: \"\\q\"\n",
	        "t:1:5: found unknown escape character, while parsing a quoted scalar that began at line 1");
	refused("{\"a\": \"\\ud83d\"}",
	        "t:1:10: found invalid Unicode character escape code, while parsing a quoted scalar that "
	        "began at line 1");
	refused("a: é\nb: \xff\n",
	        "t:2:4: invalid leading UTF-8 octet; the text must be UTF-8 without control characters");
	refused("a: b\x01\n",
	        "t:1:5: control characters are not allowed; the text must be UTF-8 without control "
	        "characters");
	refused_n("a: b\0", 5,
	        "t:1:5: control characters are not allowed; the text must be UTF-8 without control "
	        "characters");
}

static void all_doubled_keys_are_told_at_once(void **state)
{
	CLEANUP_PROBLEMS struct problems problems = { 0 };
	const char *text = "a: {x: 1, x: 2}\nb: {y: 1, y: 2, y: 3}\n";
	struct doc *doc = NULL;

	(void)state;
	assert_int_equal(doc_parse(text, strlen(text), &doc, &problems), -EINVAL);
	assert_int_equal(problems.n, 3);
	assert_string_equal(
	        problems.texts[2], "input:2:17: key 'y' is given twice, first at line 2; remove one");
}

static void bounds_hold(void **state)
{
	CLEANUP_FREE char *text = malloc(TEXT_SIZE_MAX + 2);
	char deep[2 * DOC_DEPTH_MAX + 8];

	(void)state;
	assert_non_null(text);
	memset(text, ' ', TEXT_SIZE_MAX + 1);
	refused_n(text, TEXT_SIZE_MAX + 1, "t: the text has 4194305 bytes; at most 4194304 are read");

	memset(deep, '[', DOC_DEPTH_MAX);
	memset(deep + DOC_DEPTH_MAX, ']', DOC_DEPTH_MAX);
	deep[2 * DOC_DEPTH_MAX] = '\0';
	struct doc *doc = parsed(deep);
	doc = doc_free(doc);
	memset(deep, '[', DOC_DEPTH_MAX + 1);
	refused(deep, "t:1:65: the text is nested deeper than 64 levels");
	memset(text, '[', TEXT_SIZE_MAX);
	refused_n(text, TEXT_SIZE_MAX, "t:1:65: the text is nested deeper than 64 levels");

	size_t n = 0;
	text[n++] = '[';
	for (size_t i = 0; i < DOC_NODES_MAX; i++) {
		text[n++] = '1';
		text[n++] = ',';
	}
	text[n - 1] = ']';
	refused_n(text, n, "t:1:1000000: the text has more than 500000 values; split it");
}

static void twenty_problems_are_kept_and_all_are_counted(void **state)
{
	CLEANUP_PROBLEMS struct problems problems = { .file = "f" };
	struct err err = { 0 };

	(void)state;
	assert_int_equal(problems_to_err(&problems, &err), 0);
	CLEANUP_FREE char *none = problems_text(&problems);
	assert_string_equal(none, "");
	problems_add(&problems, 0, 0, "whole");
	assert_int_equal(problems_to_err(&problems, &err), -EINVAL);
	assert_string_equal(err.text, "f: whole");
	for (unsigned i = 1; i < 10001; i++)
		problems_add(&problems, i, 1, "bad");
	CLEANUP_FREE char *text = problems_text(&problems);
	assert_int_equal(strncmp(text, "f: whole\nf:1:1: bad\nf:2:1: bad\n", 31), 0);
	static const char END[] = "\nf:19:1: bad\nand 9981 more";
	assert_string_equal(text + strlen(text) - strlen(END), END);
	err = (struct err){ 0 };
	assert_int_equal(problems_to_err(&problems, &err), -EINVAL);
	assert_string_equal(err.text, "f: whole (and 10000 more)");
}

TEST_SUITE(document_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scalars_have_the_kinds_of_the_core_schema),
		cmocka_unit_test(positions_are_those_of_the_text),
		cmocka_unit_test(json_is_read_with_all_its_escapes),
		cmocka_unit_test(what_is_not_plain_data_is_refused_with_its_place),
		cmocka_unit_test(all_doubled_keys_are_told_at_once),
		cmocka_unit_test(bounds_hold),
		cmocka_unit_test(twenty_problems_are_kept_and_all_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
