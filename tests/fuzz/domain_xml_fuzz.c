/* A domain's XML as libvirt tells it, which anybody who may speak to libvirt can have written. What is taken for ours
 * bears every sign of it, and written again it is the same. */
#include "svc-runtime-libvirt/domain_xml.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_data);

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void write_again(const struct domain_def *def)
{
	struct domain_host host = {
		.emulator = "/usr/bin/qemu-system-x86_64", .disk_cache = "none", .kvm = true
	};
	CLEANUP_FREE char *xml = NULL;
	struct domain_record again;

	if (domain_xml_write(def, &host, &xml, NULL) < 0)
		return;
	require(domain_xml_read(xml, &again, NULL) == 0 && again.managed);
	require(strcmp(again.def->allocation_id, def->allocation_id) == 0);
	require(strcmp(again.def->spec_digest, def->spec_digest) == 0);
	require(again.def->boot == def->boot && again.def->kind == def->kind);
	require(again.def->n_nics == def->n_nics && again.def->n_ports == def->n_ports);
	require(again.def->n_volumes == def->n_volumes && again.def->n_gpus == def->n_gpus);
	for (size_t i = 0; i < def->n_nics; i++)
		require(strcmp(again.def->nics[i].mac, def->nics[i].mac) == 0 &&
		        again.def->nics[i].n_addresses == def->nics[i].n_addresses);
	for (size_t i = 0; i < def->n_volumes; i++)
		require(strcmp(again.def->volumes[i].path, def->volumes[i].path) == 0);
	domain_record_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_data)
{
	CLEANUP_FREE char *text = malloc(n_data + 1);
	struct domain_record record;
	char name[DOMAIN_NAME_MAX];

	require(text != NULL);
	memcpy(text, data, n_data);
	text[n_data] = '\0';
	if (domain_xml_read(text, &record, NULL) < 0)
		return 0;
	require(record.name && record.managed == (record.def != NULL));
	if (record.def) {
		domain_name(record.def->id, name);
		require(record.def->allocation_id && strcmp(record.def->id, record.uuid) == 0 &&
		        strcmp(record.name, name) == 0);
		write_again(record.def);
	}
	domain_record_done(&record);
	return 0;
}
