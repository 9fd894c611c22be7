#include "svc-converger/spec_check.h"

#include "lib/base/cleanup.h"
#include "lib/base/ids.h"
#include "lib/base/ip.h"
#include "lib/base/mac.h"
#include "lib/base/quote.h"
#include "lib/net/port_map.h"
#include "svc-converger/instance_spec.h"
#include "svc-converger/spec_instance.h"
#include "svc-converger/spec_walk.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)
#define TIB (UINT64_C(1) << 40)
#define SECTOR UINT64_C(512)

enum {
	INSTANCES_MAX = 10000,
	VOLUMES_MAX = 10000,
	HOLDS_MAX = 1000,
	GPUS_MAX = 64,
	PORTS_MAX = 256,
	NICS_MAX = 100,
	HOLD_ID_MAX = 128
};

static const char HOLD_CHARS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-";

/* --- identifiers that must be unique --- */

struct named {
	const char *id; /* weak */
	size_t index;
};

static int named_compare(const void *a, const void *b)
{
	const struct named *x = a, *y = b;
	int r = strcmp(x->id, y->id);

	return r ? r : (x->index > y->index) - (x->index < y->index);
}

/* Sorts, and says of each that has an earlier one's id whose it is. list is the path of the list. */
static void unique_check(
        struct spec_walk *walk, const char *list, const char *field, struct named *items, size_t n)
{
	qsort(items, n, sizeof(*items), named_compare);
	for (size_t i = 1, first = 0; i < n; i++) {
		if (!items[i].id[0] || strcmp(items[i].id, items[first].id) != 0) {
			first = i;
			continue;
		}
		size_t before = spec_enter_item(walk, list, items[i].index);

		spec_fault(walk, field, "'%s' is also that of %s[%zu]", QUOTED(items[i].id), list,
		        items[first].index);
		spec_leave(walk, before);
	}
}

/* --- ports of the host that two instances want --- */

struct port_claim {
	const Bc__V1__PortMapping *mapping; /* weak */
	struct ip ip;                       /* family 0: every address */
	uint32_t instance, index;
};

static int port_compare(const void *a, const void *b)
{
	const struct port_claim *x = a, *y = b;
	int r = (int)port_map_protocol(x->mapping) - (int)port_map_protocol(y->mapping);

	if (!r)
		r = (int)x->mapping->host_port - (int)y->mapping->host_port;
	if (!r)
		r = x->ip.family - y->ip.family;
	if (!r)
		r = memcmp(x->ip.bytes, y->ip.bytes, sizeof(x->ip.bytes));
	if (!r)
		r = x->instance < y->instance ? -1 : x->instance > y->instance;
	return r ? r : x->index < y->index ? -1 : x->index > y->index;
}

/* An instance that is to be stopped holds no port and no MAC: another may have it already. */
static bool is_up(const Bc__V1__InstanceSpec *spec)
{
	return spec->desired_state != BC__V1__INSTANCE_SPEC__DESIRED_STATE__STOPPED;
}

static size_t n_ports(const Bc__V1__InstanceSpec *spec)
{
	return spec->n_port_mappings < PORTS_MAX ? spec->n_port_mappings : PORTS_MAX;
}

/* Fills claims with every mapping that can be compared; their number. */
static size_t ports_collect(const Bc__V1__Instances *instances, struct port_claim *claims)
{
	size_t n = 0;

	for (size_t i = 0; i < instances->n_items; i++) {
		const Bc__V1__InstanceSpec *spec = instances->items[i];

		for (size_t j = 0; is_up(spec) && j < n_ports(spec); j++) {
			struct port_claim claim = { .mapping = spec->port_mappings[j],
				.instance = (uint32_t)i,
				.index = (uint32_t)j };

			if (claim.mapping->host_port < 1 || claim.mapping->host_port > 65535)
				continue;
			if (claim.mapping->host_address[0] &&
			        ip_parse("", claim.mapping->host_address, &claim.ip, NULL) < 0)
				continue;
			claims[n++] = claim;
		}
	}
	return n;
}

static void port_taken(struct spec_walk *walk, const struct port_claim *a, const struct port_claim *b)
{
	bool a_first = a->instance != b->instance ? a->instance < b->instance : a->index < b->index;
	const struct port_claim *first = a_first ? a : b, *second = a_first ? b : a;
	char text[PORT_MAP_TEXT_MAX];
	size_t before = spec_enter_item(walk, "instances.items", second->instance);
	size_t inner = spec_enter_item(walk, "port_mappings", second->index);

	spec_fault(walk, "host_port", "%s is taken by instances.items[%u].portMappings[%u]",
	        port_map_text(second->mapping, text, sizeof(text)), first->instance, first->index);
	spec_leave(walk, inner);
	spec_leave(walk, before);
}

