/* The plugin's own process, where its manifest names an executable: started with the path it must listen on in
 * BC_PLUGIN_SOCKET, started again when it dies, with pauses that grow. Its standard input ends when we do, however we
 * end: that is its sign to end too. What it started lives on. */
#pragma once

#include "lib/base/err.h"

#include <systemd/sd-event.h>

struct child;

struct child_options {
	const char *const *argv; /* weak, as all; NULL-terminated */
	const char *socket;
	/* It runs, or it ended and why; may be NULL. */
	void (*on_start)(void *userdata);
	void (*on_exit)(const char *how, void *userdata);
	void *userdata;
};

int child_new(sd_event *event, const struct child_options *options, struct child **ret, struct err *err);
/* SIGTERM, SIGKILL some seconds later; on_ended once it is gone, at once when it does not run. */
void child_end(struct child *child, void (*on_ended)(void *userdata));
struct child *child_free(struct child *child); /* accepts NULL */
