/* Requests as they come off the wire: what is taken is within every bound, and makes elements. */
#include "svc-netd/request.h"

#include "lib/base/tap_name.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct request_policy policy = {
	.bridges = (char *const[]){ (char *)"br0" },
	.n_bridges = 1,
	.queues_max = 16,
	.default_vhost = true,
};

static void check(const struct nic_request *request)
{
	const struct owner *o = &request->owner;
	struct elements elements = { 0 };
	char name[IFNAME_MAX], alias[OWNER_TEXT_MAX];
	struct owner back;

	if (o->queues < 1 || o->queues > QUEUES_MAX || o->index > TAP_INDEX_MAX || o->mac.bytes[0] & 1 ||
	        strcmp(o->master, "br0") != 0 || tap_name(o->instance_id, o->index, name) < 0)
		abort();
	owner_format(o, alias);
	if (owner_disbelief(name, alias, &back))
		abort();
	(void)nic_filter_elements(
	        name, &o->mac, request->filtered ? &request->filter : NULL, &elements, NULL);
	for (size_t i = 0; i < request->n_ports; i++) {
		struct element e = element_publication(&request->ports[i]);

		elements_add(&elements, &e);
	}
	if (elements_finish(&elements) < 0)
		abort();
	elements_done(&elements);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Bc__V1__PrepareMacvtapRequest *macvtap = bc__v1__prepare_macvtap_request__unpack(NULL, size, data);
	Bc__V1__PrepareBridgeRequest *bridge = bc__v1__prepare_bridge_request__unpack(NULL, size, data);
	struct nic_request request;

	if (bridge && request_bridge(bridge, &policy, &request, NULL) == 0) {
		check(&request);
		nic_request_done(&request);
	}
	if (macvtap && request_macvtap(macvtap, &policy, &request, NULL) == 0) {
		check(&request);
		nic_request_done(&request);
	}
	if (bridge)
		bc__v1__prepare_bridge_request__free_unpacked(bridge, NULL);
	if (macvtap)
		bc__v1__prepare_macvtap_request__free_unpacked(macvtap, NULL);
	return 0;
}
