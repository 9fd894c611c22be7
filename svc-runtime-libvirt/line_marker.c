#include "svc-runtime-libvirt/line_marker.h"

#include <string.h>

void line_marker_begin(struct line_marker *marker)
{
	marker->n_line = 0;
}

bool line_marker_find(struct line_marker *marker, const char *data, size_t n_data)
{
	size_t n_text = strlen(marker->text);

	if (n_text == 0 || n_text >= LINE_MARKER_MAX)
		return false;
	for (size_t i = 0; i < n_data; i++) {
		if (data[i] == '\n' || data[i] == '\r') {
			marker->n_line = 0;
			continue;
		}
		if (marker->n_line >= n_text)
			continue; /* this line was decided */
		marker->line[marker->n_line++] = data[i];
		if (marker->n_line == n_text && memcmp(marker->line, marker->text, n_text) == 0)
			return true;
	}
	return false;
}
