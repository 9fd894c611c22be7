#include "svc-runtime-libvirt/host_facts.h"

#include "lib/base/atomic_file.h"
#include "lib/base/sha256.h"
#include "svc-runtime-libvirt/accel.h"
#include "svc-runtime-libvirt/virt_err.h"
#include "svc-runtime-libvirt/xml_node.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct facts_job {
	struct job job;
	const struct runtime_conf *conf; /* weak */
	virConnectPtr conn;              /* owned */
	void (*fn)(const struct host_facts *facts, void *userdata);
	void *userdata;
	struct host_facts facts;
	int r;
};

int host_facts_cpu_model(const char *capabilities_xml, char *buf, size_t size)
{
	CLEANUP_XML_DOC xmlDoc *doc = NULL;
	CLEANUP_FREE char *text = NULL;
	char model[64], hex[SHA256_HEX_MAX];
	uint8_t sum[SHA256_SIZE];

	buf[0] = '\0';
	int r = xml_parse(capabilities_xml, strlen(capabilities_xml), &doc, NULL);
	if (r < 0)
		return r;
	xmlNode *mode = xml_child(xml_child(xmlDocGetRootElement(doc), "cpu"), "mode");
	while (mode && !xml_attr_is(mode, "name", "host-model"))
		mode = xml_next(mode, "mode");
	if (xml_text(xml_child(mode, "model"), model, sizeof(model)) < 0 || !model[0])
		return 0;
	r = xml_element_text(mode, &text);
	if (r == 0)
		r = sha256(text, strlen(text), sum);
	if (r < 0)
		return r;
	sha256_to_hex(sum, hex);
	(void)snprintf(buf, size, "%s+%.8s", model, hex);
	return 0;
}

static bool libvirt_has_kvm(struct facts_job *f)
{
	CLEANUP_FREE char *xml =
	        virConnectGetDomainCapabilities(f->conn, f->conf->emulator, "x86_64", "q35", "kvm", 0);

	if (!xml) {
		struct err err = { 0 };
		int r = virt_err(&err, "libvirt");
		(void)snprintf(
		        f->facts.accel_reason, sizeof(f->facts.accel_reason), "%.150s", err_text(&err, r));
		return false;
	}
	(void)host_facts_cpu_model(xml, f->facts.cpu_model, sizeof(f->facts.cpu_model));
	return true;
}

static void find_accel(struct facts_job *f)
{
	CLEANUP_FREE char *cpuinfo = NULL;

	switch ((enum accel_wish)f->conf->accel) {
	case ACCEL_TCG:
		(void)snprintf(f->facts.accel_reason, sizeof(f->facts.accel_reason), "configured");
		return;
	case ACCEL_KVM:
		f->facts.kvm = true;
		(void)libvirt_has_kvm(f);
		f->facts.accel_reason[0] = '\0';
		return;
	case ACCEL_AUTO:
		if (file_read(AT_FDCWD, "/proc/cpuinfo", 16 << 20, &cpuinfo, NULL) < 0)
			return;
		f->facts.kvm = accel_host_has_kvm("/dev/kvm", cpuinfo, f->facts.accel_reason,
		                       sizeof(f->facts.accel_reason)) &&
		        libvirt_has_kvm(f);
		return;
	}
}

static void facts_run(struct job *job)
{
	struct facts_job *f = CONTAINER_OF(job, struct facts_job, job);
	unsigned long version = 0;

	find_accel(f);
	if (virConnectGetVersion(f->conn, &version) < 0)
		f->r = virt_err(NULL, "version");
	(void)snprintf(f->facts.version, sizeof(f->facts.version), "%lu.%lu.%lu", version / 1000000,
	        version / 1000 % 1000, version % 1000);
	if (!f->facts.kvm) {
		/* makes libvirt learn what QEMU can do before the first instance needs it */
		free(virConnectGetDomainCapabilities(f->conn, f->conf->emulator, "x86_64", "q35", "qemu", 0));
		(void)snprintf(
		        f->facts.cpu_model, sizeof(f->facts.cpu_model), "qemu64 (TCG %s)", f->facts.version);
	}
	(void)virConnectClose(f->conn);
}

static void facts_done(struct job *job)
{
	struct facts_job *f = CONTAINER_OF(job, struct facts_job, job);

	if (f->r != -ENOTCONN)
		f->fn(&f->facts, f->userdata);
	free(f);
}

int host_facts_find(struct job_pool *pool, struct virt *virt, const struct runtime_conf *conf,
        void (*fn)(const struct host_facts *facts, void *userdata), void *userdata)
{
	struct facts_job *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	f->conf = conf;
	f->fn = fn;
	f->userdata = userdata;
	f->conn = virt_ref(virt);
	f->job = (struct job){ .run = facts_run, .done = facts_done, .key = "host-facts" };
	int r = f->conn ? job_submit(pool, &f->job) : -ENOTCONN;
	if (r < 0) {
		if (f->conn)
			(void)virConnectClose(f->conn);
		free(f);
	}
	return r;
}
