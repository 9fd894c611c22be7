/* The head of a file that may be a qcow2 image: as a whole file, and as the head of a large one. */
#include "lib/image/qcow2_header.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_data);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_data)
{
	const uint64_t sizes[] = { n_data, UINT64_C(1) << 40 };

	for (size_t i = 0; i < 2; i++) {
		struct qcow2_header header;
		struct err err = { 0 };

		if (qcow2_header_parse(data, n_data, sizes[i], &header, &err) < 0) {
			if (err.code == 0 || !err.text[0])
				abort(); /* every refusal has its reason */
			continue;
		}
		/* What QEMU is to be spared. */
		if (header.virtual_bytes == 0 || header.virtual_bytes > QCOW2_VIRTUAL_BYTES_MAX ||
		        header.cluster_bits < 9 || header.cluster_bits > 21 || header.l1_entries > 4194304 ||
		        strlen(header.backing_name) > QCOW2_NAME_MAX ||
		        strlen(header.backing_format) > QCOW2_FORMAT_MAX)
			abort();
		if (qcow2_header_check_base(&header, NULL) == 0 &&
		        (header.has_backing || header.has_data_file || header.encryption))
			abort();
	}
	return 0;
}
