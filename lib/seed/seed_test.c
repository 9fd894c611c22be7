#include "lib/seed/seed.h"

#include "lib/base/cleanup.h"
#include "lib/base/process.h"
#include "lib/base/sandbox_test.h"
#include "lib/seed/iso.h"
#include "tests/harness/suite.h"
#include "tests/harness/timeout.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#define ID "1b4e28ba-2fa1-11d2-883f-0016d3cca427"

static void file_is(void **state, const char *name, const char *expected)
{
	const char *argv[] = { "isoinfo", "-J", "-i", "seed.iso", "-x", name, NULL };
	struct process_options options = { .argv = argv, .cwd = *state };
	struct process_output output = { 0 };

	assert_int_equal(process_capture(&options, 1 << 20, test_timeout_usec(TEST_SERVICE_SEC), &output), 0);
	assert_int_equal(output.status, 0);
	assert_string_equal(output.text, expected);
	process_output_done(&output);
}

static void seed_has_all_three_files_even_when_empty(void **state)
{
	struct seed seed = { .instance_id = ID, .allocation_id = "a1" };
	const char *path = SANDBOX_PATH(state, "seed.iso");
	uint64_t offset, bytes = 7;
	struct stat st;

	assert_int_equal(seed_write(path, &seed, FILE_PERM(0640), NULL), 0);
	file_is(state, "/user-data", "");
	file_is(state, "/network-config", "version: 2\nethernets: {}\n");
	CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(iso_find(fd, "user-data", &offset, &bytes), 0);
	assert_int_equal(bytes, 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
}

static void user_data_is_byte_for_byte(void **state)
{
	struct seed seed = { .instance_id = ID, .allocation_id = "a1" };
	static const size_t sizes[] = { 1, 2047, 2048, 2049, SEED_USER_DATA_MAX };
	CLEANUP_FREE char *text = calloc(1, SEED_USER_DATA_MAX + 2);

	for (size_t i = 0; i < SEED_USER_DATA_MAX + 1; i++)
		text[i] = (char)('a' + i % 23);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		CLEANUP(secret) struct secret *secret = NULL;
		CLEANUP_FREE char *expected = strndup(text, sizes[i]);

		assert_int_equal(secret_new(text, sizes[i], &secret), 0);
		seed.user_data = secret;
		assert_int_equal(
		        seed_write(SANDBOX_PATH(state, "seed.iso"), &seed, FILE_PERM(0600), NULL), 0);
		file_is(state, "/user-data", expected);
	}
	CLEANUP(secret) struct secret *secret = NULL;
	struct err err = { 0 };
	assert_int_equal(secret_new(text, SEED_USER_DATA_MAX + 1, &secret), 0);
	seed.user_data = secret;
	assert_int_equal(seed_write(SANDBOX_PATH(state, "seed.iso"), &seed, FILE_PERM(0600), &err), -EINVAL);
	assert_non_null(strstr(err.text, "65537"));
}

