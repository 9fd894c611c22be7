/* What the host itself has and lacks, looked up below one root so that a test can make up a host. */
#pragma once

#include "cli/finding.h"

#include <stdbool.h>

struct doctor_host {
	const char *root;           /* "" for this host; all paths are below it */
	const char *path;           /* $PATH: where programs are sought */
	const char *data_dir;       /* "/var/lib/bc" */
	const char *run_dir;        /* "/run/bc" */
	bool runs_libvirt, runs_ch; /* these runtimes have a socket: what they need is no mere wish */
};

void doctor_host_check(const struct doctor_host *host, struct findings *findings);
