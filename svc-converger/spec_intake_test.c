#include "svc-converger/spec_intake.h"

#include "lib/rpc/intake.h"
#include "svc-converger/instance.h"

#include "bc/v1/converger.pb-c.h"
#include "tests/harness/suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { INSTANCES = 4, BYTES_MAX = 2048 };

/* Four instances: the first with a MAC of its own choice, the second with a volume, the third with a published port, the
 * fourth plain. All but the fourth are accepted. */
struct fixture {
	char ids[INSTANCES][UUID_TEXT_MAX];
	Bc__V1__InstanceSpec items[INSTANCES];
	Bc__V1__InstanceSpec *pointers[INSTANCES];
	Bc__V1__BridgeAttachment bridge;
	Bc__V1__Nic nic, *nic_pointer;
	Bc__V1__VolumeAttachment attachment, *attachment_pointer;
	Bc__V1__PortMapping mapping, *mapping_pointer;
	Bc__V1__Volume volume, *volume_pointer;
	Bc__V1__Instances instances;
	Bc__V1__NodeSpec node;
	Bc__V1__ApplyRequest request;
	struct id_map *accepted;
	struct instance *held[INSTANCES];
	uint8_t data[BYTES_MAX];
	struct spec_intake intake;
};

static void fixture_messages(struct fixture *f)
{
	bc__v1__volume_attachment__init(&f->attachment);
	f->attachment.volume_id = (char *)"vol";
	f->attachment_pointer = &f->attachment;
	bc__v1__port_mapping__init(&f->mapping);
	f->mapping.host_port = 2222;
	f->mapping_pointer = &f->mapping;
	bc__v1__volume__init(&f->volume);
	f->volume.id = (char *)"other";
	f->volume_pointer = &f->volume;
	bc__v1__instances__init(&f->instances);
	bc__v1__node_spec__init(&f->node);
	bc__v1__apply_request__init(&f->request);
	for (size_t i = 0; i < INSTANCES; i++) {
		Bc__V1__InstanceSpec *item = f->pointers[i] = &f->items[i];

		bc__v1__instance_spec__init(item);
		(void)snprintf(f->ids[i], sizeof(f->ids[i]), "00000000-0000-4000-8000-%012zx", i);
		item->id = f->ids[i];
		item->allocation_id = (char *)"a1";
		item->runtime = (char *)"fake";
		item->vcpus = 1;
	}
	bc__v1__nic__init(&f->nic);
	bc__v1__bridge_attachment__init(&f->bridge);
	f->nic.attachment_case = BC__V1__NIC__ATTACHMENT_BRIDGE;
	f->nic.bridge = &f->bridge;
	f->bridge.name = (char *)"br0";
	f->nic.mac = (char *)"52:54:00:12:34:56";
	f->nic_pointer = &f->nic;
	f->items[0].n_nics = 1;
	f->items[0].nics = &f->nic_pointer;
	f->items[1].n_volumes = 1;
	f->items[1].volumes = &f->attachment_pointer;
	f->items[2].n_port_mappings = 1;
	f->items[2].port_mappings = &f->mapping_pointer;
	f->instances.n_items = INSTANCES;
	f->instances.items = f->pointers;
	f->node.revision = 7;
	f->node.instances = &f->instances;
	f->node.node_id = (char *)"node-1"; /* behind the instances on the wire */
	f->request.spec = &f->node;
	f->request.dry_run = true;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	fixture_messages(f);
	f->accepted = id_map_new(offsetof(struct instance, id));
	for (size_t i = 0; i < 3; i++) {
		f->held[i] = instance_new(f->ids[i]);
		assert_int_equal(instance_spec_new(&f->items[i], &f->held[i]->spec), 0);
		assert_int_equal(id_map_put(f->accepted, f->held[i]), 0);
	}
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	spec_intake_done(&f->intake);
	for (size_t i = 0; i < INSTANCES; i++)
		instance_free(f->held[i]);
	id_map_free(f->accepted);
	free(f);
	return 0;
}

static size_t fixture_pack(struct fixture *f)
{
	assert_true(bc__v1__apply_request__get_packed_size(&f->request) <= BYTES_MAX);
	return bc__v1__apply_request__pack(&f->request, f->data);
}

static int fixture_read(struct fixture *f, size_t size, struct err *err)
{
	struct spec_bytes bytes = { .data = f->data, .size = size, .form = SPEC_APPLY };

	spec_intake_done(&f->intake);
	return spec_intake_read(&bytes, f->accepted, &f->intake, err);
}

static void what_is_accepted_is_known_and_the_rest_is_whole(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(fixture_read(f, fixture_pack(f), NULL), 0);
	assert_true(f->intake.is_dry_run);
	assert_int_equal(f->intake.spec->revision, 7);
	assert_string_equal(f->intake.spec->node_id, "node-1");
	assert_int_equal(f->intake.spec->instances->n_items, INSTANCES);
	for (size_t i = 0; i < INSTANCES; i++) {
		assert_string_equal(f->intake.spec->instances->items[i]->id, f->ids[i]);
		assert_int_equal(f->intake.is_known[i], i < 3);
	}
	assert_int_equal(f->intake.spec->instances->items[1]->vcpus, 0); /* its id alone */
	assert_int_equal(f->intake.spec->instances->items[3]->vcpus, 1);
}

