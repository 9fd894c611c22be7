#include "cli/terminal.h"

#include <errno.h>
#include <unistd.h>

int terminal_raw(struct terminal *terminal, int fd)
{
	struct termios raw;

	terminal->raw = false;
	if (!isatty(fd))
		return 0;
	if (tcgetattr(fd, &terminal->before) < 0)
		return -errno;
	raw = terminal->before;
	cfmakeraw(&raw);
	if (tcsetattr(fd, TCSAFLUSH, &raw) < 0)
		return -errno;
	terminal->raw = true;
	return 0;
}

void terminal_restore(struct terminal *terminal, int fd)
{
	if (terminal->raw)
		(void)tcsetattr(fd, TCSAFLUSH, &terminal->before);
	terminal->raw = false;
}
