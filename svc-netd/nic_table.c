#include "svc-netd/nic_table.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct nic_table {
	pthread_mutex_t lock; /* all of the below */
	struct nic **items;   /* owned, sorted by name */
	size_t n, capacity;
};

struct nic *nic_free(struct nic *nic)
{
	if (!nic)
		return NULL;
	elements_done(&nic->elements);
	free(nic);
	return NULL;
}

int nic_copy(const struct nic *nic, struct nic **ret)
{
	struct nic *copy = malloc(sizeof(*copy));

	if (!copy)
		return -ENOMEM;
	*copy = *nic;
	if (elements_copy(&nic->elements, &copy->elements) < 0) {
		free(copy);
		return -ENOMEM;
	}
	*ret = copy;
	return 0;
}

struct nic_table *nic_table_new(void)
{
	struct nic_table *table = calloc(1, sizeof(*table));

	if (table)
		(void)pthread_mutex_init(&table->lock, NULL);
	return table;
}

struct nic_table *nic_table_free(struct nic_table *table)
{
	if (!table)
		return NULL;
	nic_list_free(table->items, table->n);
	(void)pthread_mutex_destroy(&table->lock);
	free(table);
	return NULL;
}

/* Where ifname is, or where it would be. */
static size_t table_place(const struct nic_table *table, const char *ifname, bool *ret_found)
{
	size_t low = 0, high = table->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(table->items[middle]->ifname, ifname);

		if (order == 0) {
			*ret_found = true;
			return middle;
		}
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	*ret_found = false;
	return low;
}

static bool is_publication(const struct element *element)
{
	return element->set >= SET_PUBLISHED4 && element->set <= SET_PUBLISHED6_ANY;
}

void publication_text(const struct publication *p, char ret[static PORT_TEXT_MAX])
{
	const char *protocol = p->protocol == IPPROTO_UDP ? "udp" : "tcp";
	char host[IP_TEXT_MAX] = "*";

	if (!p->any)
		ip_format(&p->host, host);
	(void)snprintf(ret, PORT_TEXT_MAX, p->any || p->host.family == AF_INET ? "%s %s:%u" : "%s [%s]:%u",
	        protocol, host, p->host_port);
}

static bool publications_overlap(const struct publication *a, const struct publication *b)
{
	return a->protocol == b->protocol && a->host_port == b->host_port &&
	        a->guest.family == b->guest.family && (a->any || b->any || ip_equal(&a->host, &b->host));
}

/* Publications sort behind everything else, so a NIC without any is seen at its last element. */
static bool publishes(const struct nic *nic)
{
	return nic->elements.n && nic->elements.items[nic->elements.n - 1].set >= SET_PUBLISHED4;
}

static int ports_check_against(const struct nic *nic, const struct nic *other, struct err *err)
{
	for (size_t i = 0; i < nic->elements.n; i++) {
		struct publication p, q;

		if (!is_publication(&nic->elements.items[i]))
			continue;
		element_to_publication(&nic->elements.items[i], &p);
		for (size_t j = 0; j < other->elements.n; j++) {
			char text[PORT_TEXT_MAX];

			if (!is_publication(&other->elements.items[j]))
				continue;
			element_to_publication(&other->elements.items[j], &q);
			if (!publications_overlap(&p, &q))
				continue;
			publication_text(&q, text);
			return err_set(err, -EEXIST, "port %s is held by NIC %u of instance %s (%s)", text,
			        other->owner.index,
			        other->owner.instance_id[0] ? other->owner.instance_id : "?", other->ifname);
		}
	}
	return 0;
}

static int ports_check(const struct nic_table *table, const struct nic *nic, struct err *err)
{
	int r = 0;

	if (!publishes(nic))
		return 0;
	for (size_t i = 0; i < table->n && r == 0; i++) {
		const struct nic *other = table->items[i];

		if (publishes(other) && strcmp(other->ifname, nic->ifname) != 0)
			r = ports_check_against(nic, other, err);
	}
	return r;
}

static bool has_mac_of(const struct nic *nic, const struct nic *other)
{
	return mac_equal(&nic->owner.mac, &other->owner.mac) &&
	        strcmp(nic->owner.master, other->owner.master) == 0;
}

/* Two NICs of one MAC on one bridge, or macvtap parent, take each other's frames by turns. old, the one of this name,
 * keeps what it has. */
static int mac_check(
        const struct nic_table *table, const struct nic *nic, const struct nic *old, struct err *err)
{
	if (old && has_mac_of(old, nic))
		return 0;
	for (size_t i = 0; i < table->n; i++) {
		const struct nic *other = table->items[i];
		char mac[MAC_TEXT_MAX];

		if (other == old || other->state == NIC_ORPHAN || !has_mac_of(other, nic))
			continue;
		mac_format(&nic->owner.mac, mac);
		return err_set(err, -EEXIST, "MAC %s is held on '%s' by NIC %u of instance %s (%s)", mac,
		        nic->owner.master, other->owner.index, other->owner.instance_id, other->ifname);
	}
	return 0;
}

