#include "svc-converger/transfer/wire.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct transfer_order sample(void)
{
	struct transfer_order order = {
		.offset = 10,
		.size_bytes = UINT64_MAX,
		.max_bytes = 4096,
		.digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
		.stall_sec = 60,
	};

	(void)strcpy(order.url, "https://host/a b?x=1&y");
	return order;
}

static void orders_come_back_as_they_were(void **state)
{
	struct transfer_order order = sample(), back;
	char text[TRANSFER_ORDER_TEXT_MAX];

	(void)state;
	for (int upload = 0; upload < 2; upload++) {
		order.upload = upload != 0;
		assert_int_equal(transfer_order_write(&order, text), 0);
		assert_int_equal(transfer_order_read(text, &back), 0);
		assert_memory_equal(&order, &back, sizeof(order));
		(void)strcpy(order.ca_path, "/a/b.pem");
	}
	/* the longest of everything fits */
	memset(order.url, 'u', sizeof(order.url) - 1);
	memset(order.ca_path, 'c', sizeof(order.ca_path) - 1);
	order.offset = order.max_bytes = UINT64_MAX;
	order.stall_sec = UINT64_MAX;
	assert_int_equal(transfer_order_write(&order, text), 0);
	assert_int_equal(transfer_order_read(text, &back), 0);
	assert_memory_equal(&order, &back, sizeof(order));
}

static void a_line_break_smuggles_nothing_in(void **state)
{
	struct transfer_order order = sample();
	char text[TRANSFER_ORDER_TEXT_MAX];

	(void)state;
	(void)strcpy(order.url, "https://host/\nca /etc/evil");
	assert_int_equal(transfer_order_write(&order, text), -EINVAL);
}

static void cut_or_changed_orders_are_refused(void **state)
{
	struct transfer_order order = sample(), back;
	char text[TRANSFER_ORDER_TEXT_MAX], cut[TRANSFER_ORDER_TEXT_MAX];

	(void)state;
	assert_int_equal(transfer_order_write(&order, text), 0);
	for (size_t n = 0; n < strlen(text); n++) {
		memcpy(cut, text, n);
		cut[n] = '\0';
		assert_int_equal(transfer_order_read(cut, &back), -EINVAL);
	}
	assert_int_equal(transfer_order_read(strcat(text, "x"), &back), -EINVAL);
	order.url[10] = 'R';
	assert_int_equal(transfer_order_write(&order, text), 0);
	*strchr(text, 'R') = '\r';
	assert_int_equal(transfer_order_read(text, &back), -EINVAL);
}

static void reports_come_back_as_they_were(void **state)
{
	static const struct transfer_report TABLE[] = {
		{ .kind = TRANSFER_PROGRESS, .done_bytes = 0, .total_bytes = 0 },
		{ .kind = TRANSFER_PROGRESS, .done_bytes = UINT64_MAX, .total_bytes = UINT64_MAX },
		{ .kind = TRANSFER_DONE, .done_bytes = 7 },
		{ .kind = TRANSFER_FAILED, .r = -ENOSPC, .text = "the disk is full" },
		{ .kind = TRANSFER_FAILED, .r = -EACCES, .permanent = true, .text = "403: no" },
		{ .kind = TRANSFER_FAILED, .r = -EIO, .text = "" },
	};
	char line[TRANSFER_LINE_MAX];
	struct transfer_report back;

	(void)state;
	for (size_t i = 0; i < sizeof(TABLE) / sizeof(TABLE[0]); i++) {
		transfer_report_write(&TABLE[i], line);
		char *end = strchr(line, '\n');

		assert_non_null(end);
		assert_int_equal(end[1], '\0');
		*end = '\0';
		assert_int_equal(transfer_report_read(line, &back), 0);
		assert_int_equal(back.kind, TABLE[i].kind);
		assert_int_equal(back.done_bytes, TABLE[i].done_bytes);
		assert_int_equal(back.total_bytes, TABLE[i].total_bytes);
		assert_int_equal(back.r, TABLE[i].r);
		assert_int_equal(back.permanent, TABLE[i].permanent);
		assert_string_equal(back.text, TABLE[i].text);
	}
}

static void a_report_is_one_line(void **state)
{
	struct transfer_report report = { .kind = TRANSFER_FAILED, .r = -EIO, .text = "a\ndone 5\r" };
	char line[TRANSFER_LINE_MAX];

	(void)state;
	transfer_report_write(&report, line);
	assert_string_equal(line, "failed 5 0 a done 5 \n");
}

static void other_lines_are_refused(void **state)
{
	static const char *const LINES[] = { "", "done", "done ", "done x", "done -1", "progress 1",
		"progress 1 ", "progress x 1", "progress 1 2 3", "failed", "failed x", "failed 0 0 x",
		"failed -5 0 x", "failed 5", "failed 9999 0 x", "progress 99999999999999999999 1",
		"progress 000000000000000000000000000000000000000000000000000001 1", "hello" };
	struct transfer_report back;

	(void)state;
	for (size_t i = 0; i < sizeof(LINES) / sizeof(LINES[0]); i++)
		if (transfer_report_read(LINES[i], &back) != -EINVAL &&
		        transfer_report_read(LINES[i], &back) != -ERANGE)
			fail_msg("'%s' was taken", LINES[i]);
}

static void a_signed_url_is_not_shown(void **state)
{
	char buf[64];

	(void)state;
	assert_string_equal(transfer_url_shown("https://h/a?sig=x#y", buf, sizeof(buf)), "https://h/a");
	assert_string_equal(transfer_url_shown("file:///a", buf, sizeof(buf)), "file:///a");
}

TEST_SUITE(wire_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(orders_come_back_as_they_were),
		cmocka_unit_test(a_line_break_smuggles_nothing_in),
		cmocka_unit_test(cut_or_changed_orders_are_refused),
		cmocka_unit_test(reports_come_back_as_they_were),
		cmocka_unit_test(a_report_is_one_line),
		cmocka_unit_test(other_lines_are_refused),
		cmocka_unit_test(a_signed_url_is_not_shown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
