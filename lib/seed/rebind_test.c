#include "lib/seed/rebind.h"

#include "lib/base/cleanup.h"
#include "lib/base/sandbox_test.h"
#include "tests/harness/suite.h"
#include "tests/harness/timeout.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include <cmocka.h>

#define REF "vault:host/17 é"

static void disk_make(void **state, const char *ref, const char *payload)
{
	CLEANUP(secret) struct secret *secret = NULL;

	assert_int_equal(secret_new(payload, strlen(payload), &secret), 0);
	assert_int_equal(
	        rebind_disk_write(SANDBOX_PATH(state, "disk"), ref, secret, FILE_PERM(0660), NULL), 0);
}

static void answer_put(const char *path, const char *text)
{
	CLEANUP_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);
	char block[REBIND_BLOCK_BYTES] = { 0 };

	(void)snprintf(block, sizeof(block), "%s", text);
	assert_int_equal(pwrite(fd, block, sizeof(block), REBIND_BLOCK_BYTES), sizeof(block));
}

static void disk_is_as_documented(void **state)
{
	char block[REBIND_BLOCK_BYTES];
	struct stat st;

	disk_make(state, REF, "secret words");
	CLEANUP_CLOSE int fd = open(SANDBOX_PATH(state, "disk"), O_RDONLY | O_CLOEXEC);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 128 * 1024);
	assert_int_equal(st.st_mode & 07777, 0660);
	assert_int_equal(pread(fd, block, sizeof(block), 0), sizeof(block));
	assert_string_equal(block, "bc-rebind 1\nref=" REF "\npayload-offset=8192\npayload-bytes=12\n");
	assert_int_equal(pread(fd, block, 13, 8192), 13);
	assert_string_equal(block, "secret words");
	assert_int_equal(pread(fd, block, sizeof(block), 4096), sizeof(block));
	assert_int_equal(block[0], 0);
}

static void answers_are_told_apart(void **state)
{
	static const struct {
		const char *text;
		enum rebind_answer answer;
		const char *message;
	} cases[] = {
		{ "", REBIND_WAITING, "" },
		{ "bc-rebound 1\n", REBIND_WAITING, "" },
		{ "bc-rebound 1\nref=" REF, REBIND_WAITING, "" }, /* half a write */
		{ "bc-rebound 1\nref=" REF "\n", REBIND_DONE, "" },
		{ "bc-rebound 1\nref=" REF "\nmore=1\n", REBIND_DONE, "" },
		{ "bc-rebound 1\nref=other\n", REBIND_WAITING, "" },
		{ "bc-rebound 1\nref=" REF " \n", REBIND_WAITING, "" },
		{ "bc-rebound 2\nref=" REF "\n", REBIND_WAITING, "" },
		{ "bc-rebind-refused 1\nref=" REF "\n", REBIND_REFUSED, "" },
		{ "bc-rebind-refused 1\nref=" REF "\nmessage=no \033[31mkeys\n", REBIND_REFUSED,
		        "no ?[31mkeys" },
	};
	char message[REBIND_MESSAGE_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint8_t block[REBIND_BLOCK_BYTES] = { 0 };

		memcpy(block, cases[i].text, strlen(cases[i].text));
		assert_int_equal(rebind_answer_parse(block, REF, message), cases[i].answer);
		assert_string_equal(message, cases[i].message);
	}
	uint8_t full[REBIND_BLOCK_BYTES];
	memset(full, 'x', sizeof(full));
	assert_int_equal(rebind_answer_parse(full, REF, message), REBIND_WAITING);
	static const char refused[] = "bc-rebind-refused 1\nref=" REF "\nmessage=";
	memcpy(full, refused, sizeof(refused) - 1);
	assert_int_equal(rebind_answer_parse(full, REF, message), REBIND_REFUSED);
	memset(full, '\n', sizeof(full));
	assert_int_equal(rebind_answer_parse(full, REF, message), REBIND_WAITING);
}

static void *guest_answers(void *path)
{
	answer_put(path, "bc-rebound 1\nref=an older one\n");
	answer_put(path, "bc-rebound 1\nref=" REF "\n");
	return NULL;
}

static void wait_hears_the_guests_write(void **state)
{
	char *path = strdup(SANDBOX_PATH(state, "disk"));
	pthread_t guest;

	disk_make(state, REF, "");
	assert_int_equal(pthread_create(&guest, NULL, guest_answers, path), 0);
	assert_int_equal(rebind_disk_wait(path, REF, test_timeout_usec(TEST_SERVICE_SEC), -EBADF, NULL), 0);
	assert_int_equal(pthread_join(guest, NULL), 0);
	free(path);
}