static int ports_check(struct spec_walk *walk, const Bc__V1__Instances *instances)
{
	CLEANUP_FREE struct port_claim *claims = NULL;
	size_t n = 0;

	for (size_t i = 0; i < instances->n_items; i++)
		n += is_up(instances->items[i]) ? n_ports(instances->items[i]) : 0;
	if (n == 0)
		return 0;
	claims = calloc(n, sizeof(*claims));
	if (!claims)
		return -ENOMEM;
	n = ports_collect(instances, claims);
	qsort(claims, n, sizeof(*claims), port_compare);

	/* In the order of the sort a mapping of every address leads the others of its port, and equal ones follow
	 * each other: two comparisons find whatever overlaps. */
	for (size_t i = 1, lead = 0; i < n; i++) {
		if (claims[i].mapping->host_port != claims[lead].mapping->host_port ||
		        port_map_protocol(claims[i].mapping) != port_map_protocol(claims[lead].mapping))
			lead = i;
		else if (port_map_overlaps(claims[i].mapping, claims[lead].mapping))
			port_taken(walk, &claims[lead], &claims[i]);
		else if (port_map_overlaps(claims[i].mapping, claims[i - 1].mapping))
			port_taken(walk, &claims[i - 1], &claims[i]);
	}
	return 0;
}

/* --- MACs that two instances have on one network of the host --- */

struct mac_claim {
	struct mac mac;
	const char *segment; /* weak; the bridge, or a macvtap's parent */
	uint32_t instance, index;
};

static int mac_compare(const void *a, const void *b)
{
	const struct mac_claim *x = a, *y = b;
	int r = memcmp(x->mac.bytes, y->mac.bytes, sizeof(x->mac.bytes));

	if (!r)
		r = strcmp(x->segment, y->segment);
	if (!r)
		r = x->instance < y->instance ? -1 : x->instance > y->instance;
	return r ? r : x->index < y->index ? -1 : x->index > y->index;
}

static size_t n_nics(const Bc__V1__InstanceSpec *spec)
{
	return !is_up(spec) ? 0 : spec->n_nics < NICS_MAX ? spec->n_nics : NICS_MAX;
}

static size_t macs_collect(const Bc__V1__Instances *instances, struct mac_claim *claims)
{
	size_t n = 0;

	for (size_t i = 0; i < instances->n_items; i++) {
		const Bc__V1__InstanceSpec *spec = instances->items[i];

		for (size_t j = 0; j < n_nics(spec); j++) {
			struct mac_claim claim = { .segment = instance_nic_segment(spec->nics[j]),
				.instance = (uint32_t)i,
				.index = (uint32_t)j };

			if (claim.segment && mac_parse("", spec->nics[j]->mac, &claim.mac, NULL) == 0)
				claims[n++] = claim;
		}
	}
	return n;
}

/* Within one instance a MAC is no NIC's twice, whatever it is attached to; that is said where the instance is. */
static int macs_check(struct spec_walk *walk, const Bc__V1__Instances *instances)
{
	CLEANUP_FREE struct mac_claim *claims = NULL;
	size_t n = 0;

	for (size_t i = 0; i < instances->n_items; i++)
		n += n_nics(instances->items[i]);
	if (n == 0)
		return 0;
	claims = calloc(n, sizeof(*claims));
	if (!claims)
		return -ENOMEM;
	n = macs_collect(instances, claims);
	qsort(claims, n, sizeof(*claims), mac_compare);
	for (size_t i = 1, first = 0; i < n; i++) {
		const struct mac_claim *a = &claims[first], *b = &claims[i];

		if (!mac_equal(&a->mac, &b->mac) || strcmp(a->segment, b->segment) != 0) {
			first = i;
			continue;
		}
		if (a->instance == b->instance)
			continue;
		size_t before = spec_enter_item(walk, "instances.items", b->instance);
		size_t inner = spec_enter_item(walk, "nics", b->index);

		spec_fault(walk, "mac", "'%s' is also that of instances.items[%u].nics[%u], on '%s' too",
		        instances->items[b->instance]->nics[b->index]->mac, a->instance, a->index,
		        QUOTED(b->segment));
		spec_leave(walk, inner);
		spec_leave(walk, before);
	}
	return 0;
}

