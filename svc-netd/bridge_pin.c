#include "svc-netd/bridge_pin.h"

#include "lib/base/atomic_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	SYS_FILE_MAX = 8192, /* sysfs calls each of its files 4 KiB long */
	ADDRESS_WAS_SET = 3, /* NET_ADDR_SET */
};

/* Did somebody give it its address? Only sysfs tells, and only that of this network namespace. */
static bool has_fixed_address(struct nics *nics, const struct link *bridge)
{
	CLEANUP_FREE char *ifindex = NULL, *assigned = NULL;
	char path[256];

	(void)snprintf(path, sizeof(path), "%s/class/net/%s/ifindex", nics->options.sys_dir, bridge->name);
	if (file_read(AT_FDCWD, path, SYS_FILE_MAX, &ifindex, NULL) < 0 || atoi(ifindex) != bridge->ifindex)
		return false;
	(void)snprintf(
	        path, sizeof(path), "%s/class/net/%s/addr_assign_type", nics->options.sys_dir, bridge->name);
	return file_read(AT_FDCWD, path, SYS_FILE_MAX, &assigned, NULL) == 0 &&
	        atoi(assigned) == ADDRESS_WAS_SET;
}

struct port_search {
	const struct link *bridge;
	bool found;
};

static int on_port(const struct link *link, void *userdata)
{
	struct port_search *search = userdata;

	if (link->master == search->bridge->ifindex && link->group != LINK_GROUP_OURS &&
	        !link_is_doomed(link) && mac_equal(&link->mac, &search->bridge->mac))
		search->found = true;
	return 0;
}

static void on_port_restart(void *userdata)
{
	((struct port_search *)userdata)->found = false;
}

static bool pinned(struct nics *nics, int ifindex, bool add)
{
	bool found = false;

	(void)pthread_mutex_lock(&nics->lock);
	for (size_t i = 0; i < nics->n_pinned && !found; i++)
		found = nics->pinned[i] == ifindex;
	if (add && !found && nics->n_pinned < BRIDGES_PINNED_MAX)
		nics->pinned[nics->n_pinned++] = ifindex;
	(void)pthread_mutex_unlock(&nics->lock);
	return found;
}

/* A bridge takes the lowest address of its ports. Ours are high; but one whose address is no port's would
 * take the first of ours, and lose it with the last. It is told to keep what it has: once, for that empties
 * the host's table of neighbours on it. */
int bridge_pin(struct nics *nics, struct netlink *nl, const struct link *bridge, struct err *err)
{
	struct port_search search = { .bridge = bridge };
	int r;

	if (pinned(nics, bridge->ifindex, false))
		return 0;
	search.found = has_fixed_address(nics, bridge);
	r = search.found ? 0 : link_list(nl, on_port, on_port_restart, &search);
	if (r == 0 && !search.found)
		r = link_set_mac(nl, bridge->ifindex, &bridge->mac);
	if (r < 0)
		return err_set(
		        err, r, "cannot keep the address of bridge '%s': %s", bridge->name, strerror(-r));
	(void)pinned(nics, bridge->ifindex, true);
	return 0;
}
