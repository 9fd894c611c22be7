#include "svc-runtime-libvirt/domain_def.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void nic_done(struct domain_nic *nic)
{
	for (size_t i = 0; i < nic->n_addresses; i++)
		free(nic->addresses[i]);
	free(nic->addresses);
}

struct domain_def *domain_def_free(struct domain_def *def)
{
	if (!def)
		return NULL;
	for (size_t i = 0; i < def->n_nics; i++)
		nic_done(&def->nics[i]);
	for (size_t i = 0; i < def->n_ports; i++)
		free(def->ports[i].host_address);
	for (size_t i = 0; i < def->n_volumes; i++)
		free(def->volumes[i].path);
	for (size_t i = 0; i < def->n_gpus; i++)
		free(def->gpus[i].uuid);
	free(def->nics);
	free(def->ports);
	free(def->volumes);
	free(def->gpus);
	free(def->cpu_pins);
	free(def->emulator_cpus);
	free(def->numa_nodes);
	free(def->allocation_id);
	free(def->image_path);
	free(def->disk_path);
	free(def->nvram_path);
	free(def->kernel);
	free(def->initramfs);
	free(def->cmdline);
	free(def->seed_path);
	free(def->log_path);
	free(def->restored_from);
	free(def->rebound_ref);
	free(def);
	return NULL;
}

void domain_name(const char *id, char ret[static DOMAIN_NAME_MAX])
{
	(void)snprintf(ret, DOMAIN_NAME_MAX, "bc-%s", id);
}

bool domain_has_user_ports(const struct domain_def *def, size_t nic_index)
{
	for (size_t i = 0; i < def->n_ports; i++)
		if (def->ports[i].nic_index == nic_index)
			return true;
	return false;
}

static const char *const nic_kinds[] = { [NIC_TAP] = "tap", [NIC_MACVTAP] = "macvtap", [NIC_USER] = "user" };
static const char *const port_protocols[] = { [PORT_TCP] = "tcp", [PORT_UDP] = "udp" };
static const char *const domain_kinds[] = { [DOMAIN_SERVER] = "server", [DOMAIN_JOB] = "job" };

static int index_of(const char *const *words, size_t n_words, const char *word)
{
	for (size_t i = 0; i < n_words; i++)
		if (strcmp(words[i], word) == 0)
			return (int)i;
	return -EINVAL;
}

const char *nic_kind_to_string(enum nic_kind kind)
{
	return nic_kinds[kind];
}

int nic_kind_from_string(const char *text, enum nic_kind *ret)
{
	int i = index_of(nic_kinds, ARRAY_SIZE(nic_kinds), text);

	if (i >= 0)
		*ret = (enum nic_kind)i;
	return i < 0 ? i : 0;
}

const char *port_protocol_to_string(enum port_protocol protocol)
{
	return port_protocols[protocol];
}

int port_protocol_from_string(const char *text, enum port_protocol *ret)
{
	int i = index_of(port_protocols, ARRAY_SIZE(port_protocols), text);

	if (i >= 0)
		*ret = (enum port_protocol)i;
	return i < 0 ? i : 0;
}

const char *domain_kind_to_string(enum domain_kind kind)
{
	return domain_kinds[kind];
}

int domain_kind_from_string(const char *text, enum domain_kind *ret)
{
	int i = index_of(domain_kinds, ARRAY_SIZE(domain_kinds), text);

	if (i >= 0)
		*ret = (enum domain_kind)i;
	return i < 0 ? i : 0;
}
