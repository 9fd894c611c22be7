/* How long work is going, on stderr: one line that is written over on a terminal, otherwise a line for each change of
 * the text and none for mere numbers. */
#pragma once

#include "cli/cli.h"

struct progress {
	struct cli *cli; /* weak */
	bool terminal;
	bool open; /* a line is there that has no end yet */
	char last[256];
};

void progress_init(struct progress *progress, struct cli *cli);
/* what: "uploading snapshot"; total 0: unknown. */
void progress_bytes(struct progress *progress, const char *what, uint64_t done_bytes, uint64_t total_bytes);
void progress_text(struct progress *progress, const char *text);
/* Ends the line, so that other output may follow. */
void progress_done(struct progress *progress);
