#include "svc-runtime-libvirt/domain_message.h"

#include "svc-runtime-libvirt/console.h"

#include <stdlib.h>

/* Everything a message needs beside the entry, in one allocation: the arrays follow the struct. */
struct message {
	Bc__V1__Domain domain;
	Bc__V1__BootTimings boot;
	Google__Protobuf__Timestamp since;
	int64_t pid;
	char *free; /* weak: where the next array begins */
};

static void *take(struct message *m, size_t size)
{
	void *at = m->free;

	m->free += size;
	return at;
}

static size_t array_bytes(const struct domain_def *def)
{
	return def->n_nics * (sizeof(Bc__V1__NicStatus) + sizeof(void *)) +
	        def->n_volumes * (sizeof(Bc__V1__VolumePath) + sizeof(void *)) +
	        def->n_ports * (sizeof(Bc__V1__PortMapping) + sizeof(void *)) + def->n_gpus * sizeof(void *);
}

/* Of a job that is off its last words decide whether it failed: nobody hears that it is off before they were read. */
static bool is_ending(const struct domain_entry *entry)
{
	return domain_entry_managed(entry) && entry->look.record.def->kind == DOMAIN_JOB && entry->console &&
	        console_attached(entry->console);
}

static Bc__V1__Domain__State state_of(const struct domain_entry *entry)
{
	if (entry->stop && domain_state_is_active(entry->condition.state))
		return BC__V1__DOMAIN__STATE__STOPPING;
	switch (entry->condition.state) {
	case DOMAIN_STOPPED:
		return is_ending(entry) ? BC__V1__DOMAIN__STATE__STOPPING : BC__V1__DOMAIN__STATE__STOPPED;
	case DOMAIN_RUNNING:
		return BC__V1__DOMAIN__STATE__RUNNING;
	case DOMAIN_PAUSED:
		/* between its creation and its first instruction: see lifecycle.c */
		return entry->starting ? BC__V1__DOMAIN__STATE__STOPPED : BC__V1__DOMAIN__STATE__PAUSED;
	case DOMAIN_STOPPING:
		return BC__V1__DOMAIN__STATE__STOPPING;
	case DOMAIN_CRASHED:
		return is_ending(entry) ? BC__V1__DOMAIN__STATE__STOPPING : BC__V1__DOMAIN__STATE__CRASHED;
	}
	return BC__V1__DOMAIN__STATE__STATE_UNSPECIFIED;
}

static uint64_t since_begin_ns(const struct domain_boot_times *boot, uint64_t usec)
{
	return usec > boot->begun_usec && boot->begun_usec ? (usec - boot->begun_usec) * 1000 : 0;
}

static void add_nics(struct message *m, const struct domain_def *def)
{
	m->domain.nics = take(m, def->n_nics * sizeof(*m->domain.nics));
	for (size_t i = 0; i < def->n_nics; i++) {
		const struct domain_nic *nic = &def->nics[i];
		Bc__V1__NicStatus *status = take(m, sizeof(*status));
		*status = (Bc__V1__NicStatus)BC__V1__NIC_STATUS__INIT;
		status->index = (uint32_t)i;
		status->mac = (char *)nic->mac;
		status->interface = (char *)nic->ifname;
		status->addresses = nic->addresses;
		status->n_addresses = nic->n_addresses;
		status->queues = nic->queues;
		status->vhost = nic->vhost;
		status->filtered = nic->filtered;
		m->domain.nics[i] = status;
	}
	m->domain.n_nics = def->n_nics;
}

static void add_volumes(struct message *m, const struct domain_def *def)
{
	m->domain.volumes = take(m, def->n_volumes * sizeof(*m->domain.volumes));
	for (size_t i = 0; i < def->n_volumes; i++) {
		const struct domain_volume *volume = &def->volumes[i];
		Bc__V1__VolumePath *path = take(m, sizeof(*path));
		*path = (Bc__V1__VolumePath)BC__V1__VOLUME_PATH__INIT;
		path->volume_id = (char *)volume->id;
		path->serial = (char *)volume->serial;
		path->path = volume->path;
		path->read_only = volume->read_only;
		path->size_bytes = volume->size_bytes;
		m->domain.volumes[i] = path;
	}
	m->domain.n_volumes = def->n_volumes;
}

