#include "lib/base/std_fds.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int std_fds_take(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF)
			continue;
		/* The lowest free number is this one. What nobody can use it for stays so. */
		if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
			return -errno;
	}
	return 0;
}
