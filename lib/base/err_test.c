#include "lib/base/err.h"

#include "lib/base/utf8.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void err_keeps_its_first_cause(void **state)
{
	struct err err = { 0 };

	(void)state;
	assert_int_equal(err_set(&err, -ENOENT, "no file '%s'", "a"), -ENOENT);
	assert_int_equal(err_set(&err, -EIO, "later"), -EIO);
	assert_int_equal(err.code, -ENOENT);
	assert_string_equal(err_text(&err, -EIO), "no file 'a'");
}

static void err_wrap_puts_context_in_front(void **state)
{
	struct err err = { 0 };

	(void)state;
	(void)err_set(&err, -ENOENT, "no file");
	assert_int_equal(err_wrap(&err, "volume %d", 3), -ENOENT);
	assert_string_equal(err.text, "volume 3: no file");
}

static void err_cuts_long_texts_visibly(void **state)
{
	char text[2 * ERR_TEXT_MAX];
	struct err err = { 0 };

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	(void)err_set(&err, -EINVAL, "%s", text);
	assert_int_equal(strlen(err.text), ERR_TEXT_MAX - 1);
	assert_string_equal(err.text + ERR_TEXT_MAX - 1 - strlen("…"), "…");
	(void)err_wrap(&err, "context");
	assert_memory_equal(err.text, "context: xxx", 12);
	assert_string_equal(err.text + ERR_TEXT_MAX - 1 - strlen("…"), "…");
}

static void err_cuts_between_characters(void **state)
{
	char text[2 * ERR_TEXT_MAX];

	(void)state;
	for (size_t pad = 0; pad < 4; pad++) {
		struct err err = { 0 };

		memset(text, 'x', pad);
		text[pad] = '\0';
		while (strlen(text) + strlen("😀") < sizeof(text))
			strcat(text, "😀");
		(void)err_set(&err, -EINVAL, "%s", text);
		assert_true(utf8_is_valid(err.text, strlen(err.text)));
		(void)err_wrap(&err, "context");
		assert_true(utf8_is_valid(err.text, strlen(err.text)));
		assert_string_equal(err.text + strlen(err.text) - strlen("…"), "…");
	}
}

static void err_without_words_says_the_errno(void **state)
{
	struct err err = { 0 };

	(void)state;
	assert_string_equal(err_text(NULL, -ENOENT), strerror(ENOENT));
	assert_string_equal(err_text(&err, -EIO), strerror(EIO));
	assert_int_equal(err_set(NULL, -EIO, "unheard"), -EIO);
}

TEST_SUITE(err_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(err_keeps_its_first_cause),
		cmocka_unit_test(err_wrap_puts_context_in_front),
		cmocka_unit_test(err_cuts_long_texts_visibly),
		cmocka_unit_test(err_cuts_between_characters),
		cmocka_unit_test(err_without_words_says_the_errno),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
