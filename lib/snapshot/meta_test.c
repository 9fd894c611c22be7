#include "lib/snapshot/meta.h"

#include "lib/base/cleanup.h"
#include "tests/harness/suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define DIGEST "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static const struct snapshot_meta META = {
	.runtime = "libvirt-kvm",
	.kind = SNAPSHOT_MEMORY,
	.instance_id = "1b4e28ba-2fa1-11d2-883f-0016d3cca427",
	.allocation_id = "a1",
	.hypervisor_version = "QEMU 7.2.0",
	.cpu_model = "Skylake-Server-IBRS",
	.created_usec = UINT64_C(1800000000123456),
	.vcpus = 2,
	.memory_bytes = UINT64_C(1) << 40,
	.n_nics = 3,
	.disk_format = IMAGE_QCOW2,
	.disk_bytes = UINT64_C(1) << 45,
	.image_digest = DIGEST,
	.volumes = { { .id = "data-1", .serial = "S1", .read_only = true, .bytes = 512 },
	        { .id = "data-2", .serial = "S2", .bytes = UINT64_C(1) << 44 } },
	.n_volumes = 2,
};

static void what_is_printed_is_read_back(void **state)
{
	struct snapshot_meta back;
	CLEANUP_FREE char *text = NULL;

	(void)state;
	memset(&back, 0x55, sizeof(back));
	assert_int_equal(snapshot_meta_print(&META, &text), 0);
	assert_int_equal(snapshot_meta_parse(text, strlen(text), &back, NULL), 0);
	assert_string_equal(back.runtime, META.runtime);
	assert_int_equal(back.kind, META.kind);
	assert_string_equal(back.instance_id, META.instance_id);
	assert_string_equal(back.allocation_id, META.allocation_id);
	assert_string_equal(back.hypervisor_version, META.hypervisor_version);
	assert_string_equal(back.cpu_model, META.cpu_model);
	assert_int_equal(back.created_usec, META.created_usec);
	assert_int_equal(back.vcpus, META.vcpus);
	assert_int_equal(back.memory_bytes, META.memory_bytes);
	assert_int_equal(back.n_nics, META.n_nics);
	assert_int_equal(back.disk_format, META.disk_format);
	assert_int_equal(back.disk_bytes, META.disk_bytes);
	assert_string_equal(back.image_digest, META.image_digest);
	assert_int_equal(back.n_volumes, 2);
	assert_string_equal(back.volumes[0].id, "data-1");
	assert_true(back.volumes[0].read_only);
	assert_string_equal(back.volumes[1].serial, "S2");
	assert_false(back.volumes[1].read_only);
	assert_int_equal(back.volumes[1].bytes, UINT64_C(1) << 44);
}

/* In the printed text, `from` becomes `to`; the answer must name `word`. */
static void what_is_not_ours_is_refused_by_field(void **state)
{
	static const struct {
		const char *from, *to, *word;
	} cases[] = {
		{ "bc-snapshot/1", "bc-snapshot/2", "format" },
		{ "\"libvirt-kvm\"", "7", "'runtime'" },
		{ "\"libvirt-kvm\"", "\"a\\u0000b\"", "line" },
		{ "\"memory\"", "\"everything\"", "'kind'" },
		{ "1b4e28ba", "1B4E28BA", "'instance_id'" },
		{ "\"vcpus\": 2", "\"vcpus\": -2", "'vcpus'" },
		{ "\"vcpus\": 2", "\"vcpus\": 4294967296", "'vcpus'" },
		{ "\"vcpus\": 2", "\"vcpus\": 2.5", "'vcpus'" },
		{ "\"vcpus\": 2", "\"vcpus\": 2, \"vcpus\": 3", "duplicate" },
		{ "\"vcpus\": 2,", "", "'vcpus'" },
		{ "\"qcow2\"", "\"vmdk\"", "disk.format" },
		{ "sha256:e3", "sha256:E3", "image_digest" },
		{ "sha256:e3", "sha256:e3e3", "image_digest" },
		{ "\"data-1\"", "\"../../etc\"", "volumes[].id" },
		{ "\"S1\"", "\"S 1\"", "serial" },
		{ "\"read_only\": true", "\"read_only\": 1", "read_only" },
		{ "\"volumes\": [", "\"volumes\": {}, \"x\": [", "'volumes'" },
		{ "}", "", "line" },
	};
	CLEANUP_FREE char *text = NULL;

	(void)state;
	assert_int_equal(snapshot_meta_print(&META, &text), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct snapshot_meta back = { .vcpus = 77 };
		struct err err = { 0 };
		char changed[4096];
		const char *at = strstr(text, cases[i].from);

		assert_non_null(at);
		(void)snprintf(changed, sizeof(changed), "%.*s%s%s", (int)(at - text), text, cases[i].to,
		        at + strlen(cases[i].from));
		assert_int_equal(snapshot_meta_parse(changed, strlen(changed), &back, &err), -EINVAL);
		if (!strstr(err.text, cases[i].word))
			fail_msg("%s: '%s' is not in: %s", cases[i].to, cases[i].word, err.text);
		assert_int_equal(back.vcpus, 77);
	}
	for (size_t n = 0; n < strlen(text) - 1; n++) {
		struct snapshot_meta back;

		assert_int_equal(snapshot_meta_parse(text, n, &back, NULL), -EINVAL);
	}
}

