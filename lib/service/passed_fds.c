#include "lib/service/passed_fds.h"

#include "lib/base/cleanup.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

int passed_fds_take(struct passed_fds *ret, struct err *err)
{
	struct passed_fds passed = { 0 };
	/* Unsets the variables and sets close-on-exec; 0 for another process's LISTEN_PID. */
	int n = sd_listen_fds_with_names(1, &passed.names);

	if (n < 0)
		return err_set(err, n, "LISTEN_FDS cannot be taken: %s", strerror(-n));
	passed.fds = calloc((size_t)n + 1, sizeof(*passed.fds));
	if (!passed.fds)
		return -ENOMEM;
	for (; passed.n < (size_t)n; passed.n++)
		passed.fds[passed.n] = SD_LISTEN_FDS_START + (int)passed.n;
	*ret = passed;
	return 0;
}

int passed_fds_listener(struct passed_fds *passed)
{
	for (size_t i = 0; i < passed->n; i++)
		if (passed->fds[i] >= 0 && sd_is_socket_unix(passed->fds[i], SOCK_STREAM, 1, NULL, 0) > 0)
			return TAKE_FD(passed->fds[i]);
	return -ENOENT;
}

int passed_fds_named(struct passed_fds *passed, const char *name)
{
	for (size_t i = 0; i < passed->n; i++)
		if (passed->fds[i] >= 0 && strcmp(passed->names[i], name) == 0)
			return TAKE_FD(passed->fds[i]);
	return -ENOENT;
}

void passed_fds_done(struct passed_fds *passed)
{
	for (size_t i = 0; i < passed->n; i++) {
		if (passed->fds[i] >= 0)
			(void)close(passed->fds[i]);
		free(passed->names[i]);
	}
	free(passed->names);
	free(passed->fds);
	*passed = (struct passed_fds){ 0 };
}
