/* One run of bcctl: the global options, where output goes, and the loop calls are made on. */
#pragma once

#include "cli/command.h"
#include "cli/exit_code.h"
#include "lib/loop/loop.h"

#include <stdint.h>
#include <stdio.h>

#define RUN_DIR_DEFAULT "/run/bc"
#define TIMEOUT_DEFAULT_USEC (30 * UINT64_C(1000000))

enum output {
	OUTPUT_TABLE,
	OUTPUT_WIDE,
	OUTPUT_JSON,
	OUTPUT_YAML,
	OUTPUT_NAME, /* identifiers alone, one a line */
};

struct cli {
	const char *run_dir;   /* weak, as the next */
	const char *socket;    /* NULL: by service, in run_dir */
	uint64_t timeout_usec; /* of calls that are answered once */
	enum output output;
	bool headings;
	bool color;                                 /* on out */
	bool err_color;                             /* on err */
	FILE *out, *err;                            /* weak */
	struct loop *loop;                          /* owned; NULL until cli_loop() */
	sd_event_source *sigint, *sigterm, *reader; /* owned */
	const struct command *command;              /* weak: the verb that runs */
	const char *group;                          /* weak: of the verb that runs; NULL: it is in none */
};

/* Parses and runs; the exit code. argv as of main(). */
int cli_main(struct cli *cli, int argc, char **argv);
void cli_init(struct cli *cli);
void cli_done(struct cli *cli);

/* The loop, made at the first call: bcctl --help starts nothing. NULL, having said so, when it cannot be made. */
struct loop *cli_loop(struct cli *cli);

/* SIGINT and SIGTERM end bcctl at once; a verb that has something to undo takes them itself. */
void cli_catch_signals(struct cli *cli, sd_event_signal_handler_t handler, void *userdata);

/* For verbs that only show: bcctl ends once nobody reads its output any more, also while there is nothing to write. */
void cli_end_with_reader(struct cli *cli);

/* "bcctl: …" on err. The first returns code, the second EXIT_USAGE and points to --help. */
int cli_fail(struct cli *cli, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int cli_usage(struct cli *cli, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* True when the output is for programs: whole messages in JSON or YAML. */
bool cli_output_is_data(const struct cli *cli);
