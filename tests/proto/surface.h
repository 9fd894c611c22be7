/* The surface of a FileDescriptorSet: one line for each thing that a peer built from an older set relies on.
 *
 *   field bc.v1.NodeSpec/1       revision uint64 singular
 *   value bc.v1.Nic.Policy/1     PUBLIC
 *   rpc   bc.v1.Netd/Watch       bc.v1.NetdWatchRequest -> stream bc.v1.NetdEvent
 *   reserved bc.v1.NodeSpec/7
 *
 * The first two words are the key; the rest must never change. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { SURFACE_LINES_MAX = 10000, SURFACE_LINE_MAX = 512 };

struct surface {
	char **lines; /* owned, sorted */
	size_t n_lines;
};

/* Only files whose package begins with package_prefix. -EBADMSG if the bytes are no FileDescriptorSet, -E2BIG over
 * the limits. */
int surface_from_descriptor_set(const void *data, size_t n, const char *package_prefix, struct surface *ret);
/* From text, one line each; '#' begins a comment line. */
int surface_from_text(const char *text, struct surface *ret);
void surface_done(struct surface *s);

/* The first line of base that now breaks, with the reason in reason[], or NULL when every one still holds.
 * What now has more lines is compatible; a field or value may go only where its number is reserved. */
const char *surface_broken(
        const struct surface *base, const struct surface *now, char reason[SURFACE_LINE_MAX]);
