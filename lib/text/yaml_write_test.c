#include "lib/text/yaml_write.h"

#include "lib/base/cleanup.h"
#include "tests/harness/suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void texts_that_look_like_something_else_are_known(void **state)
{
	static const char *const AMBIGUOUS[] = { "", "~", "null", "Null", "true", "FALSE", "yes", "No", "on",
		"OFF", "y", "N", "1", "-1", "+1", "007", "1.5", "1e3", "-1.5E-3", ".5", "0x1f", "0b01",
		"0o17", "1_000", "12:30:45", ".inf", "-.Inf", ".NaN", "2024-02-29", "2024-02-29T12:00:00Z",
		"<<", "=" };
	static const char *const CLEAR[] = { "nullable", "6f1c0d8e-3a52-4a57-9d3b-0c2f7f1f5b11",
		"02:1a:2b:3c:4d:5e", "1x", "v1.2.3", "10.0.0.1/24", "RUNNING", "1e", "-", "2024-02",
		"sha256:00", "yess" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(AMBIGUOUS); i++)
		if (!yaml_text_is_ambiguous(AMBIGUOUS[i]))
			fail_msg("'%s' should be ambiguous", AMBIGUOUS[i]);
	for (size_t i = 0; i < ARRAY_SIZE(CLEAR); i++)
		if (yaml_text_is_ambiguous(CLEAR[i]))
			fail_msg("'%s' should be clear", CLEAR[i]);
}

static void it_is_written_for_people(void **state)
{
	json_t *tree = json_loads(
	        "{\"name\":\"web\",\"id\":\"12\",\"num\":12,\"r\":0.5,\"t\":true,\"z\":null,"
	        "\"list\":[\"a\",{\"b\":[]}],\"o\":{},\"text\":\"one\\ntwo\\n\",\"odd\":\"a: b # c\","
	        "\"ü\":\"größe\"}",
	        0, NULL);
	CLEANUP_FREE char *text = NULL;

	(void)state;
	assert_non_null(tree);
	assert_int_equal(yaml_text(tree, &text), 0);
	assert_string_equal(text,
	        "name: web\nid: \"12\"\nnum: 12\nr: 0.5\nt: true\nz: null\nlist:\n- a\n- b: []\no: {}\n"
	        "text: |\n  one\n  two\nodd: 'a: b # c'\nü: größe\n");
	json_decref(tree);
}

TEST_SUITE(yaml_write_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts_that_look_like_something_else_are_known),
		cmocka_unit_test(it_is_written_for_people),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