static void a_change_is_not_known(void **state)
{
	struct fixture *f = *state;

	f->items[0].vcpus = 2;
	assert_int_equal(fixture_read(f, fixture_pack(f), NULL), 0);
	assert_false(f->intake.is_known[0]);
	assert_int_equal(f->intake.spec->instances->items[0]->vcpus, 2);
	assert_true(f->intake.is_known[1]);
}

static void what_spans_instances_can_be_checked(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(fixture_read(f, fixture_pack(f), NULL), 0);
	assert_int_equal(f->intake.spec->instances->items[2]->n_port_mappings, 1);
	assert_int_equal(f->intake.spec->instances->items[1]->n_volumes, 0);
	assert_int_equal(f->intake.spec->instances->items[0]->n_nics, 1); /* which has a MAC of its choice */
	f->node.n_volumes = 1;
	f->node.volumes = &f->volume_pointer;
	assert_int_equal(fixture_read(f, fixture_pack(f), NULL), 0);
	assert_int_equal(f->intake.spec->instances->items[1]->n_volumes, 0);
	f->volume.state = BC__V1__VOLUME__STATE__ABSENT;
	assert_int_equal(fixture_read(f, fixture_pack(f), NULL), 0);
	assert_int_equal(f->intake.spec->instances->items[1]->n_volumes, 1);
}

static void no_opinion_and_none_stay_apart(void **state)
{
	struct fixture *f = *state;

	f->node.instances = NULL;
	assert_int_equal(fixture_read(f, fixture_pack(f), NULL), 0);
	assert_null(f->intake.spec->instances);
	f->node.instances = &f->instances;
	f->instances.n_items = 0;
	assert_int_equal(fixture_read(f, fixture_pack(f), NULL), 0);
	assert_non_null(f->intake.spec->instances);
	assert_int_equal(f->intake.spec->instances->n_items, 0);
}

static void no_spec_is_refused(void **state)
{
	struct fixture *f = *state;
	struct err err = { 0 };

	assert_int_equal(fixture_read(f, 0, &err), -EINVAL);
	assert_non_null(strstr(err_text(&err, 0), "spec: missing"));
}

/* The short cut must not take what the way round refuses: the same answer, and the same words. */
static void compare_with_the_whole(struct fixture *f, size_t size)
{
	ProtobufCMessage *message = NULL;
	struct err whole = { 0 }, cut = { 0 };
	int r = rpc_message_parse(&bc__v1__apply_request__descriptor, f->data, size, &message, &whole);
	const Bc__V1__ApplyRequest *request = (const Bc__V1__ApplyRequest *)message;
	int r_cut = fixture_read(f, size, &cut);

	if (r == 0 && !request->spec)
		r = err_set(&whole, -EINVAL, "spec: missing; write a NodeSpec");
	assert_int_equal(r_cut, r);
	if (r < 0) {
		assert_string_equal(err_text(&cut, r), err_text(&whole, r));
	} else {
		const Bc__V1__NodeSpec *a = f->intake.spec, *b = request->spec;

		assert_int_equal(a->revision, b->revision);
		assert_int_equal(!a->instances, !b->instances);
		assert_int_equal(f->intake.is_dry_run, request->dry_run);
		for (size_t i = 0; a->instances && i < b->instances->n_items; i++)
			assert_string_equal(a->instances->items[i]->id, b->instances->items[i]->id);
	}
	if (message)
		protobuf_c_message_free_unpacked(message, NULL);
}

static void cut_short_anywhere_it_says_what_the_whole_says(void **state)
{
	struct fixture *f = *state;
	size_t size = fixture_pack(f);

	for (size_t n = 0; n <= size; n++)
		compare_with_the_whole(f, n);
}

static void damaged_anywhere_it_says_what_the_whole_says(void **state)
{
	static const uint8_t damages[] = { 0x00, 0x01, 0x0a, 0x12, 0x7f, 0x80, 0xff };
	struct fixture *f = *state;
	size_t size = fixture_pack(f);

	for (size_t at = 0; at < size; at++)
		for (size_t i = 0; i < sizeof(damages); i++) {
			uint8_t was = f->data[at];

			f->data[at] = damages[i];
			compare_with_the_whole(f, size);
			f->data[at] = was;
		}
}

static void a_section_given_twice_is_refused(void **state)
{
	struct fixture *f = *state;
	size_t size;

	f->request.dry_run = false;
	size = fixture_pack(f);
	memcpy(f->data + size, f->data, size);
	compare_with_the_whole(f, 2 * size);
	assert_null(f->intake.spec);
}

TEST_SUITE(spec_intake_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
		        what_is_accepted_is_known_and_the_rest_is_whole, setup, teardown),
		cmocka_unit_test_setup_teardown(a_change_is_not_known, setup, teardown),
		cmocka_unit_test_setup_teardown(what_spans_instances_can_be_checked, setup, teardown),
		cmocka_unit_test_setup_teardown(no_opinion_and_none_stay_apart, setup, teardown),
		cmocka_unit_test_setup_teardown(no_spec_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(
		        cut_short_anywhere_it_says_what_the_whole_says, setup, teardown),
		cmocka_unit_test_setup_teardown(
		        damaged_anywhere_it_says_what_the_whole_says, setup, teardown),
		cmocka_unit_test_setup_teardown(a_section_given_twice_is_refused, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