/* --- the sections --- */

static int instances_check(struct spec_walk *walk, const Bc__V1__Instances *instances, const bool *is_known)
{
	CLEANUP_FREE struct named *ids = calloc(instances->n_items + 1, sizeof(*ids));

	if (!ids)
		return -ENOMEM;
	spec_check_count(walk, "instances.items", instances->n_items, INSTANCES_MAX);
	for (size_t i = 0; i < instances->n_items; i++) {
		size_t before = spec_enter_item(walk, "instances.items", i);

		if (!is_known || !is_known[i])
			spec_check_instance(walk, instances->items[i]);
		spec_leave(walk, before);
		ids[i] = (struct named){ .id = instances->items[i]->id, .index = i };
	}
	unique_check(walk, "instances.items", "id", ids, instances->n_items);
	int r = ports_check(walk, instances);

	return r < 0 ? r : macs_check(walk, instances);
}

static void volume_check(struct spec_walk *walk, const Bc__V1__Volume *volume)
{
	spec_check_with(walk, "id", volume->id, volume_id_check);
	spec_check_enum(walk, "state", &bc__v1__volume__state__descriptor, (int)volume->state, true);
	if (volume->state == BC__V1__VOLUME__STATE__ABSENT)
		return;
	spec_check_range(walk, "size_bytes", volume->size_bytes, MIB, 64 * TIB);
	spec_check_multiple(walk, "size_bytes", volume->size_bytes, SECTOR);
}

static int volumes_check(struct spec_walk *walk, const Bc__V1__NodeSpec *spec)
{
	CLEANUP_FREE struct named *ids = calloc(spec->n_volumes + 1, sizeof(*ids));

	if (!ids)
		return -ENOMEM;
	spec_check_count(walk, "volumes", spec->n_volumes, VOLUMES_MAX);
	for (size_t i = 0; i < spec->n_volumes; i++) {
		size_t before = spec_enter_item(walk, "volumes", i);

		volume_check(walk, spec->volumes[i]);
		spec_leave(walk, before);
		ids[i] = (struct named){ .id = spec->volumes[i]->id, .index = i };
	}
	unique_check(walk, "volumes", "id", ids, spec->n_volumes);
	return 0;
}

static int holds_check(struct spec_walk *walk, const Bc__V1__NodeSpec *spec)
{
	CLEANUP_FREE struct named *ids = calloc(spec->n_holds + 1, sizeof(*ids));

	if (!ids)
		return -ENOMEM;
	spec_check_count(walk, "holds", spec->n_holds, HOLDS_MAX);
	for (size_t i = 0; i < spec->n_holds; i++) {
		size_t before = spec_enter_item(walk, "holds", i);

		spec_check_chars(walk, "id", spec->holds[i]->id, HOLD_CHARS, HOLD_ID_MAX,
		        "a hold's id; write 1 to 128 characters of A-Z, a-z, 0-9, '.', '_', ':' and '-'");
		spec_check_range(walk, "memory_bytes", spec->holds[i]->memory_bytes, 0, 64 * TIB);
		spec_leave(walk, before);
		ids[i] = (struct named){ .id = spec->holds[i]->id, .index = i };
	}
	unique_check(walk, "holds", "id", ids, spec->n_holds);
	return 0;
}

/* "dddd:bb:ss.f", in the kernel's own spelling. */
static bool pci_address_is_valid(const char *s)
{
	static const char FORM[] = "hhhh:hh:hh.o";
	size_t i;

	for (i = 0; FORM[i] && s[i]; i++) {
		const char *chars = FORM[i] == 'h' ? "0123456789abcdef" : FORM[i] == 'o' ? "01234567" : NULL;

		if (chars ? !strchr(chars, s[i]) : s[i] != FORM[i])
			return false;
	}
	return !FORM[i] && !s[i];
}

