/* Every verb; each is in verb_<name>.c. */
#pragma once

#include "cli/cli.h"

extern const struct command verb_apply;
extern const struct command verb_complete;
extern const struct command verb_completion;
extern const struct command verb_console;
extern const struct command verb_describe;
extern const struct command verb_doctor;
extern const struct command verb_drain;
extern const struct command verb_events;
extern const struct command verb_get;
extern const struct command verb_logs;
extern const struct command verb_netd;
extern const struct command verb_retry;
extern const struct command verb_runtime;
extern const struct command verb_snapshot;
extern const struct command verb_top;
extern const struct command verb_version;
extern const struct command verb_watch;
