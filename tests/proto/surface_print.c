/* Prints the surface of the embedded descriptor set: the text of the baseline (make proto-baseline). */
#include "protos/descriptor_set.h"
#include "tests/proto/surface.h"

#include <stdio.h>
#include <string.h>

int main(void)
{
	struct surface s;
	int r = surface_from_descriptor_set(bc_descriptor_set, bc_descriptor_set_size, "bc.v1", &s);

	if (r < 0) {
		fprintf(stderr, "surface: %s\n", strerror(-r));
		return 1;
	}
	for (size_t i = 0; i < s.n_lines; i++)
		puts(s.lines[i]);
	surface_done(&s);
	return 0;
}