static void add_ports(struct message *m, const struct domain_def *def)
{
	m->domain.ports = take(m, def->n_ports * sizeof(*m->domain.ports));
	for (size_t i = 0; i < def->n_ports; i++) {
		const struct domain_port *port = &def->ports[i];
		Bc__V1__PortMapping *mapping = take(m, sizeof(*mapping));
		*mapping = (Bc__V1__PortMapping)BC__V1__PORT_MAPPING__INIT;
		mapping->protocol = port->protocol == PORT_UDP ? BC__V1__PORT_MAPPING__PROTOCOL__UDP
		                                               : BC__V1__PORT_MAPPING__PROTOCOL__TCP;
		mapping->host_address = port->host_address;
		mapping->host_port = port->host_port;
		mapping->guest_port = port->guest_port;
		mapping->nic_case = BC__V1__PORT_MAPPING__NIC_NIC_INDEX;
		mapping->nic_index = port->nic_index;
		m->domain.ports[i] = mapping;
	}
	m->domain.n_ports = def->n_ports;
}

static void add_managed(struct message *m, const struct domain_entry *entry)
{
	const struct domain_def *def = entry->look.record.def;
	const struct domain_boot_times *boot = &entry->boot;
	Bc__V1__Domain *d = &m->domain;

	d->allocation_id = def->allocation_id;
	d->image_digest = (char *)def->image_digest;
	d->restored_from = def->restored_from ? def->restored_from : d->restored_from;
	d->identity_rebound_ref = def->rebound_ref ? def->rebound_ref : d->identity_rebound_ref;
	d->completed = entry->completed;
	d->spec_digest = (char *)def->spec_digest;
	add_nics(m, def);
	add_volumes(m, def);
	add_ports(m, def);
	d->gpu_device_ids = take(m, def->n_gpus * sizeof(*d->gpu_device_ids));
	for (size_t i = 0; i < def->n_gpus; i++)
		d->gpu_device_ids[i] = def->gpus[i].uuid;
	d->n_gpu_device_ids = def->n_gpus;
	if (boot->begun_usec) {
		m->boot = (Bc__V1__BootTimings)BC__V1__BOOT_TIMINGS__INIT;
		m->boot.prepared_ns = since_begin_ns(boot, boot->prepared_usec);
		m->boot.vmm_started_ns = since_begin_ns(boot, boot->started_usec);
		m->boot.first_output_ns = since_begin_ns(boot, boot->first_output_usec);
		m->boot.ready_ns = since_begin_ns(boot, boot->ready_usec);
		d->boot = &m->boot;
	}
}

Bc__V1__Domain *domain_message_new(const struct domain_entry *entry)
{
	const struct domain_def *def = domain_entry_managed(entry) ? entry->look.record.def : NULL;
	struct message *m = calloc(1, sizeof(*m) + (def ? array_bytes(def) : 0));

	if (!m)
		return NULL;
	m->free = (char *)(m + 1);
	Bc__V1__Domain *d = &m->domain;
	*d = (Bc__V1__Domain)BC__V1__DOMAIN__INIT;
	d->id = (char *)entry->uuid;
	if (!entry->look.present)
		return d;
	d->name = entry->look.record.name;
	d->managed = entry->look.record.managed;
	d->state = state_of(entry);
	d->reason = (char *)entry->condition.reason;
	d->message = (char *)entry->condition.message;
	d->vcpus = entry->look.record.vcpus;
	d->memory_bytes = entry->look.record.memory_bytes;
	d->huge_page_bytes = entry->look.record.huge_page_bytes;
	d->accel = (char *)(entry->look.record.kvm ? "kvm" : "tcg");
	if (entry->look.pid) {
		m->pid = entry->look.pid;
		d->vmm_pids = &m->pid;
		d->n_vmm_pids = 1;
	}
	if (entry->look.cgroup)
		d->cgroup = entry->look.cgroup;
	if (entry->since_usec) {
		m->since = (Google__Protobuf__Timestamp)GOOGLE__PROTOBUF__TIMESTAMP__INIT;
		m->since.seconds = (int64_t)(entry->since_usec / 1000000);
		m->since.nanos = (int32_t)(entry->since_usec % 1000000 * 1000);
		d->since = &m->since;
	}
	if (def)
		add_managed(m, entry);
	return d;
}

void domain_message_free(Bc__V1__Domain *message)
{
	free(message); /* the first member of what was allocated */
}
