/* Whether a NodeSpec says something that could be made true: every rule written beside the fields of
 * protos/bc/v1/node.proto, checked once, here. What depends on this host (bridges, CPUs, free memory) or on the
 * last accepted revision is not looked at. */
#pragma once

#include "bc/v1/node.pb-c.h"

#include "lib/base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum {
	SPEC_FAULTS_SHOWN = 20,
	SPEC_FAULT_MAX = 192,        /* bytes of one fault with its path, with the NUL; longer ones are cut */
	SPEC_REPORT_TEXT_MAX = 4096, /* enough for every report, with the NUL; fits a gRPC status message */
};

struct spec_report {
	size_t n_faults; /* found in all */
	/* The first SPEC_FAULTS_SHOWN, each "instances.items[3].nics[0].mac: 'x' is not …; write …". */
	char faults[SPEC_FAULTS_SHOWN][SPEC_FAULT_MAX];
};

/* node_id is this node's; a spec for another one is a fault, without looking further. 0, or -EINVAL with at
 * least one fault; -ENOMEM. ret is always written. */
int spec_check(const Bc__V1__NodeSpec *spec, const char *node_id, struct spec_report *ret);

/* The same, without looking anew into instances that are known to be well: is_known[i] tells of instances.items[i],
 * which was accepted once as it stands. What spans instances (unique ids, ports, volumes) is checked all the same. */
int spec_check_rest(
        const Bc__V1__NodeSpec *spec, const char *node_id, const bool *is_known, struct spec_report *ret);

/* "3 faults in the NodeSpec:" and a line for each shown, then how many are not. Returns buf. */
char *spec_report_text(const struct spec_report *report, char *buf, size_t size);