static int gpus_check(struct spec_walk *walk, const Bc__V1__NodeSpec *spec)
{
	CLEANUP_FREE struct named *ids = calloc(spec->n_gpus + 1, sizeof(*ids));
	CLEANUP_FREE struct named *addresses = calloc(spec->n_gpus + 1, sizeof(*addresses));

	if (!ids || !addresses)
		return -ENOMEM;
	spec_check_count(walk, "gpus", spec->n_gpus, GPUS_MAX);
	for (size_t i = 0; i < spec->n_gpus; i++) {
		const Bc__V1__Gpu *gpu = spec->gpus[i];
		size_t before = spec_enter_item(walk, "gpus", i);

		spec_check_gpu_id(walk, "id", gpu->id);
		if (gpu->pci_address[0] && !pci_address_is_valid(gpu->pci_address))
			spec_fault(walk, "pci_address",
			        "'%s' is not a PCI address; write one like 0000:65:00.0",
			        QUOTED(gpu->pci_address));
		spec_leave(walk, before);
		ids[i] = (struct named){ .id = gpu->id, .index = i };
		addresses[i] = (struct named){ .id = gpu->pci_address, .index = i };
	}
	unique_check(walk, "gpus", "id", ids, spec->n_gpus);
	unique_check(walk, "gpus", "pci_address", addresses, spec->n_gpus);
	return 0;
}

/* An instance cannot attach what the same spec destroys. */
static int destroyed_check(struct spec_walk *walk, const Bc__V1__NodeSpec *spec)
{
	CLEANUP_FREE struct named *absent = calloc(spec->n_volumes + 1, sizeof(*absent));
	size_t n = 0;

	if (!absent)
		return -ENOMEM;
	for (size_t i = 0; i < spec->n_volumes; i++)
		if (spec->volumes[i]->state == BC__V1__VOLUME__STATE__ABSENT)
			absent[n++] = (struct named){ .id = spec->volumes[i]->id };
	if (n == 0)
		return 0;
	qsort(absent, n, sizeof(*absent), named_compare);
	for (size_t i = 0; i < spec->instances->n_items; i++) {
		const Bc__V1__InstanceSpec *instance = spec->instances->items[i];
		size_t before = spec_enter_item(walk, "instances.items", i);

		for (size_t j = 0; j < instance->n_volumes; j++) {
			struct named wanted = { .id = instance->volumes[j]->volume_id };

			if (bsearch(&wanted, absent, n, sizeof(*absent), named_compare)) {
				size_t inner = spec_enter_item(walk, "volumes", j);

				spec_fault(walk, "volume_id", "'%s' is ABSENT in the volumes of this spec",
				        QUOTED(wanted.id));
				spec_leave(walk, inner);
			}
		}
		spec_leave(walk, before);
	}
	return 0;
}

int spec_check_rest(
        const Bc__V1__NodeSpec *spec, const char *node_id, const bool *is_known, struct spec_report *ret)
{
	struct spec_walk walk = { .report = ret };
	int r;

	memset(ret, 0, sizeof(*ret));
	if (spec->node_id[0] && strcmp(spec->node_id, node_id) != 0) {
		spec_fault(&walk, "node_id", "this spec is for the node '%s', this is '%s'",
		        QUOTED(spec->node_id), node_id);
		return -EINVAL;
	}
	if (spec->revision == 0)
		spec_fault(&walk, "revision", "is not set; write one above the last accepted");
	if (spec->revision == UINT64_MAX) /* no spec could ever follow it */
		spec_fault(&walk, "revision", "%llu is the last there is; write a smaller one",
		        (unsigned long long)spec->revision);
	r = spec->instances ? instances_check(&walk, spec->instances, is_known) : 0;
	if (r == 0)
		r = volumes_check(&walk, spec);
	if (r == 0)
		r = holds_check(&walk, spec);
	if (r == 0)
		r = gpus_check(&walk, spec);
	if (r == 0 && spec->instances)
		r = destroyed_check(&walk, spec);
	return r < 0 ? r : ret->n_faults ? -EINVAL : 0;
}

char *spec_report_text(const struct spec_report *report, char *buf, size_t size)
{
	size_t n_shown = report->n_faults < SPEC_FAULTS_SHOWN ? report->n_faults : SPEC_FAULTS_SHOWN;
	size_t n = 0;
	int more = snprintf(buf, size, "%zu %s in the NodeSpec:", report->n_faults,
	        report->n_faults == 1 ? "fault" : "faults");

	for (size_t i = 0; more >= 0 && (n += (size_t)more) < size && i < n_shown; i++)
		more = snprintf(buf + n, size - n, "\n  %s", report->faults[i]);
	if (n < size && report->n_faults > n_shown)
		(void)snprintf(buf + n, size - n, "\n  and %zu more", report->n_faults - n_shown);
	return buf;
}

int spec_check(const Bc__V1__NodeSpec *spec, const char *node_id, struct spec_report *ret)
{
	return spec_check_rest(spec, node_id, NULL, ret);
}