static void wait_ends_in_every_other_way(void **state)
{
	CLEANUP_CLOSE int cancel = eventfd(1, EFD_CLOEXEC);
	struct err err = { 0 };

	disk_make(state, REF, "");
	assert_int_equal(rebind_disk_wait(SANDBOX_PATH(state, "disk"), REF, 1000, -EBADF, &err), -ETIMEDOUT);
	assert_non_null(strstr(err.text, "vault:host/17"));
	assert_int_equal(rebind_disk_wait(SANDBOX_PATH(state, "disk"), REF,
	                         test_timeout_usec(TEST_SERVICE_SEC), cancel, NULL),
	        -ECANCELED);
	answer_put(SANDBOX_PATH(state, "disk"), "bc-rebind-refused 1\nref=" REF "\nmessage=no keys\n");
	err = (struct err){ 0 };
	assert_int_equal(rebind_disk_wait(SANDBOX_PATH(state, "disk"), REF,
	                         test_timeout_usec(TEST_SERVICE_SEC), -EBADF, &err),
	        -EBADMSG);
	assert_non_null(strstr(err.text, "no keys"));
	assert_int_equal(rebind_disk_wait(SANDBOX_PATH(state, "gone"), REF, 1, -EBADF, NULL), -ENOENT);
}

static void refs_and_payloads_are_bounded(void **state)
{
	CLEANUP(secret) struct secret *secret = NULL;
	CLEANUP(secret) struct secret *large = NULL;
	char ref[REBIND_REF_MAX + 2] = { 0 };

	assert_int_equal(secret_new("x", 1, &secret), 0);
	assert_int_equal(secret_new_empty(REBIND_PAYLOAD_MAX + 1, &large), 0);
	const char *path = SANDBOX_PATH(state, "disk");
	memset(ref, 'r', REBIND_REF_MAX + 1);
	assert_int_equal(rebind_disk_write(path, ref, secret, FILE_PERM(0600), NULL), -EINVAL);
	assert_int_equal(rebind_disk_write(path, "", secret, FILE_PERM(0600), NULL), -EINVAL);
	assert_int_equal(rebind_disk_write(path, "a\nb", secret, FILE_PERM(0600), NULL), -EINVAL);
	assert_int_equal(rebind_disk_write(path, "a", large, FILE_PERM(0600), NULL), -EINVAL);
	assert_int_equal(access(path, F_OK), -1);
	ref[REBIND_REF_MAX] = 0;
	assert_int_equal(rebind_disk_write(path, ref, secret, FILE_PERM(0600), NULL), 0);
}

static void erased_disk_has_its_ref_and_no_payload(void **state)
{
	char header[64] = "", byte = 1;

	disk_make(state, REF, "secret words");
	assert_int_equal(rebind_disk_erase(SANDBOX_PATH(state, "disk")), 0);
	CLEANUP_CLOSE int fd = open(SANDBOX_PATH(state, "disk"), O_RDONLY | O_CLOEXEC);
	assert_true(pread(fd, header, sizeof(header) - 1, 0) > 0);
	assert_non_null(strstr(header, "ref=" REF "\n"));
	assert_int_equal(pread(fd, &byte, 1, 8192), 1);
	assert_int_equal(byte, 0);
	assert_int_equal(rebind_disk_remove(SANDBOX_PATH(state, "disk")), 0);
	assert_int_equal(rebind_disk_erase(SANDBOX_PATH(state, "disk")), 0);
}

static void removed_disk_has_no_payload_left(void **state)
{
	char byte = 1;

	disk_make(state, REF, "secret words");
	CLEANUP_CLOSE int fd = open(SANDBOX_PATH(state, "disk"), O_RDONLY | O_CLOEXEC);
	assert_int_equal(rebind_disk_remove(SANDBOX_PATH(state, "disk")), 0);
	assert_int_equal(access(SANDBOX_PATH(state, "disk"), F_OK), -1);
	assert_int_equal(pread(fd, &byte, 1, 8192), 1);
	assert_int_equal(byte, 0);
	assert_int_equal(rebind_disk_remove(SANDBOX_PATH(state, "disk")), 0);
}

#define SANDBOXED(test) cmocka_unit_test_setup_teardown(test, sandbox_setup, sandbox_teardown)

TEST_SUITE(rebind_test)
{
	const struct CMUnitTest tests[] = {
		SANDBOXED(disk_is_as_documented),
		cmocka_unit_test(answers_are_told_apart),
		SANDBOXED(wait_hears_the_guests_write),
		SANDBOXED(wait_ends_in_every_other_way),
		SANDBOXED(refs_and_payloads_are_bounded),
		SANDBOXED(erased_disk_has_its_ref_and_no_payload),
		SANDBOXED(removed_disk_has_no_payload_left),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
