/* The terminal in raw mode, given back whatever happens. */
#pragma once

#include <stdbool.h>
#include <termios.h>

struct terminal {
	bool raw;
	struct termios before;
};

/* 0 and nothing done when fd is no terminal. */
int terminal_raw(struct terminal *terminal, int fd);
void terminal_restore(struct terminal *terminal, int fd);
