#include "svc-converger/netd_link.h"

#include "lib/base/cleanup.h"
#include "lib/base/tap_name.h"
#include "lib/rpc/message.h"
#include "svc-converger/id_map.h"

#include <stdio.h>
#include <string.h>

struct holder {
	char instance_id[UUID_TEXT_MAX];
	uint8_t indexes[(TAP_INDEX_COUNT + 7) / 8];
	struct held_port *ports; /* owned, as the mappings are; NULL: none */
	size_t n_ports;
};

struct netd_link {
	struct link *link;                         /* owned */
	const struct netd_link_handlers *handlers; /* weak */
	void *userdata;                            /* weak */
	struct call *hello, *watch, *list;         /* owned while in flight */
	Bc__V1__NetdHelloReply *description;       /* owned; NULL: never spoke */
	struct id_map *holders;                    /* owned, as the holders in it are */
	uint64_t clock, list_began;                /* events heard; when the list was asked for */
	bool is_known;
	bool is_list_due; /* events were lost: what is known is not enough */
};

#define METHOD(member) RPC_METHOD(Bc__V1__Netd_Service, bc__v1__netd__descriptor, member)

/* --- who holds what --- */

static struct holder *link_holder(struct netd_link *link, const char *instance_id)
{
	struct holder *holder = id_map_get(link->holders, instance_id);

	if (holder || strlen(instance_id) >= UUID_TEXT_MAX)
		return holder;
	holder = calloc(1, sizeof(*holder));
	if (!holder)
		return NULL;
	strcpy(holder->instance_id, instance_id);
	if (id_map_put(link->holders, holder) < 0) {
		free(holder);
		return NULL;
	}
	return holder;
}

static void holder_clear_ports(struct holder *holder)
{
	for (size_t i = 0; i < holder->n_ports; i++)
		bc__v1__port_mapping__free_unpacked(holder->ports[i].mapping, NULL);
	free(holder->ports);
	holder->ports = NULL;
	holder->n_ports = 0;
}

/* Without memory a status says less than there is. */
static void holder_add_ports(
        struct holder *holder, uint32_t index, Bc__V1__PortMapping *const *mappings, size_t n)
{
	struct held_port *ports = n ? reallocarray(holder->ports, holder->n_ports + n, sizeof(*ports)) : NULL;

	if (!ports)
		return;
	holder->ports = ports;
	for (size_t i = 0; i < n; i++) {
		Bc__V1__PortMapping *copy = (Bc__V1__PortMapping *)message_copy(&mappings[i]->base);

		if (copy)
			holder->ports[holder->n_ports++] =
			        (struct held_port){ .nic_index = index, .mapping = copy };
	}
}

static void holder_drop_ports(struct holder *holder, uint32_t index)
{
	for (size_t i = 0; i < holder->n_ports;) {
		if (holder->ports[i].nic_index != index) {
			i++;
			continue;
		}
		bc__v1__port_mapping__free_unpacked(holder->ports[i].mapping, NULL);
		holder->ports[i] = holder->ports[--holder->n_ports];
	}
}

static struct holder *holder_free(struct holder *holder)
{
	holder_clear_ports(holder);
	free(holder);
	return NULL;
}

static void link_drop_holder(struct netd_link *link, struct holder *holder)
{
	(void)id_map_remove(link->holders, holder->instance_id);
	holder_free(holder);
}

static unsigned holder_count(const struct holder *holder)
{
	unsigned n = 0;

	for (size_t i = 0; i < sizeof(holder->indexes); i++)
		n += (unsigned)__builtin_popcount(holder->indexes[i]);
	return n;
}

static void link_note(struct netd_link *link, const char *instance_id, unsigned index, bool is_there)
{
	struct holder *holder;

	if (index >= TAP_INDEX_COUNT || !*instance_id)
		return;
	holder = is_there ? link_holder(link, instance_id) : id_map_get(link->holders, instance_id);
	if (!holder)
		return;
	if (is_there) {
		holder->indexes[index / 8] |= (uint8_t)(1u << index % 8);
		return;
	}
	holder_drop_ports(holder, index);
	holder->indexes[index / 8] &= (uint8_t) ~(1u << index % 8);
	if (holder_count(holder) == 0)
		link_drop_holder(link, holder);
}

/* --- the conversation: Hello, Watch, List --- */

