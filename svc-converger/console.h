/* Serial consoles passed through: a client's stream here, a stream to the instance's runtime there. Nothing is kept
 * in between but what one side sends faster than the other reads, and that is a few messages. */
#pragma once

#include "svc-converger/converger.h"

#include "bc/v1/runtime.pb-c.h"

struct console;

struct console_handlers {
	/* Output (valid during the call). Returns false when the client has no room for more now: console_resume(). */
	bool (*on_output)(const Bc__V1__ConsoleOutput *output, void *userdata);
	void (*on_writable)(void *userdata); /* input is taken again */
	/* Exactly once, last; the console is gone after it. */
	void (*on_end)(const struct rpc_status *status, void *userdata);
};

/* Opens the console that open names. On failure code and words are in ret_status. */
int console_open(struct converger *converger, const Bc__V1__ConsoleOpen *open,
        const struct console_handlers *handlers, void *userdata, struct console **ret,
        struct rpc_status *ret_status);
/* Takes one message; after it there may be no room for the next until on_writable. */
int console_input(struct console *console, const Bc__V1__ConsoleInput *input);
bool console_has_room(const struct console *console);
void console_resume(struct console *console);
void console_close_input(struct console *console); /* the client has nothing more to say */
/* Ends it; on_end does not run. */
void console_close(struct console *console);