static int table_insert(struct nic_table *table, size_t at, struct nic *nic)
{
	if (table->n == table->capacity) {
		size_t capacity = table->capacity ? table->capacity * 2 : 16;
		struct nic **items = reallocarray(table->items, capacity, sizeof(*items));

		if (!items)
			return -ENOMEM;
		table->items = items;
		table->capacity = capacity;
	}
	memmove(&table->items[at + 1], &table->items[at], (table->n - at) * sizeof(*table->items));
	table->items[at] = nic;
	table->n++;
	return 0;
}

static int table_put(
        struct nic_table *table, struct nic *nic, bool check, struct nic **ret_old, struct err *err)
{
	struct nic *old = NULL;
	bool found;
	size_t at;
	int r;

	(void)pthread_mutex_lock(&table->lock);
	at = table_place(table, nic->ifname, &found);
	r = check ? mac_check(table, nic, found ? table->items[at] : NULL, err) : 0;
	if (check && r == 0)
		r = ports_check(table, nic, err);
	if (r == 0 && found) {
		old = table->items[at];
		table->items[at] = nic;
	} else if (r == 0) {
		r = table_insert(table, at, nic);
	}
	(void)pthread_mutex_unlock(&table->lock);
	if (r < 0) {
		nic_free(nic);
		return r;
	}
	*ret_old = old;
	return 0;
}

int nic_table_put(struct nic_table *table, struct nic *nic, struct nic **ret_old, struct err *err)
{
	return table_put(table, nic, true, ret_old, err);
}

int nic_table_adopt(struct nic_table *table, struct nic *nic, struct nic **ret_old)
{
	return table_put(table, nic, false, ret_old, NULL);
}

struct nic *nic_table_get(struct nic_table *table, const char *ifname)
{
	struct nic *copy = NULL;
	bool found;
	size_t at;

	(void)pthread_mutex_lock(&table->lock);
	at = table_place(table, ifname, &found);
	if (found)
		(void)nic_copy(table->items[at], &copy);
	(void)pthread_mutex_unlock(&table->lock);
	return copy;
}

struct nic *nic_table_get_index(struct nic_table *table, int ifindex)
{
	struct nic *copy = NULL;

	(void)pthread_mutex_lock(&table->lock);
	for (size_t i = 0; i < table->n; i++) {
		if (table->items[i]->ifindex == ifindex) {
			(void)nic_copy(table->items[i], &copy);
			break;
		}
	}
	(void)pthread_mutex_unlock(&table->lock);
	return copy;
}

void nic_table_strays(struct nic_table *table, const char *bridge, int ifindex, nic_fn fn, void *userdata)
{
	(void)pthread_mutex_lock(&table->lock);
	for (size_t i = 0; i < table->n; i++) {
		const struct nic *nic = table->items[i];

		if (nic->state == NIC_READY && nic->kind == NIC_TAP &&
		        (nic->master != ifindex) == (strcmp(nic->owner.master, bridge) == 0))
			fn(nic, userdata);
	}
	(void)pthread_mutex_unlock(&table->lock);
}

struct nic *nic_table_take(struct nic_table *table, const char *ifname)
{
	struct nic *nic = NULL;
	bool found;
	size_t at;

	(void)pthread_mutex_lock(&table->lock);
	at = table_place(table, ifname, &found);
	if (found) {
		nic = table->items[at];
		table->n--;
		memmove(&table->items[at], &table->items[at + 1], (table->n - at) * sizeof(*table->items));
	}
	(void)pthread_mutex_unlock(&table->lock);
	return nic;
}

size_t nic_table_count(struct nic_table *table)
{
	size_t n;

	(void)pthread_mutex_lock(&table->lock);
	n = table->n;
	(void)pthread_mutex_unlock(&table->lock);
	return n;
}

int nic_table_list(struct nic_table *table, struct nic ***ret, size_t *ret_n)
{
	struct nic **list;
	size_t n = 0;
	int r = 0;

	(void)pthread_mutex_lock(&table->lock);
	list = calloc(table->n + 1, sizeof(struct nic *));
	if (!list)
		r = -ENOMEM;
	while (r == 0 && n < table->n) {
		r = nic_copy(table->items[n], &list[n]);
		if (r == 0)
			n++;
	}
	(void)pthread_mutex_unlock(&table->lock);
	if (r < 0) {
		nic_list_free(list, n);
		return r;
	}
	*ret = list;
	*ret_n = n;
	return 0;
}

void nic_list_free(struct nic **list, size_t n)
{
	for (size_t i = 0; list && i < n; i++)
		nic_free(list[i]);
	free(list);
}
