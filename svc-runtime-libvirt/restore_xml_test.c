#include "svc-runtime-libvirt/restore_xml.h"

#include "lib/base/cleanup.h"
#include "tests/harness/suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char WANTED[] =
        "<domain type='qemu'><name>bc-new</name><uuid>22222222-2222-4222-8222-222222222222</uuid>"
        "<memory unit='KiB'>262144</memory><currentMemory unit='KiB'>262144</currentMemory>"
        "<cputune><vcpupin vcpu='0' cpuset='3'/></cputune>"
        "<os><type arch='x86_64' machine='pc-q35-8.0'>hvm</type></os><features><acpi/></features><clock offset='utc'/>"
        "<devices><emulator>/usr/bin/qemu</emulator>"
        "<disk type='file'><source file='/new/disk'/><target dev='vda'/><address type='pci' slot='0x1'/></disk>"
        "<disk type='file'><source file='/new/seed'/><target dev='sda'/></disk>"
        "<interface type='ethernet'><mac address='52:54:00:00:00:02'/><target dev='bcnew'/></interface>"
        "<controller type='pci' index='0'/><serial type='pty'><log file='/new/log'/></serial>"
        "<memballoon model='virtio'/></devices></domain>";

static const char SAVED[] =
        "<domain type='qemu'><name>bc-old</name><uuid>11111111-1111-4111-8111-111111111111</uuid>"
        "<memory unit='KiB'>262144</memory><currentMemory unit='KiB'>131072</currentMemory>"
        "<cputune><vcpupin vcpu='0' cpuset='1'/></cputune>"
        "<os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type><kernel>/old/kernel</kernel></os>"
        "<cpu mode='custom'><model>qemu64</model></cpu><features><acpi/><apic/></features>"
        "<clock offset='utc'><timer name='hpet' present='no'/></clock>"
        "<devices><emulator>/old/qemu</emulator>"
        "<disk type='file'><source file='/old/seed'/><target dev='sda'/><address type='drive' unit='0'/></disk>"
        "<disk type='file'><source file='/old/disk'/><target dev='vda'/><address type='pci' slot='0x7'/></disk>"
        "<interface type='ethernet'><mac address='52:54:00:00:00:01'/><target dev='bcold'/>"
        "<address type='pci' slot='0x8'/></interface>"
        "<controller type='pci' index='0'/><controller type='pci' index='1' model='pcie-root-port'/>"
        "<serial type='file'><source path='/old/serial'/></serial>"
        "<filesystem type='mount'><source dir='/'/></filesystem>"
        "<memballoon model='virtio'><address type='pci' slot='0x9'/></memballoon></devices>"
        "<seclabel type='none'/></domain>";

static void host_is_ours_and_hardware_is_the_snapshots(void **state)
{
	static const char *const there[] = { "bc-new", "22222222", "machine=\"pc-q35-7.2\"", "qemu64",
		"<apic/>", "hpet", ">131072<", "/new/disk", "/new/seed", "slot=\"0x7\"", "slot=\"0x8\"",
		"slot=\"0x9\"", "52:54:00:00:00:02", "bcnew", "pcie-root-port", "cpuset=\"3\"",
		"/usr/bin/qemu", "/new/log", "type=\"drive\"" };
	static const char *const not_there[] = { "old", "11111111", "q35-8.0", "slot=\"0x1\"", "cpuset=\"1\"",
		"52:54:00:00:00:01", "filesystem", "seclabel", "kernel" };
	CLEANUP_FREE char *xml = NULL;

	(void)state;
	assert_int_equal(restore_xml_write(WANTED, SAVED, &xml, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(there); i++)
		if (!strstr(xml, there[i]))
			fail_msg("%s is not in %s", there[i], xml);
	for (size_t i = 0; i < ARRAY_SIZE(not_there); i++)
		if (strstr(xml, not_there[i]))
			fail_msg("%s is in %s", not_there[i], xml);
}

/* SAVED with one thing changed. */
static void what_does_not_fit_or_names_a_path_is_refused(void **state)
{
	static const struct {
		const char *from, *to, *word;
		int r;
	} cases[] = {
		{ "type='qemu'", "type='kvm'", "accelerator", -EBUSY },
		{ "dev='sda'", "dev='sdb'", "no disk 'sda'", -EBUSY },
		{ "<memballoon", "<disk type='file'><target dev='vdb'/></disk><memballoon", "3 disks",
		        -EBUSY },
		{ "<memballoon", "<interface type='user'/><memballoon", "2 NICs", -EBUSY },
		{ "<memballoon", "<hostdev mode='subsystem'/><memballoon", "passed through", -EBUSY },
		{ "pc-q35-7.2", "pc,accel=/x", "machine", -EINVAL },
		{ "machine='pc-q35-7.2'", "", "machine", -EINVAL },
		{ "<apic/>", "<apic>/etc/shadow</apic>", "features", -EINVAL },
		{ "<apic/>", "<apic file='/etc/shadow'/>", "features", -EINVAL },
		{ "<cpu mode='custom'", "<cpu mode='/etc/shadow'", "cpu", -EINVAL },
		{ "index='1'", "index='1' file='/dev/sda'", "controller", -EINVAL },
		{ "slot='0x8'", "slot='/dev/sda'", "address", -EINVAL },
		{ "<domain type", "<network type", "XML", -EINVAL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char saved[4096], *xml = NULL;
		struct err err = { 0 };
		const char *at = strstr(SAVED, cases[i].from);

		assert_non_null(at);
		(void)snprintf(saved, sizeof(saved), "%.*s%s%s", (int)(at - SAVED), SAVED, cases[i].to,
		        at + strlen(cases[i].from));
		int r = restore_xml_write(WANTED, saved, &xml, &err);
		if (r != cases[i].r || !strstr(err.text, cases[i].word))
			fail_msg("%s: %d %s", cases[i].to, r, err.text);
		assert_null(xml);
	}
	char *xml = NULL;
	assert_int_equal(restore_xml_write(WANTED, "<network/>", &xml, NULL), -EINVAL);
	assert_int_equal(restore_xml_write(WANTED, "", &xml, NULL), -EINVAL);
	assert_int_equal(
	        restore_xml_write(WANTED, "<!DOCTYPE x [<!ENTITY e 'x'>]><domain/>", &xml, NULL), -EINVAL);
}

TEST_SUITE(restore_xml_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(host_is_ours_and_hardware_is_the_snapshots),
		cmocka_unit_test(what_does_not_fit_or_names_a_path_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
