/* The table of bcctl top: status and telemetry of each VM, with rates between two looks. */
#pragma once

#include "cli/answer.h"

#include "bc/v1/converger.pb-c.h"
#include "bc/v1/intelligence.pb-c.h"

struct top_view;

struct top_view *top_view_new(void); /* NULL: no memory */
struct top_view *top_view_free(struct top_view *view);
/* vms NULL: no telemetry just now. Copies what it needs. */
void top_view_update(struct top_view *view, const Bc__V1__NodeStatus *status, const Bc__V1__ListVmsReply *vms,
        uint64_t now_ns);
/* why: what keeps telemetry away, "" when nothing does. n_lines_max: so many lines at most, of which the last then says
 * how many instances are left out; 0: as many as there are. An exit code. */
int top_view_print(const struct top_view *view, struct cli *cli, const char *why, size_t n_lines_max);
