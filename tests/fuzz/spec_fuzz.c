/* A NodeSpec from outside: the bounded scan, the rules of its fields, and the short cut past what is accepted. */
#include "lib/rpc/intake.h"
#include "svc-converger/instance.h"
#include "svc-converger/spec_check.h"
#include "svc-converger/spec_intake.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_data);

/* The short cut sees the same instances in the same order; the first of them is accepted already. whole is NULL when
 * the message is refused. */
static void intake_agrees(const uint8_t *data, size_t n_data, const Bc__V1__NodeSpec *whole)
{
	const Bc__V1__Instances *instances = whole ? whole->instances : NULL;
	struct spec_bytes bytes = { .data = data, .size = n_data, .form = SPEC_NODE };
	struct id_map *accepted = id_map_new(offsetof(struct instance, id));
	struct instance *instance = NULL;
	struct spec_intake intake;

	if (!accepted)
		return;
	if (instances && instances->n_items && strlen(instances->items[0]->id) < sizeof(instance->id)) {
		instance = instance_new(instances->items[0]->id);
		if (instance && instance_spec_new(instances->items[0], &instance->spec) == 0)
			(void)id_map_put(accepted, instance);
	}
	if (spec_intake_read(&bytes, accepted, &intake, NULL) == 0) {
		const Bc__V1__Instances *taken = intake.spec->instances;

		if (!whole || !taken != !instances || intake.spec->revision != whole->revision)
			abort();
		for (size_t i = 0; taken && i < taken->n_items; i++)
			if (taken->n_items != instances->n_items ||
			        strcmp(taken->items[i]->id, instances->items[i]->id) != 0)
				abort();
		spec_intake_done(&intake);
	} else if (whole) {
		abort();
	}
	id_map_free(accepted);
	instance_free(instance);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_data)
{
	ProtobufCMessage *message = NULL;
	struct spec_report report;
	char text[SPEC_REPORT_TEXT_MAX];

	if (rpc_message_parse(&bc__v1__node_spec__descriptor, data, n_data, &message, NULL) < 0) {
		intake_agrees(data, n_data, NULL);
		return 0;
	}
	intake_agrees(data, n_data, (const Bc__V1__NodeSpec *)message);
	/* Refused with at least one fault, or without any; and what is said of it fits. */
	int r = spec_check((const Bc__V1__NodeSpec *)message, "node", &report);

	if ((r == 0) != (report.n_faults == 0))
		abort();
	spec_report_text(&report, text, sizeof(text));
	if (strlen(text) >= sizeof(text))
		abort();
	protobuf_c_message_free_unpacked(message, NULL);
	return 0;
}
