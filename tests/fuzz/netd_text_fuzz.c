/* Owner records in aliases, which anybody can write, and record files: what is taken has to come back the same. */
#include "svc-netd/owner.h"
#include "svc-netd/record.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void take_alias(const char *text)
{
	char again[OWNER_TEXT_MAX];
	struct owner owner;

	if (owner_parse(text, &owner) < 0)
		return;
	owner_format(&owner, again);
	/* One record, one text: but for the case of the MAC's digits. */
	if (strcasecmp(text, again) != 0)
		abort();
}

static void take_record(const char *text)
{
	struct elements elements;

	if (record_parse(text, "bc0123456789n0", &elements) < 0)
		return;
	for (size_t i = 1; i < elements.n; i++) {
		if (element_compare(&elements.items[i - 1], &elements.items[i]) >= 0)
			abort();
	}
	elements_done(&elements);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = size < 1 << 16 ? malloc(size + 1) : NULL;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = 0;
	take_alias(text);
	take_record(text);
	free(text);
	return 0;
}
