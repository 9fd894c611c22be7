/* The control file: how the fake is told to misbehave, and what happens to its guests. It is read again
 * whenever it changed, at the latest before the next call; a file that cannot be read changes nothing. */
#pragma once

#include "fake.pb-c.h"

#include "lib/base/err.h"

#include <grpc/status.h>
#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct control;

struct control_handlers {
	/* An event of a file that is new. */
	void (*on_event)(const Bc__Fake__Event *event, void *userdata);
	/* Why the file is not heeded, for the log. */
	void (*on_problem)(const char *problem, void *userdata);
	void *userdata;
};

/* path need not exist, its directory must. A file that is wrong at the start is an error. */
int control_open(sd_event *event, const char *path, const struct control_handlers *handlers,
        struct control **ret, struct err *err);
struct control *control_close(struct control *control);
void control_refresh(struct control *control);

/* What a fault does to one call. */
struct fault {
	Bc__Fake__Fault__Action action; /* ACTION_UNSPECIFIED: nothing */
	grpc_status_code code;
	char message[256];
	uint64_t stall_usec; /* UINT64_MAX: for ever */
};

/* Counts the call against every fault up to the one that applies. id is "" for a call that concerns none. */
struct fault control_judge(struct control *control, const char *method, const char *id);
/* False when no fault could fit that method: nothing has to be asked for each domain then. */
bool control_concerns(const struct control *control, const char *method);
