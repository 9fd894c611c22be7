/* Whether the services of this host answer, and what they themselves lack. */
#pragma once

#include "cli/cli.h"
#include "cli/finding.h"

struct doctor_services {
	bool has_libvirt, has_ch; /* a socket of that runtime is there */
};
void doctor_services_check(struct cli *cli, struct findings *findings, struct doctor_services *ret);
