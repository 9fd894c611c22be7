/* Every definition that a golden test holds is one that libvirt takes, schema and all: defined on the embedded driver,
 * read back, and gone again. */
#include "lib/base/atomic_file.h"
#include "lib/base/cleanup.h"
#include "svc-runtime-libvirt/domain_xml.h"
#include "svc-runtime-libvirt/embed_root.h"
#include "svc-runtime-libvirt/virt.h"
#include "svc-runtime-libvirt/virt_err.h"
#include "tests/harness/suite.h"
#include "tests/libvirt/root.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libvirt/libvirt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct driver {
	struct root root;
	int lock_fd;
	virConnectPtr conn;
};

static int setup(void **state)
{
	struct driver *driver = calloc(1, sizeof(*driver));

	assert_non_null(driver);
	root_make(&driver->root);
	assert_int_equal(embed_root_prepare(driver->root.path, &driver->lock_fd, NULL), 0);
	assert_int_equal(virt_start_events(), 0);
	driver->conn = virConnectOpen(driver->root.uri);
	assert_non_null(driver->conn);
	*state = driver;
	return 0;
}

static int teardown(void **state)
{
	struct driver *driver = *state;

	(void)virConnectClose(driver->conn);
	(void)close(driver->lock_fd);
	root_remove(&driver->root);
	free(driver);
	return 0;
}

/* A definition for KVM is only taken where there is one; nothing else in it depends on that. */
static char *for_this_host(virConnectPtr conn, const char *golden)
{
	static const char kvm[] = "<domain type=\"kvm\"";
	CLEANUP_FREE char *caps = virConnectGetDomainCapabilities(conn, NULL, "x86_64", "q35", "kvm", 0);
	const char *at = strstr(golden, kvm);
	char *xml = NULL;

	if (caps || !at)
		return strdup(golden);
	assert_true(asprintf(&xml, "%.*s<domain type=\"qemu\"%s", (int)(at - golden), golden,
	                    at + strlen(kvm)) > 0);
	return xml;
}

static void define_one(const struct driver *driver, const char *name)
{
	CLEANUP_FREE char *golden = NULL, *back = NULL;
	struct domain_record ours, theirs;
	struct err err = { 0 };
	char path[512];

	(void)snprintf(path, sizeof(path), "%s/%s", BC_GOLDEN_DIR, name);
	assert_int_equal(file_read(AT_FDCWD, path, 1 << 20, &golden, NULL), 0);
	CLEANUP_FREE char *xml = for_this_host(driver->conn, golden);
	virDomainPtr domain = virDomainDefineXMLFlags(driver->conn, xml, VIR_DOMAIN_DEFINE_VALIDATE);
	if (!domain) {
		(void)virt_err(&err, name);
		fail_msg("%s", err.text);
	}
	back = virDomainGetXMLDesc(domain, VIR_DOMAIN_XML_INACTIVE);
	assert_non_null(back);
	/* what libvirt added and put in another order changes nothing of what we read */
	assert_int_equal(domain_xml_read(xml, &ours, &err), 0);
	assert_int_equal(domain_xml_read(back, &theirs, &err), 0);
	assert_true(ours.managed && theirs.managed);
	assert_string_equal(ours.def->spec_digest, theirs.def->spec_digest);
	assert_string_equal(ours.def->allocation_id, theirs.def->allocation_id);
	assert_int_equal(ours.vcpus, theirs.vcpus);
	assert_int_equal(ours.memory_bytes, theirs.memory_bytes);
	assert_int_equal(ours.huge_page_bytes, theirs.huge_page_bytes);
	assert_int_equal(ours.def->n_nics, theirs.def->n_nics);
	assert_int_equal(ours.def->n_volumes, theirs.def->n_volumes);
	assert_int_equal(ours.def->n_gpus, theirs.def->n_gpus);
	domain_record_done(&ours);
	domain_record_done(&theirs);
	assert_int_equal(virDomainUndefineFlags(domain, VIR_DOMAIN_UNDEFINE_KEEP_NVRAM), 0);
	(void)virDomainFree(domain);
}

static void every_definition_is_taken(void **state)
{
	CLEANUP_CLOSEDIR DIR *dir = opendir(BC_GOLDEN_DIR);
	const struct dirent *entry;
	size_t n = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		if (!strstr(entry->d_name, ".xml"))
			continue;
		print_message("%s\n", entry->d_name);
		define_one(*state, entry->d_name);
		n++;
	}
	assert_true(n >= 20);
}

/* So that what the test above says is worth something. */
static void what_the_schema_does_not_know_is_refused(void **state)
{
	const struct driver *driver = *state;
	static const char xml[] = "<domain type='qemu'><name>x</name><memory>65536</memory><vcpu>1</vcpu>"
	                          "<os><type arch='x86_64'>hvm</type></os><nonsense/></domain>";
	struct err err = { 0 };

	assert_null(virDomainDefineXMLFlags(driver->conn, xml, VIR_DOMAIN_DEFINE_VALIDATE));
	assert_int_equal(virt_err(&err, "define"), -EINVAL);
	assert_non_null(strstr(err.text, "nonsense"));
}

TEST_SUITE(define_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_definition_is_taken),
		cmocka_unit_test(what_the_schema_does_not_know_is_refused),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
