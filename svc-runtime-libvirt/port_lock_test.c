#include "svc-runtime-libvirt/port_lock.h"

#include "lib/base/cleanup.h"
#include "lib/base/sandbox_test.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

struct port {
	int fd;
	char path[64];
	char lock[64]; /* its lock file's name */
};

static void port_open(struct port *ret)
{
	ret->fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	assert_true(ret->fd >= 0);
	assert_int_equal(unlockpt(ret->fd), 0);
	assert_int_equal(ptsname_r(ret->fd, ret->path, sizeof(ret->path)), 0);
	assert_int_equal(strncmp(ret->path, "/dev/pts/", 9), 0);
	(void)snprintf(ret->lock, sizeof(ret->lock), "LCK.._pts_%s", ret->path + 9);
}

/* The pid in it is ours, so that no other program would take it for stale. */
static void lock_make(void **state, const struct port *port, time_t age)
{
	CLEANUP_CLOSE int fd =
	        open(SANDBOX_PATH(state, port->lock), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
	struct timespec times[2];

	assert_true(fd >= 0);
	assert_true(dprintf(fd, "%10d\n", getpid()) > 0);
	(void)clock_gettime(CLOCK_REALTIME, &times[0]);
	times[0].tv_sec -= age;
	times[1] = times[0];
	assert_int_equal(futimens(fd, times), 0);
}

static bool lock_is_there(void **state, const struct port *port)
{
	return access(SANDBOX_PATH(state, port->lock), F_OK) == 0;
}

static void the_lock_of_an_earlier_port_goes(void **state)
{
	struct port port;

	port_open(&port);
	lock_make(state, &port, 3600);
	assert_int_equal(port_lock_drop_stale(*state, port.path), 1);
	assert_false(lock_is_there(state, &port));
	assert_int_equal(port_lock_drop_stale(*state, port.path), 0);
	(void)close(port.fd);
}

static void the_lock_of_this_port_stays(void **state)
{
	struct port port;
	char byte = 'x';

	port_open(&port);
	lock_make(state, &port, 0);
	assert_int_equal(port_lock_drop_stale(*state, port.path), 0);
	CLEANUP_CLOSE int slave = open(port.path, O_RDWR | O_NOCTTY | O_CLOEXEC);
	assert_true(slave >= 0);
	assert_int_equal(write(slave, &byte, 1), 1);
	assert_int_equal(read(port.fd, &byte, 1), 1);
	assert_int_equal(port_lock_drop_stale(*state, port.path), 0);
	assert_true(lock_is_there(state, &port));
	(void)close(port.fd);
}

static void what_is_no_port_or_no_lock_is_left_alone(void **state)
{
	struct port port;

	assert_int_equal(port_lock_drop_stale(*state, "/etc/passwd"), -EINVAL);
	assert_int_equal(port_lock_drop_stale(*state, "/devices"), -EINVAL);
	port_open(&port);
	assert_int_equal(mkdir(SANDBOX_PATH(state, port.lock), 0700), 0);
	assert_int_equal(port_lock_drop_stale(*state, port.path), 0);
	assert_true(lock_is_there(state, &port));
	(void)close(port.fd);
}

TEST_SUITE(port_lock_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
		        the_lock_of_an_earlier_port_goes, sandbox_setup, sandbox_teardown),
		cmocka_unit_test_setup_teardown(the_lock_of_this_port_stays, sandbox_setup, sandbox_teardown),
		cmocka_unit_test_setup_teardown(
		        what_is_no_port_or_no_lock_is_left_alone, sandbox_setup, sandbox_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
