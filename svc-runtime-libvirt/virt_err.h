/* libvirt's errors as ours. libvirt keeps its last error per thread: these read it at once, on the thread that made
 * the failing call, and nothing else in this service looks at it. */
#pragma once

#include "lib/base/err.h"

/* For a call that just failed: sets err to "what: libvirt's words" and returns the -errno that fits, never 0.
 * A host that has no memory for a guest is -ENOMEM, a lost connection -ENOTCONN, a lock held too long -EAGAIN. */
int virt_err(struct err *err, const char *what);

/* The same decision on a code of virterror.h and its text, for tests. */
int virt_errno_from(int code, int system_errno, const char *message);

/* libvirt prints every error on stderr unless told otherwise. Once per process, before the first connection. */
void virt_err_silence(void);