/* While the secret is freed, its text must be nowhere in what this process can be made to show. */
static void no_copy_of_user_data_stays_in_memory(void **state)
{
	static const char half[] = "fold-and-spindle-";
	CLEANUP_FCLOSE FILE *maps = NULL;
	CLEANUP_CLOSE int mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	struct seed seed = { .instance_id = ID, .allocation_id = "a1" };
	CLEANUP_FREE char *chunk = malloc(1 << 20);
	struct secret *secret = NULL;
	size_t n_found = 0;
	char line[512];

	assert_int_equal(secret_new_empty(34, &secret), 0);
	/* Put together in place: no other spot holds both halves in a row. */
	memcpy(secret_data(secret), half, 17);
	memcpy(secret_data(secret) + 17, half, 17);
	seed.user_data = secret;
	assert_int_equal(seed_write(SANDBOX_PATH(state, "seed.iso"), &seed, FILE_PERM(0600), NULL), 0);
	file_is(state, "/meta-data", "instance-id: " ID "-f55ff16f66f43360\nlocal-hostname: i-1b4e28ba\n");
	secret = secret_free(secret);
	maps = fopen("/proc/self/maps", "re");
	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		unsigned long start, end;
		char mode[8];

		if (sscanf(line, "%lx-%lx %7s", &start, &end, mode) != 3 || mode[1] != 'w' ||
		        end - start > 256UL << 20)
			continue; /* sanitizers' shadow is larger, and no place for a copy */
		for (unsigned long at = start; at < end; at += (1 << 20) - 64) {
			size_t want = end - at < 1 << 20 ? end - at : 1 << 20;
			ssize_t n = pread(mem, chunk, want, (off_t)at);

			for (char *p = chunk; n > 34 && (p = memmem(p, (size_t)(chunk + n - p), half, 17));
			        p++)
				n_found += chunk + n - p >= 34 && memcmp(p + 17, half, 17) == 0;
		}
	}
	assert_int_equal(n_found, 0);
}

static void meta_data_names_this_incarnation(void **state)
{
	struct seed seed = { .instance_id = ID, .allocation_id = "a1", .hostname = "web-1.example" };
	CLEANUP_FREE char *first = NULL;
	CLEANUP_FREE char *again = NULL;
	CLEANUP_FREE char *other = NULL;

	(void)state;
	assert_int_equal(seed_meta_data(&seed, &first, NULL), 0);
	assert_int_equal(seed_meta_data(&seed, &again, NULL), 0);
	assert_string_equal(first, again);
	assert_non_null(strstr(first, "\nlocal-hostname: web-1.example\n"));
	seed.allocation_id = "a2";
	assert_int_equal(seed_meta_data(&seed, &other, NULL), 0);
	assert_string_not_equal(first, other);
	assert_string_equal(strchr(first, '\n'), strchr(other, '\n'));
}

static void hostnames_that_cannot_be_are_refused(void **state)
{
	static const char *const bad[] = { "-a", "a-", "a..b", ".a", "a.", "a b", "a_b", "a\nb: c", "é",
		"a.-b", "a-.b", "0123456789012345678901234567890123456789012345678901234567890123x" };
	struct seed seed = { .instance_id = ID, .allocation_id = "a1" };
	char *text = NULL;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct err err = { 0 };

		seed.hostname = bad[i];
		assert_int_equal(seed_meta_data(&seed, &text, &err), -EINVAL);
		assert_non_null(strstr(err.text, "hostname"));
	}
	seed.hostname = "A1.b-2";
	assert_int_equal(seed_meta_data(&seed, &text, NULL), 0);
	free(text);
	seed.instance_id = "../x";
	assert_int_equal(seed_meta_data(&seed, &text, NULL), -EINVAL);
}