static void too_much_is_refused(void **state)
{
	CLEANUP_FREE char *deep = malloc(SNAPSHOT_META_JSON_MAX + 1);
	struct snapshot_meta back;

	(void)state;
	memset(deep, '[', SNAPSHOT_META_JSON_MAX + 1);
	assert_int_equal(snapshot_meta_parse(deep, SNAPSHOT_META_JSON_MAX, &back, NULL), -EINVAL);
	assert_int_equal(snapshot_meta_parse(deep, SNAPSHOT_META_JSON_MAX + 1, &back, NULL), -EINVAL);
}

static void members_of_later_versions_are_ignored(void **state)
{
	static const char TEXT[] =
	        "{\"format\":\"bc-snapshot/1\",\"runtime\":\"r\",\"kind\":\"disk\",\"instance_id\":"
	        "\"1b4e28ba-2fa1-11d2-883f-0016d3cca427\",\"allocation_id\":\"\",\"hypervisor_version\":\"\","
	        "\"cpu_model\":\"\",\"created_usec\":0,\"vcpus\":1,\"memory_bytes\":1,\"nics\":0,\"disk\":"
	        "{\"format\":\"raw\",\"bytes\":0,\"image_digest\":\"\",\"later\":[]},\"volumes\":[],\"later\":{}}";
	struct snapshot_meta back;

	(void)state;
	assert_int_equal(snapshot_meta_parse(TEXT, sizeof(TEXT) - 1, &back, NULL), 0);
	assert_int_equal(back.kind, SNAPSHOT_DISK);
}

static void memory_is_not_taken_beside_writable_volumes_or_gpus(void **state)
{
	struct err err = { 0 };

	(void)state;
	assert_int_equal(snapshot_check_take(SNAPSHOT_DISK, 3, 2, NULL), 0);
	assert_int_equal(snapshot_check_take(SNAPSHOT_MEMORY, 0, 0, NULL), 0);
	assert_int_equal(snapshot_check_take(SNAPSHOT_MEMORY, 1, 0, &err), -EBUSY);
	assert_non_null(strstr(err.text, "1 read-write volumes"));
	err = (struct err){ 0 };
	assert_int_equal(snapshot_check_take(SNAPSHOT_MEMORY, 0, 1, &err), -EBUSY);
	assert_non_null(strstr(err.text, "GPUs"));
}

/* The snapshot META onto a fitting target with one thing changed. */
static void a_restore_must_fit(void **state)
{
	static const struct snapshot_target fit = {
		.runtime = "libvirt-kvm",
		.cpu_model = "Skylake-Server-IBRS",
		.with_memory = true,
		.image_digest = DIGEST,
		.vcpus = 2,
		.memory_bytes = UINT64_C(1) << 40,
		.n_nics = 3,
	};
	struct snapshot_target t[12];
	static const char *const words[] = { NULL, "runtime 'libvirt-kvm'", "CPU model", "must boot from it",
		"never shrinks", NULL, "2 vCPUs", "bytes", "NICs", "1 read-write", "1 passthrough", NULL };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		t[i] = fit;
	t[1].runtime = "cloud-hypervisor";
	t[2].cpu_model = "EPYC";
	t[3].image_digest = "";
	t[4].root_disk_bytes = META.disk_bytes - 512;
	t[5].root_disk_bytes = META.disk_bytes;
	t[6].vcpus = 4;
	t[7].memory_bytes /= 2;
	t[8].n_nics = 2;
	t[9].n_writable_volumes = 1;
	t[10].n_gpus = 1;
	/* The disk alone goes anywhere its runtime and image are. */
	t[11] = (struct snapshot_target){ .runtime = "libvirt-kvm",
		.cpu_model = "EPYC",
		.image_digest = DIGEST,
		.vcpus = 1,
		.memory_bytes = 1,
		.n_writable_volumes = 1,
		.n_gpus = 1 };
	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		struct err err = { 0 };
		int r = snapshot_check_restore(&META, &t[i], &err);

		if (r != (words[i] ? -EBUSY : 0) || (words[i] && !strstr(err.text, words[i])))
			fail_msg("case %zu: %d %s", i, r, err.text);
	}
	struct snapshot_meta disk = META;
	disk.kind = SNAPSHOT_DISK;
	struct err err = { 0 };
	assert_int_equal(snapshot_check_restore(&disk, &fit, &err), -EBUSY);
	assert_non_null(strstr(err.text, "holds a disk only"));
	struct snapshot_meta unknown = META;
	struct snapshot_target nowhere = fit;
	unknown.cpu_model[0] = 0; /* two unknown models are not the same model */
	nowhere.cpu_model = "";
	assert_int_equal(snapshot_check_restore(&unknown, &nowhere, NULL), -EBUSY);
}

TEST_SUITE(meta_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_printed_is_read_back),
		cmocka_unit_test(what_is_not_ours_is_refused_by_field),
		cmocka_unit_test(too_much_is_refused),
		cmocka_unit_test(members_of_later_versions_are_ignored),
		cmocka_unit_test(memory_is_not_taken_beside_writable_volumes_or_gpus),
		cmocka_unit_test(a_restore_must_fit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
