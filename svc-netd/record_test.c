#include "svc-netd/record.h"

#include "svc-netd/nic_filter.h"

#include "lib/base/cleanup.h"
#include "lib/base/sandbox_test.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define NIC "bc0123456789n0"
#define HEAD "bc-netd-elements 1\n"

static struct elements sample(void)
{
	static const struct mac mac = { { 0x52, 0x54, 0, 0, 0, 1 } };
	struct nic_filter filter = {
		.policy = NIC_POLICY_PRIVATE, .n_prefixes = 1, .ssh_from_host_only = true
	};
	struct publication p = { .protocol = IPPROTO_TCP,
		.any = true,
		.host_port = 8080,
		.guest = { .family = AF_INET, .bytes = { 10, 0, 0, 5 }, .n_bits = 32 },
		.guest_port = 80 };
	struct element e = element_publication(&p);
	struct elements elements = { 0 };

	filter.prefixes[0] = (struct ip){ .family = AF_INET, .bytes = { 10 }, .n_bits = 8 };
	assert_int_equal(nic_filter_elements(NIC, &mac, &filter, &elements, NULL), 0);
	elements_add(&elements, &e);
	assert_int_equal(elements_finish(&elements), 0);
	return elements;
}

static void what_is_written_is_read(void **state)
{
	CLEANUP_CLOSE int fd = open(*state, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	struct elements elements = sample(), back = { 0 };

	assert_int_equal(record_read(fd, NIC, &back), -ENOENT);
	assert_int_equal(record_write(fd, NIC, &elements), 0);
	assert_int_equal(record_write(fd, NIC, &elements), 0);
	assert_int_equal(record_read(fd, NIC, &back), 0);
	assert_true(elements_equal(&elements, &back));
	elements_done(&back);
	/* Another NIC's name does not make them its own. */
	assert_int_equal(renameat(fd, NIC, fd, "bc0123456789n1"), 0);
	assert_int_equal(record_read(fd, "bc0123456789n1", &back), -EINVAL);
	record_remove(fd, "bc0123456789n1");
	record_remove(fd, "bc0123456789n1");
	assert_int_equal(record_read(fd, "bc0123456789n1", &back), -ENOENT);
	elements_done(&elements);
}

static void anything_else_is_refused(void **state)
{
	static const char *const others[] = {
		"",
		"bc-netd-elements 2\n",
		HEAD "bridge nics 6263303132333435363738396e300000", /* cut */
		HEAD "bridge nics 6263303132333435363738396e30000 \n",
		HEAD "bridge nics 6263303132333435363738396E300000 \n",
		HEAD "bridge nics 6263303132333435363738396e310000 \n", /* of another NIC */
		HEAD "bridge nics 6263303132333435363738396e300000 00\n",
		HEAD "bridge published4 6263303132333435363738396e300000 \n",
		HEAD "other nics 6263303132333435363738396e300000 \n",
		HEAD "\n",
		HEAD "bridge\n",
	};
	struct elements back;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		assert_int_equal(record_parse(others[i], NIC, &back), -EINVAL);
	assert_int_equal(record_parse(HEAD "bridge nics 6263303132333435363738396e300000 \n", NIC, &back), 0);
	assert_int_equal(back.n, 1);
	elements_done(&back);
}

static bool is_nic(const char *ifname, void *userdata)
{
	(void)userdata;
	return strcmp(ifname, NIC) == 0;
}

static void records_of_nothing_are_swept(void **state)
{
	CLEANUP_CLOSE int fd = open(*state, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	static const char *const gone[] = { "bc0123456789n1", "." NIC ".tmp" };
	static const char *const kept[] = { NIC, "stranger", ".stranger.tmp", "bc0123456789n1.bak" };
	struct elements elements = sample();

	assert_int_equal(record_write(fd, NIC, &elements), 0);
	for (size_t i = 0; i < ARRAY_SIZE(gone); i++)
		(void)close(openat(fd, gone[i], O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	for (size_t i = 1; i < ARRAY_SIZE(kept); i++)
		(void)close(openat(fd, kept[i], O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	record_sweep(fd, is_nic, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(gone); i++)
		assert_int_equal(faccessat(fd, gone[i], F_OK, 0), -1);
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		assert_int_equal(faccessat(fd, kept[i], F_OK, 0), 0);
	elements_done(&elements);
}

TEST_SUITE(record_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_written_is_read, sandbox_setup, sandbox_teardown),
		cmocka_unit_test(anything_else_is_refused),
		cmocka_unit_test_setup_teardown(
		        records_of_nothing_are_swept, sandbox_setup, sandbox_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