static void network_config_has_every_nic(void **state)
{
	const struct seed_nic nics[] = {
		{ .mac = "52:54:00:AA:bb:01",
		        .addresses = (const char *const[]){ "192.0.2.7/24", "2001:db8::7/64" },
		        .n_addresses = 2,
		        .gateways = (const char *const[]){ "192.0.2.1", "fe80::1" },
		        .n_gateways = 2,
		        .nameservers = (const char *const[]){ "192.0.2.53", "2001:db8::53" },
		        .n_nameservers = 2 },
		{ .mac = "52:54:00:aa:bb:02",
		        .addresses = (const char *const[]){ "203.0.113.9/32" },
		        .n_addresses = 1,
		        .gateways = (const char *const[]){ "10.0.0.1" },
		        .n_gateways = 1 },
		{ .mac = "52:54:00:aa:bb:03" },
	};
	struct seed seed = { .instance_id = ID, .allocation_id = "a1", .nics = nics, .n_nics = 3 };
	CLEANUP_FREE char *text = NULL;

	(void)state;
	assert_int_equal(seed_network_config(&seed, &text, NULL), 0);
	assert_string_equal(text,
	        "version: 2\n"
	        "ethernets:\n"
	        "  nic0:\n"
	        "    match:\n"
	        "      macaddress: \"52:54:00:aa:bb:01\"\n"
	        "    dhcp4: false\n"
	        "    dhcp6: false\n"
	        "    addresses:\n"
	        "    - \"192.0.2.7/24\"\n"
	        "    - \"2001:db8::7/64\"\n"
	        "    routes:\n"
	        "    - to: \"0.0.0.0/0\"\n"
	        "      via: \"192.0.2.1\"\n"
	        "    - to: \"::/0\"\n"
	        "      via: \"fe80::1\"\n"
	        "    nameservers:\n"
	        "      addresses:\n"
	        "      - \"192.0.2.53\"\n"
	        "      - \"2001:db8::53\"\n"
	        "  nic1:\n"
	        "    match:\n"
	        "      macaddress: \"52:54:00:aa:bb:02\"\n"
	        "    dhcp4: false\n"
	        "    dhcp6: false\n"
	        "    addresses:\n"
	        "    - \"203.0.113.9/32\"\n"
	        "    routes:\n"
	        "    - to: \"0.0.0.0/0\"\n"
	        "      via: \"10.0.0.1\"\n"
	        "      on-link: true\n"
	        "  nic2:\n"
	        "    match:\n"
	        "      macaddress: \"52:54:00:aa:bb:03\"\n"
	        "    dhcp4: true\n");
}

static void bad_nics_are_refused_with_their_path(void **state)
{
	static const char *const addresses[] = { "192.0.2.7/24", "192.0.2.8" };
	static const char *const names[] = { "dns\n- evil" };
	const struct seed_nic cases[] = {
		{ .mac = "x" },
		{ .mac = "52:54:00:aa:bb:02", .addresses = addresses, .n_addresses = 2 },
		{ .mac = "52:54:00:aa:bb:02", .nameservers = names, .n_nameservers = 1 },
		{ .mac = "52:54:00:aa:bb:02", .addresses = addresses, .n_addresses = 17 },
		{ .mac = "52:54:00:aa:bb:02",
		        .addresses = addresses,
		        .n_addresses = 1,
		        .gateways = names,
		        .n_gateways = 1 },
	};
	static const char *const words[] = { "nics[0].mac", "nics[0].addresses[1]", "nics[0].nameservers[0]",
		"more than 16", "nics[0].gateways[0]" };
	char *text = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct seed seed = {
			.instance_id = ID, .allocation_id = "a", .nics = &cases[i], .n_nics = 1
		};
		struct err err = { 0 };

		assert_int_equal(seed_network_config(&seed, &text, &err), -EINVAL);
		if (!strstr(err.text, words[i]))
			fail_msg("'%s' is not in: %s", words[i], err.text);
		assert_int_equal(
		        seed_write(SANDBOX_PATH(state, "seed.iso"), &seed, FILE_PERM(0600), NULL), -EINVAL);
	}
	assert_int_equal(access(SANDBOX_PATH(state, "seed.iso"), F_OK), -1);
}

static ino_t inode_of(void **state)
{
	struct stat st;

	assert_int_equal(stat(SANDBOX_PATH(state, "seed.iso"), &st), 0);
	return st.st_ino;
}

