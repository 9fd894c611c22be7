#include "lib/log/log.h"

#include "lib/base/cleanup.h"
#include "tests/harness/suite.h"

#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cmocka.h>

/* Stderr, led into a file for one test. */
struct capture {
	FILE *file;
	int old_stderr;
	char text[16384];
};

static int capture_setup(void **state)
{
	struct capture *c = calloc(1, sizeof(*c));

	(void)unsetenv("BC_LOG_LEVEL");
	(void)unsetenv("JOURNAL_STREAM");
	c->file = tmpfile();
	c->old_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
	(void)dup2(fileno(c->file), STDERR_FILENO);
	*state = c;
	return 0;
}

static int capture_teardown(void **state)
{
	struct capture *c = *state;

	(void)dup2(c->old_stderr, STDERR_FILENO);
	(void)close(c->old_stderr);
	(void)fclose(c->file);
	free(c);
	return 0;
}

/* What was logged so far, without the times. */
static const char *logged(struct capture *c)
{
	char line[16384];
	size_t n = 0;

	rewind(c->file);
	c->text[0] = '\0';
	while (fgets(line, sizeof(line), c->file)) {
		unsigned y, mo, d, h, mi, s, ms;
		int skip = 0;

		assert_int_equal(
		        sscanf(line, "%4u-%2u-%2uT%2u:%2u:%2u.%3uZ %n", &y, &mo, &d, &h, &mi, &s, &ms, &skip),
		        7);
		n += (size_t)snprintf(c->text + n, sizeof(c->text) - n, "%s", line + skip);
	}
	return c->text;
}

static void levels_decide_and_results_come_back(void **state)
{
	log_open("bc-test");
	assert_int_equal(log_err(-ENOENT, "cannot open '%s': %m", "a"), -ENOENT);
	assert_int_equal(log_warning(7, "warned"), 7);
	assert_int_equal(log_info("informed"), 0);
	assert_int_equal(log_debug("hidden"), 0);
	log_configure(LOG_WARNING);
	assert_false(log_shows(LOG_INFO));
	log_notice("hidden too");
	log_configure(LOG_DEBUG);
	log_debug("shown");
	assert_string_equal(logged(*state),
	        "ERROR   bc-test: cannot open 'a': No such file or directory\n"
	        "WARNING bc-test: warned\nINFO    bc-test: informed\nDEBUG   bc-test: shown\n");
}

static int evaluated(int *n)
{
	return ++*n;
}

static void hidden_debug_costs_no_evaluation(void **state)
{
	int n = 0;

	(void)state;
	log_open("bc-test");
	log_debug("%d", evaluated(&n));
	assert_int_equal(n, 0);
	log_configure(LOG_DEBUG);
	log_debug("%d", evaluated(&n));
	assert_int_equal(n, 1);
}

static void the_environment_has_the_last_word(void **state)
{
	assert_int_equal(setenv("BC_LOG_LEVEL", "error", 1), 0);
	log_open("bc-test");
	log_configure(LOG_DEBUG);
	log_info("hidden");
	assert_int_equal(setenv("BC_LOG_LEVEL", "loud", 1), 0);
	log_open("bc-test");
	log_configure(LOG_ERR);
	(void)log_warning(0, "hidden");
	assert_string_equal(logged(*state),
	        "WARNING bc-test: BC_LOG_LEVEL=loud is no level; one of: error, warning, notice, info, "
	        "debug\n");
}

static void fields_follow_and_foreign_bytes_are_tamed(void **state)
{
	log_open("bc-test");
	log_with(LOG_INFO, 0, LOG_FIELDS({ "BC_INSTANCE", "i\n1" }, { "BC_NONE", NULL }, { "BC_UID", "0" }),
	        "a\x1b[31mb\xff ü");
	log_info("two\nlines\n");
	assert_string_equal(logged(*state),
	        "INFO    bc-test: a?[31mb? ü (BC_INSTANCE=i?1 BC_UID=0)\n"
	        "INFO    bc-test: two\nINFO    bc-test: lines\n");
}

static void long_messages_are_cut(void **state)
{
	char text[10000];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	log_open("bc-test");
	log_info("%s", text);
	const char *line = logged(*state);
	assert_int_equal(strlen(line), strlen("INFO    bc-test: ") + 8191 + 1);
	assert_string_equal(line + strlen(line) - 4, "…\n");
}

static void a_stale_journal_stream_is_not_believed(void **state)
{
	assert_int_equal(setenv("JOURNAL_STREAM", "1:2", 1), 0);
	log_open("bc-test");
	log_info("on stderr");
	assert_string_equal(logged(*state), "INFO    bc-test: on stderr\n");
}

/* A journal of our own: its socket, in a mount namespace of our own. */
static int journal_open(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "/run/systemd/journal/socket" };

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	        mount("tmpfs", "/run", "tmpfs", 0, NULL) < 0)
		return -errno;
	assert_int_equal(mkdir("/run/systemd", 0755), 0);
	assert_int_equal(mkdir("/run/systemd/journal", 0755), 0);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static void the_journal_gets_fields(void **state)
{
	CLEANUP_CLOSE int fd = journal_open();
	char stream[64], entry[4096];
	struct stat st;

	if (fd < 0)
		skip();
	assert_int_equal(fstat(STDERR_FILENO, &st), 0);
	(void)snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)st.st_dev,
	        (unsigned long long)st.st_ino);
	assert_int_equal(setenv("JOURNAL_STREAM", stream, 1), 0);
	log_open("bc-test");
	const struct log_field *fields = LOG_FIELDS({ "BC_INSTANCE", "i1" }, { "BC_NONE", NULL });
	int line = __LINE__ + 1;
	assert_int_equal(log_with(LOG_ERR, -EIO, fields, "it broke: %m"), -EIO);
	ssize_t n = recv(fd, entry, sizeof(entry) - 1, 0);
	assert_true(n > 0);
	entry[n] = '\0';
	assert_non_null(strstr(entry, "MESSAGE=it broke: Input/output error\n"));
	assert_non_null(strstr(entry, "PRIORITY=3\n"));
	assert_non_null(strstr(entry, "SYSLOG_IDENTIFIER=bc-test\n"));
	assert_non_null(strstr(entry, "log_test.c\n"));
	assert_non_null(strstr(entry, "CODE_FUNC=the_journal_gets_fields\n"));
	assert_non_null(strstr(entry, "ERRNO=5\n"));
	assert_non_null(strstr(entry, "BC_INSTANCE=i1\n"));
	assert_null(strstr(entry, "BC_NONE"));
	assert_null(strstr(entry, "log.c"));
	char want[32];
	(void)snprintf(want, sizeof(want), "CODE_LINE=%d\n", line);
	assert_non_null(strstr(entry, want));
	assert_string_equal(logged(*state), "");
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, capture_setup, capture_teardown)

TEST_SUITE(log_test)
{
	const struct CMUnitTest tests[] = {
		TEST(levels_decide_and_results_come_back), TEST(hidden_debug_costs_no_evaluation),
		TEST(the_environment_has_the_last_word), TEST(fields_follow_and_foreign_bytes_are_tamed),
		TEST(long_messages_are_cut), TEST(a_stale_journal_stream_is_not_believed),
		TEST(the_journal_gets_fields), /* last: it leaves the mount namespace */
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
