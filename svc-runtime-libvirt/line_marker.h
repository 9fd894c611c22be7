/* Looks for a line that begins with a given text, in output that comes in pieces of any size. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { LINE_MARKER_MAX = 128 }; /* bytes of a marker with the NUL; a longer one is never found */

struct line_marker {
	const char *text; /* weak; "" is never found */
	char line[LINE_MARKER_MAX];
	size_t n_line; /* of the line being written, as far as it can still decide */
};

void line_marker_begin(struct line_marker *marker); /* a new stream of output */
/* True when data completes the marker at the beginning of a line. */
bool line_marker_find(struct line_marker *marker, const char *data, size_t n_data);
