#include "cli/verbs.h"

/* In the order in which --help lists them. */
const struct command *const commands[] = {
	&verb_apply,
	&verb_get,
	&verb_describe,
	&verb_watch,
	&verb_top,
	&verb_console,
	&verb_events,
	&verb_logs,
	&verb_snapshot,
	&verb_retry,
	&verb_drain,
	&verb_netd,
	&verb_runtime,
	&verb_doctor,
	&verb_completion,
	&verb_version,
	&verb_complete,
	NULL,
};