static void link_lose(void *owner, const struct rpc_status *status)
{
	struct netd_link *link = owner;
	bool was_known = link->is_known;

	call_drop(&link->hello);
	call_drop(&link->watch);
	call_drop(&link->list);
	link->is_known = false;
	if (link_failed(link->link, status) || was_known)
		link->handlers->on_state(link, link->userdata);
}

static void link_read_list(struct netd_link *link, const Bc__V1__NetdListReply *reply)
{
	size_t cursor = 0, n = 0;
	struct holder *holder;

	while ((holder = id_map_next(link->holders, &cursor))) {
		memset(holder->indexes, 0, sizeof(holder->indexes));
		holder_clear_ports(holder);
	}
	for (size_t i = 0; i < reply->n_interfaces; i++) {
		const Bc__V1__NetdInterface *interface = reply->interfaces[i];

		if (*interface->disbelief || !*interface->instance_id)
			continue;
		link_note(link, interface->instance_id, interface->index, true);
		holder = id_map_get(link->holders, interface->instance_id);
		if (holder)
			holder_add_ports(holder, interface->index, interface->ports, interface->n_ports);
	}
	CLEANUP_FREE struct holder **gone = calloc(id_map_count(link->holders) + 1, sizeof(struct holder *));
	if (!gone)
		return;
	for (cursor = 0; (holder = id_map_next(link->holders, &cursor));)
		if (holder_count(holder) == 0)
			gone[n++] = holder;
	for (size_t i = 0; i < n; i++) {
		char id[UUID_TEXT_MAX];

		strcpy(id, gone[i]->instance_id);
		link_drop_holder(link, gone[i]);
		link->handlers->on_instance(link, id, link->userdata);
	}
	for (cursor = 0; (holder = id_map_next(link->holders, &cursor));)
		link->handlers->on_instance(link, holder->instance_id, link->userdata);
}

static void link_list(struct netd_link *link);

static void on_listed(const struct rpc_status *status, const ProtobufCMessage *reply, void *owner)
{
	struct netd_link *link = owner;
	bool was_known = link->is_known;

	if (status->code != GRPC_STATUS_OK) {
		link_lose(link, status);
		return;
	}
	/* Something changed while the list was on its way: it may be older than what the events said. */
	if (link->clock != link->list_began) {
		if (!was_known || link->is_list_due)
			link_list(link);
		return;
	}
	link->is_list_due = false;
	link_read_list(link, (const Bc__V1__NetdListReply *)reply);
	link->is_known = true;
	if (was_known)
		return;
	link_ready(link->link);
	link->handlers->on_state(link, link->userdata);
}

static void link_list(struct netd_link *link)
{
	Bc__V1__NetdListRequest request = BC__V1__NETD_LIST_REQUEST__INIT;

	call_drop(&link->list);
	link->list_began = link->clock;
	link_call_unary(link->link, &link->list, METHOD(list), &request.base, on_listed);
}

static void on_event(const ProtobufCMessage *message, void *owner)
{
	struct netd_link *link = owner;
	const Bc__V1__NetdEvent *event = (const Bc__V1__NetdEvent *)message;

	link->clock++;
	switch (event->type) {
	case BC__V1__NETD_EVENT__TYPE__PREPARED:
		link_note(link, event->instance_id, event->index, true);
		link->handlers->on_instance(link, event->instance_id, link->userdata);
		return;
	case BC__V1__NETD_EVENT__TYPE__REMOVED:
		link_note(link, event->instance_id, event->index, false);
		link->handlers->on_instance(link, event->instance_id, link->userdata);
		return;
	case BC__V1__NETD_EVENT__TYPE__LOST:
		link_note(link, event->instance_id, event->index, false);
		link->handlers->on_instance(link, event->instance_id, link->userdata);
		break;
	case BC__V1__NETD_EVENT__TYPE__RESYNC:
		link->is_list_due = true;
		link_list(link);
		return;
	default:
		break;
	}
	link->handlers->on_event(link, event, link->userdata);
}

static void on_watch_end(const struct rpc_status *status, void *owner)
{
	struct rpc_status broken;

	link_lose(owner, link_broken_watch(status, &broken));
}

static const struct call_stream_handlers watch_handlers = { .on_message = on_event, .on_end = on_watch_end };

