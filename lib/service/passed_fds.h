/* The descriptors systemd passed: the service's listening socket, and others by name. */
#pragma once

#include "lib/base/err.h"

#include <stddef.h>

struct passed_fds {
	size_t n;
	int *fds;     /* owned, each; -EBADF once taken */
	char **names; /* owned */
};

/* Takes what LISTEN_FDS says, unless LISTEN_PID is somebody else's, and removes the variables, so that no
 * child thinks it was meant. All are close-on-exec. */
int passed_fds_take(struct passed_fds *ret, struct err *err);
/* The first listening Unix stream socket, which is then the caller's; -ENOENT when there is none. */
int passed_fds_listener(struct passed_fds *passed);
int passed_fds_named(struct passed_fds *passed, const char *name);
void passed_fds_done(struct passed_fds *passed);
