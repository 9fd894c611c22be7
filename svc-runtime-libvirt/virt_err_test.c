#include "svc-runtime-libvirt/virt_err.h"

#include "lib/base/cleanup.h"
#include "tests/harness/suite.h"

#include <errno.h>
#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void errors_get_the_code_that_a_caller_can_act_on(void **state)
{
	static const struct {
		int code, system_errno;
		const char *message;
		int r;
	} cases[] = {
		{ VIR_ERR_NO_MEMORY, 0, NULL, -ENOMEM },
		{ VIR_ERR_NO_DOMAIN, 0, "Domain not found", -ENOENT },
		{ VIR_ERR_DOM_EXIST, 0, "domain is already defined", -EEXIST },
		{ VIR_ERR_XML_ERROR, 0, "unexpected element", -EINVAL },
		{ VIR_ERR_XML_INVALID_SCHEMA, 0, "XML document failed to validate", -EINVAL },
		{ VIR_ERR_OPERATION_INVALID, 0, "domain is not running", -EBUSY },
		/* it ran when libvirt began with the call */
		{ VIR_ERR_OPERATION_FAILED, 0, "operation failed: domain is not running", -EAGAIN },
		{ VIR_ERR_OPERATION_FAILED, 0, "operation failed: domain is no longer running", -EAGAIN },
		{ VIR_ERR_OPERATION_FAILED, 0, "operation failed: something", -EIO },
		{ VIR_ERR_OPERATION_FAILED, 0, NULL, -EIO },
		{ VIR_ERR_CONFIG_UNSUPPORTED, 0, "this QEMU does not support it", -EBUSY },
		{ VIR_ERR_OPERATION_UNSUPPORTED, 0, "not supported by the driver", -EOPNOTSUPP },
		{ VIR_ERR_AUTH_FAILED, 0, "authentication failed", -EACCES },
		{ VIR_ERR_ACCESS_DENIED, 0, "access denied", -EACCES },
		{ VIR_ERR_NO_CONNECT, 0, "no connection driver", -ENOTCONN },
		{ VIR_ERR_RPC, 0, "Cannot recv data", -ENOTCONN },
		{ VIR_ERR_OPERATION_TIMEOUT, 0, "cannot acquire state change lock", -EAGAIN },
		{ VIR_ERR_SYSTEM_ERROR, ECONNREFUSED, "Failed to connect socket", -ENOTCONN },
		{ VIR_ERR_SYSTEM_ERROR, EPIPE, "Cannot send data", -ENOTCONN },
		/* a QEMU that is gone is no libvirt that is */
		{ VIR_ERR_SYSTEM_ERROR, ECONNREFUSED,
		        "failed to connect to monitor socket: Connection refused", -EAGAIN },
		{ VIR_ERR_SYSTEM_ERROR, ECONNRESET, "Unable to read from monitor: Connection reset by peer",
		        -EAGAIN },
		{ VIR_ERR_SYSTEM_ERROR, EPIPE, "Unable to write to monitor: Broken pipe", -EAGAIN },
		{ VIR_ERR_SYSTEM_ERROR, ECONNRESET, NULL, -ENOTCONN },
		{ VIR_ERR_SYSTEM_ERROR, ENOSPC, "Failed to write", -ENOSPC },
		{ VIR_ERR_SYSTEM_ERROR, 0, "something", -EIO },
		{ VIR_ERR_INTERNAL_ERROR, 0, "unexpected", -EIO },
		{ VIR_ERR_INTERNAL_ERROR, 0, NULL, -EIO },
		/* QEMU did not end by itself: it had no last words, or these */
		{ VIR_ERR_INTERNAL_ERROR, 0, "internal error: process exited while connecting to monitor",
		        -EAGAIN },
		{ VIR_ERR_INTERNAL_ERROR, 0, "internal error: qemu unexpectedly closed the monitor",
		        -EAGAIN },
		{ VIR_ERR_INTERNAL_ERROR, 0,
		        "internal error: process exited while connecting to monitor: 2026-01-01T00:00:00.0Z "
		        "qemu-system-x86_64: terminating on signal 15 from pid 7 (/usr/sbin/libvirtd)",
		        -EAGAIN },
		{ VIR_ERR_INTERNAL_ERROR, 0,
		        "internal error: process exited while connecting to monitor: qemu-system-x86_64: no such "
		        "machine",
		        -EIO },
		{ 4711, 0, "of a later libvirt", -EIO },
		/* QEMU's want of memory comes as prose in an internal error, in more than one wording */
		{ VIR_ERR_INTERNAL_ERROR, 0,
		        "qemu unexpectedly closed the monitor: qemu-system-x86_64: cannot set up guest memory "
		        "'pc.ram': Cannot allocate memory",
		        -ENOMEM },
		{ VIR_ERR_INTERNAL_ERROR, 0,
		        "process exited while connecting to monitor: unable to map backing store for guest RAM: "
		        "Cannot allocate memory",
		        -ENOMEM },
		{ VIR_ERR_INTERNAL_ERROR, 0, "os_mem_prealloc: Insufficient free host memory pages",
		        -ENOMEM },
		/* and a host that was not prepared is told from one that is full */
		{ VIR_ERR_INTERNAL_ERROR, 0, "hugetlbfs filesystem is not mounted or disabled", -EBUSY },
		/* a file that is not there is the host's state, too: NOT_FOUND is said of domains */
		{ VIR_ERR_SYSTEM_ERROR, ENOENT, "Cannot access storage file '/a': No such file or directory",
		        -EBUSY },
		{ VIR_ERR_INTERNAL_ERROR, 0,
		        "qemu unexpectedly closed the monitor: qemu: could not open kernel file '/a': No such "
		        "file or directory",
		        -EBUSY },
		{ VIR_ERR_INTERNAL_ERROR, 0,
		        "process exited while connecting to monitor: qemu: error reading initrd /a: Failed to "
		        "open file “/a”: No such file or directory",
		        -EBUSY },
		{ VIR_ERR_INTERNAL_ERROR, 0,
		        "process exited while connecting to monitor: qemu: invalid kernel header", -EBUSY },
		{ VIR_ERR_INTERNAL_ERROR, 0,
		        "qemu unexpectedly closed the monitor: -blockdev {}: Could not open '/a': No such file "
		        "or directory",
		        -EBUSY },
		/* so is one that another QEMU writes to */
		{ VIR_ERR_INTERNAL_ERROR, 0,
		        "process exited while connecting to monitor: -device {}: Failed to get \"write\" lock\n"
		        "Is another process using the image [/a]?",
		        -EBUSY },
		/* and a disk that cannot grow there */
		{ VIR_ERR_INTERNAL_ERROR, 0,
		        "unable to execute QEMU command 'block_resize': Could not resize file: File too large",
		        -EBUSY },
		{ VIR_ERR_INTERNAL_ERROR, 0,
		        "unable to execute QEMU command 'block_resize': Could not resize file: No space left on "
		        "device",
		        -ENOSPC },
		/* ended by another call while it started */
		{ VIR_ERR_INTERNAL_ERROR, 0,
		        "qemu unexpectedly closed the monitor: qemu-system-x86_64: terminating on signal 15 from "
		        "pid 41 (libvirtd)",
		        -EAGAIN },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		print_message("case %zu\n", i);
		assert_int_equal(
		        virt_errno_from(cases[i].code, cases[i].system_errno, cases[i].message), cases[i].r);
	}
}

static void the_last_error_is_told_with_what_was_done(void **state)
{
	struct err err = { 0 };

	(void)state;
	assert_int_equal(virInitialize(), 0);
	virt_err_silence();
	virResetLastError();
	assert_int_equal(virt_err(&err, "look"), -EIO);
	assert_string_equal(err.text, "look: libvirt gave no reason");
	virConnectPtr conn = virConnectOpen("test:///default");
	assert_non_null(conn);
	assert_null(virDomainLookupByName(conn, "nobody"));
	assert_int_equal(virt_err(&err, "look"), -ENOENT);
	assert_true(strncmp(err.text, "look: ", 6) == 0 && strlen(err.text) > 10);
	assert_int_equal(virt_err(NULL, "nobody reads it"), -ENOENT);
	(void)virConnectClose(conn);
}

TEST_SUITE(virt_err_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(errors_get_the_code_that_a_caller_can_act_on),
		cmocka_unit_test(the_last_error_is_told_with_what_was_done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