static void a_seed_is_renewed_when_it_says_something_else(void **state)
{
	const char *path = SANDBOX_PATH(state, "seed.iso");
	const struct seed_nic nics[] = { { .mac = "52:54:00:00:00:01" }, { .mac = "52:54:00:00:00:02" } };
	CLEANUP(secret) struct secret *first = NULL, *other = NULL, *none = NULL;
	bool written;

	assert_int_equal(secret_new("first words", 11, &first), 0);
	assert_int_equal(secret_new("other words", 11, &other), 0);
	assert_int_equal(secret_new("", 0, &none), 0);
	const struct seed same = {
		.instance_id = ID, .allocation_id = "a1", .user_data = first, .nics = nics, .n_nics = 1
	};
	struct seed seed = same;
	assert_int_equal(seed_renew(path, &seed, FILE_PERM(0640), &written, NULL), -ENOENT);
	assert_int_equal(seed_write(path, &seed, FILE_PERM(0640), NULL), 0);
	ino_t inode = inode_of(state);
	for (int keep = 0; keep < 2; keep++) {
		seed.user_data = keep ? NULL : first;
		assert_int_equal(seed_renew(path, &seed, FILE_PERM(0640), &written, NULL), 0);
		assert_false(written);
		assert_int_equal(inode_of(state), inode);
	}
	/* each thing that it says, with the user data that it has */
	seed.n_nics = 2;
	assert_int_equal(seed_renew(path, &seed, FILE_PERM(0640), &written, NULL), 0);
	assert_true(written);
	file_is(state, "/user-data", "first words");
	file_is(state, "/network-config",
	        "version: 2\nethernets:\n  nic0:\n    match:\n      macaddress: \"52:54:00:00:00:01\"\n"
	        "    dhcp4: true\n  nic1:\n    match:\n      macaddress: \"52:54:00:00:00:02\"\n"
	        "    dhcp4: true\n");
	seed.hostname = "renamed";
	assert_int_equal(seed_renew(path, &seed, FILE_PERM(0640), &written, NULL), 0);
	assert_true(written);
	seed.user_data = other;
	assert_int_equal(seed_renew(path, &seed, FILE_PERM(0640), &written, NULL), 0);
	assert_true(written);
	file_is(state, "/user-data", "other words");
	seed.user_data = none;
	assert_int_equal(seed_renew(path, &seed, FILE_PERM(0640), &written, NULL), 0);
	assert_true(written);
	file_is(state, "/user-data", "");
	/* what cannot be leaves it as it was */
	seed = same;
	seed.hostname = "-";
	inode = inode_of(state);
	assert_int_equal(seed_renew(path, &seed, FILE_PERM(0640), &written, NULL), -EINVAL);
	assert_false(written);
	assert_int_equal(inode_of(state), inode);
}

static void what_is_no_seed_is_not_emptied(void **state)
{
	const char *path = SANDBOX_PATH(state, "seed.iso");
	struct seed seed = { .instance_id = ID, .allocation_id = "a1" };
	CLEANUP(secret) struct secret *user_data = NULL;
	struct stat st;
	bool written;

	CLEANUP_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(pwrite(fd, "of another tool", 15, 0), 15);
	assert_int_equal(seed_renew(path, &seed, FILE_PERM(0640), &written, NULL), 0);
	assert_false(written);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 15);
	/* with all that it is to say it is made */
	assert_int_equal(secret_new("words", 5, &user_data), 0);
	seed.user_data = user_data;
	assert_int_equal(seed_renew(path, &seed, FILE_PERM(0640), &written, NULL), 0);
	assert_true(written);
	file_is(state, "/user-data", "words");
}

#define SANDBOXED(test) cmocka_unit_test_setup_teardown(test, sandbox_setup, sandbox_teardown)

TEST_SUITE(seed_test)
{
	const struct CMUnitTest tests[] = {
		SANDBOXED(seed_has_all_three_files_even_when_empty),
		SANDBOXED(user_data_is_byte_for_byte),
		SANDBOXED(no_copy_of_user_data_stays_in_memory),
		SANDBOXED(a_seed_is_renewed_when_it_says_something_else),
		SANDBOXED(what_is_no_seed_is_not_emptied),
		cmocka_unit_test(meta_data_names_this_incarnation),
		cmocka_unit_test(hostnames_that_cannot_be_are_refused),
		cmocka_unit_test(network_config_has_every_nic),
		SANDBOXED(bad_nics_are_refused_with_their_path),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