static void on_hello(const struct rpc_status *status, const ProtobufCMessage *reply, void *owner)
{
	struct netd_link *link = owner;
	Bc__V1__NetdWatchRequest request = BC__V1__NETD_WATCH_REQUEST__INIT;
	Bc__V1__NetdHelloReply *description;

	if (status->code != GRPC_STATUS_OK) {
		link_lose(link, status);
		return;
	}
	description = (Bc__V1__NetdHelloReply *)message_copy(reply);
	if (!description) {
		link_lose(link, &link_no_memory);
		return;
	}
	if (link->description)
		bc__v1__netd_hello_reply__free_unpacked(link->description, NULL);
	link->description = description;
	/* The stream before the list, so that nothing happens between the two unheard. */
	link_call_stream(link->link, &link->watch, METHOD(watch), &request.base, &watch_handlers);
	if (link->watch)
		link_list(link);
}

static void on_try(void *owner)
{
	struct netd_link *link = owner;
	Bc__V1__NetdHelloRequest request = BC__V1__NETD_HELLO_REQUEST__INIT;

	link_call_unary(link->link, &link->hello, METHOD(hello), &request.base, on_hello);
}

static const struct link_handlers link_handlers = { .on_try = on_try, .on_lost = link_lose };

int netd_link_new(struct loop *loop, const struct netd_link_options *options, struct netd_link **ret)
{
	struct netd_link *link = calloc(1, sizeof(*link));
	int r;

	if (!link)
		return -ENOMEM;
	link->handlers = options->handlers;
	link->userdata = options->userdata;
	link->holders = id_map_new(offsetof(struct holder, instance_id));
	r = link->holders ? link_new(loop, &options->link, &link_handlers, link, &link->link) : -ENOMEM;
	if (r < 0) {
		netd_link_free(link);
		return r;
	}
	*ret = link;
	return 0;
}

struct netd_link *netd_link_free(struct netd_link *link)
{
	struct holder *holder;
	size_t cursor = 0;

	if (!link)
		return NULL;
	call_drop(&link->hello);
	call_drop(&link->watch);
	call_drop(&link->list);
	link_free(link->link);
	while (link->holders && (holder = id_map_next(link->holders, &cursor)))
		holder_free(holder);
	id_map_free(link->holders);
	if (link->description)
		bc__v1__netd_hello_reply__free_unpacked(link->description, NULL);
	free(link);
	return NULL;
}

void netd_link_poke(struct netd_link *link)
{
	link_poke(link->link);
}

void netd_link_resync(struct netd_link *link)
{
	if (link->is_known && !link->list)
		link_list(link);
}

bool netd_link_is_known(const struct netd_link *link)
{
	return link->is_known;
}

enum link_state netd_link_state(const struct netd_link *link)
{
	return link_state(link->link);
}

const char *netd_link_message(const struct netd_link *link)
{
	return link_message(link->link);
}

struct rpc_channel *netd_link_channel(const struct netd_link *link)
{
	return link_channel(link->link);
}

const Bc__V1__NetdHelloReply *netd_link_hello(const struct netd_link *link)
{
	return link->description;
}

unsigned netd_link_held(const struct netd_link *link, const char *instance_id)
{
	const struct holder *holder = id_map_get(link->holders, instance_id);

	return holder ? holder_count(holder) : 0;
}

bool netd_link_holds(const struct netd_link *link, const char *instance_id, unsigned index)
{
	const struct holder *holder = id_map_get(link->holders, instance_id);

	return holder && index < TAP_INDEX_COUNT && holder->indexes[index / 8] & 1u << index % 8;
}

size_t netd_link_ports(const struct netd_link *link, const char *instance_id, const struct held_port **ret)
{
	const struct holder *holder = id_map_get(link->holders, instance_id);

	*ret = holder ? holder->ports : NULL;
	return holder ? holder->n_ports : 0;
}

void netd_link_learn(
        struct netd_link *link, const char *instance_id, unsigned index, const Bc__V1__PreparedNic *nic)
{
	struct holder *holder;

	link->clock++;
	link_note(link, instance_id, index, true);
	holder = id_map_get(link->holders, instance_id);
	if (!holder)
		return;
	holder_drop_ports(holder, index);
	holder_add_ports(holder, index, nic->published, nic->n_published);
}

void netd_link_learn_removed(struct netd_link *link, const char *instance_id)
{
	struct holder *holder = id_map_get(link->holders, instance_id);

	link->clock++;
	if (holder)
		link_drop_holder(link, holder);
}

void netd_link_learn_released(struct netd_link *link, const char *instance_id, unsigned index)
{
	link->clock++;
	link_note(link, instance_id, index, false);
}
