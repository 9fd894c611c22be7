#include "svc-netd/owner.h"

#include "lib/base/tap_name.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OWNER_MAGIC "bc1"

_Static_assert(sizeof(OWNER_MAGIC " node= instance= nic=99 queues=64 vhost=1 filter=1 mac= on=") +
                        NODE_ID_MAX + UUID_TEXT_MAX + MAC_TEXT_MAX + IFNAME_MAX <=
                OWNER_TEXT_MAX,
        "an owner record fits an alias");

bool node_id_is_valid(const char *s)
{
	return s && strlen(s) < NODE_ID_MAX &&
	        s[strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-")] == 0;
}

void owner_format(const struct owner *owner, char ret[static OWNER_TEXT_MAX])
{
	char mac[MAC_TEXT_MAX];

	mac_format(&owner->mac, mac);
	(void)snprintf(ret, OWNER_TEXT_MAX,
	        OWNER_MAGIC " node=%s instance=%s nic=%u queues=%u vhost=%d filter=%d mac=%s on=%s",
	        owner->node_id, owner->instance_id, owner->index, owner->queues, owner->vhost,
	        owner->filtered, mac, owner->master);
}

/* Takes "name=value" off the front of *s, value into ret. */
static bool field_take(const char **s, const char *name, char *ret, size_t size)
{
	size_t n_name = strlen(name), n;

	if (**s != ' ' || strncmp(*s + 1, name, n_name) != 0 || (*s)[1 + n_name] != '=')
		return false;
	*s += n_name + 2;
	n = strcspn(*s, " ");
	if (n >= size)
		return false;
	memcpy(ret, *s, n);
	ret[n] = 0;
	*s += n;
	return true;
}

static bool number_take(const char **s, const char *name, unsigned long max, unsigned long *ret)
{
	char digits[4];
	char *end;

	/* One spelling for each number, or two records would name one NIC. */
	if (!field_take(s, name, digits, sizeof(digits)) || digits[0] < '0' || digits[0] > '9' ||
	        (digits[0] == '0' && digits[1]))
		return false;
	*ret = strtoul(digits, &end, 10);
	return *end == 0 && *ret <= max;
}

int owner_parse(const char *alias, struct owner *ret)
{
	struct owner o = { 0 };
	unsigned long index, queues, vhost, filtered;
	char mac[MAC_TEXT_MAX];
	const char *s = alias;

	if (strncmp(s, OWNER_MAGIC, strlen(OWNER_MAGIC)) != 0)
		return -EINVAL;
	s += strlen(OWNER_MAGIC);
	if (!field_take(&s, "node", o.node_id, sizeof(o.node_id)) || !node_id_is_valid(o.node_id) ||
	        !field_take(&s, "instance", o.instance_id, sizeof(o.instance_id)) ||
	        !uuid_is_valid(o.instance_id) || !number_take(&s, "nic", TAP_INDEX_MAX, &index) ||
	        !number_take(&s, "queues", QUEUES_MAX, &queues) || !number_take(&s, "vhost", 1, &vhost) ||
	        !number_take(&s, "filter", 1, &filtered) || !field_take(&s, "mac", mac, sizeof(mac)) ||
	        mac_parse("mac", mac, &o.mac, NULL) < 0 ||
	        !field_take(&s, "on", o.master, sizeof(o.master)) || !ifname_is_valid(o.master) || *s)
		return -EINVAL;
	o.index = (unsigned)index;
	o.queues = (uint32_t)queues;
	o.vhost = vhost;
	o.filtered = filtered;
	*ret = o;
	return 0;
}

const char *owner_disbelief(const char *name, const char *alias, struct owner *ret)
{
	struct owner owner;

	if (!*alias)
		return "it has no owner record";
	if (owner_parse(alias, &owner) < 0)
		return "its alias is no owner record";
	if (!tap_name_matches(name, owner.instance_id, owner.index))
		return "its owner record gives another name";
	*ret = owner;
	return NULL;
}
