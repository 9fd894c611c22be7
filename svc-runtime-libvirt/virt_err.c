#include "svc-runtime-libvirt/virt_err.h"

#include "lib/base/cleanup.h"

#include <errno.h>
#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static bool message_has(const char *message, const char *const *phrases, size_t n_phrases)
{
	for (size_t i = 0; i < n_phrases; i++)
		if (strstr(message, phrases[i]))
			return true;
	return false;
}

/* QEMU says in prose that it got no memory; libvirt passes it on as an internal error. */
static bool message_says_no_memory(const char *message)
{
	static const char *const phrases[] = {
		"Cannot allocate memory",
		"cannot allocate memory",
		"cannot set up guest memory",
		"unable to map backing store for guest RAM",
		"Insufficient free host memory",
		"can't open backing store",
		"preallocating memory failed",
		"qemu_prealloc_mem",
		"cannot bind memory to host NUMA nodes",
	};

	return message_has(message, phrases, ARRAY_SIZE(phrases));
}

/* Other internal errors that are the host's state: QEMU says in prose that a kernel or a base image is gone, and that a
 * disk (-blockdev, -device) is open elsewhere. */
static bool message_says_host_unprepared(const char *message)
{
	static const char *const phrases[] = {
		"hugetlbfs filesystem is not mounted", "could not open kernel file", "invalid kernel header",
		"error reading initrd", "Could not open '", "Failed to get \"write\" lock",
		"Failed to get shared \"write\" lock", "File too large", /* for the host's file system */
	};

	return message_has(message, phrases, ARRAY_SIZE(phrases));
}

/* While libvirt worked on it, the guest ended or was ended: so does a libvirt that has just begun with what it found
 * half started, and it may be late. What is asked of a stopped guest is another code, VIR_ERR_OPERATION_INVALID. */
static bool message_says_ended(const char *message)
{
	return strstr(message, "domain is not running") || strstr(message, "domain is no longer running");
}

/* libvirt puts QEMU's last words behind these. With none of them QEMU did not end by itself, but was ended: by a libvirt
 * that has just begun and took it for one that was left half started, or for want of memory. */
static bool message_says_killed(const char *message)
{
	static const char *const phrases[] = {
		"process exited while connecting to monitor",
		"qemu unexpectedly closed the monitor",
	};
	size_t n = strlen(message);

	for (size_t i = 0; i < sizeof(phrases) / sizeof(phrases[0]); i++) {
		size_t n_phrase = strlen(phrases[i]);
		if (n >= n_phrase && strcmp(message + n - n_phrase, phrases[i]) == 0)
			return true;
	}
	return strstr(message, "terminating on signal") != NULL;
}

/* A break of the connection from libvirt to a QEMU, not of ours to libvirt. When that process has not been reaped yet
 * libvirt takes it for alive, and does not look for its last words. */
static bool message_says_monitor_broke(const char *message)
{
	static const char *const phrases[] = {
		"failed to connect to monitor socket",
		"Unable to read from monitor",
		"Unable to write to monitor",
	};

	return message_has(message, phrases, ARRAY_SIZE(phrases));
}

int virt_errno_from(int code, int system_errno, const char *message)
{
	if (message && message_says_no_memory(message))
		return -ENOMEM;
	if (message && strstr(message, "No space left on device"))
		return -ENOSPC;
	if (message && message_says_host_unprepared(message))
		return -EBUSY;
	switch (code) {
	case VIR_ERR_NO_MEMORY:
		return -ENOMEM;
	case VIR_ERR_NO_DOMAIN:
	case VIR_ERR_NO_DOMAIN_METADATA:
	case VIR_ERR_NO_DOMAIN_SNAPSHOT:
	case VIR_ERR_DEVICE_MISSING:
		return -ENOENT;
	case VIR_ERR_DOM_EXIST:
		return -EEXIST;
	case VIR_ERR_XML_ERROR:
	case VIR_ERR_XML_DETAIL:
	case VIR_ERR_XML_INVALID_SCHEMA:
	case VIR_ERR_INVALID_ARG:
		return -EINVAL;
	case VIR_ERR_OPERATION_INVALID:
	case VIR_ERR_CONFIG_UNSUPPORTED:
	case VIR_ERR_CPU_INCOMPATIBLE:
	case VIR_ERR_RESOURCE_BUSY:
	case VIR_ERR_BLOCK_COPY_ACTIVE:
		return -EBUSY;
	case VIR_ERR_NO_SUPPORT:
	case VIR_ERR_OPERATION_UNSUPPORTED:
	case VIR_ERR_ARGUMENT_UNSUPPORTED:
		return -EOPNOTSUPP;
	case VIR_ERR_AUTH_FAILED:
	case VIR_ERR_AUTH_CANCELLED:
	case VIR_ERR_AUTH_UNAVAILABLE:
	case VIR_ERR_OPERATION_DENIED:
	case VIR_ERR_ACCESS_DENIED:
		return -EACCES;
	case VIR_ERR_NO_CONNECT:
	case VIR_ERR_INVALID_CONN:
	case VIR_ERR_RPC:
		return -ENOTCONN;
	case VIR_ERR_INTERNAL_ERROR:
		return message && message_says_killed(message) ? -EAGAIN : -EIO;
	case VIR_ERR_OPERATION_FAILED:
		return message && message_says_ended(message) ? -EAGAIN : -EIO;
	case VIR_ERR_OPERATION_TIMEOUT: /* "cannot acquire state change lock": another call has the domain */
	case VIR_ERR_AGENT_UNRESPONSIVE:
		return -EAGAIN;
	case VIR_ERR_SYSTEM_ERROR:
		switch (system_errno) {
		case ECONNREFUSED:
		case ECONNRESET:
		case EPIPE:
			return message && message_says_monitor_broke(message) ? -EAGAIN : -ENOTCONN;
		case ENOENT: /* a file, which is not what was asked about: no domain has a code of its own */
			return -EBUSY;
		case 0:
			return -EIO;
		default:
			return -system_errno;
		}
	default:
		return -EIO;
	}
}

int virt_err(struct err *err, const char *what)
{
	const virError *last = virGetLastError();

	if (!last || last->code == VIR_ERR_OK)
		return err_set(err, -EIO, "%s: libvirt gave no reason", what);
	/* int1 carries errno for system errors alone */
	int system_errno = last->code == VIR_ERR_SYSTEM_ERROR ? last->int1 : 0;
	int r = virt_errno_from(last->code, system_errno, last->message);

	if (last->code == VIR_ERR_INTERNAL_ERROR && r == -EAGAIN)
		return err_set(err, r,
		        "%s: %s: QEMU was killed, by a libvirt that began anew or by the kernel, whose log tells "
		        "when memory ran out: try again",
		        what, last->message);
	if (r == -EAGAIN && last->message && message_says_monitor_broke(last->message))
		return err_set(err, r,
		        "%s: %s: QEMU has ended, and libvirt did not wait for its last words: try again",
		        what, last->message);
	return err_set(err, r, "%s: %s", what, last->message ? last->message : "libvirt gave no reason");
}

static void on_virt_error(void *userdata, virErrorPtr error)
{
	(void)userdata;
	(void)error;
}

void virt_err_silence(void)
{
	virSetErrorFunc(NULL, on_virt_error);
}
