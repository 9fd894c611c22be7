#include "tests/property/meddle.h"

#include "tests/property/kernel.h"

#include "lib/base/cleanup.h"

#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void meddle_bridge_make(void)
{
	set_shell("ip link add " WISH_BRIDGE " type bridge && ip addr add 10.200.0.1/24 dev " WISH_BRIDGE
	          " && ip link set " WISH_BRIDGE " up");
}

static size_t lost_find(const struct meddler *meddler, const char *ifname)
{
	size_t i = 0;

	while (i < meddler->n_lost && strcmp(meddler->lost[i], ifname) != 0)
		i++;
	return i;
}

bool meddle_has_deleted(const struct meddler *meddler, const char *ifname)
{
	return lost_find(meddler, ifname) < meddler->n_lost;
}

void meddle_forget(struct meddler *meddler, const char *ifname)
{
	size_t at = lost_find(meddler, ifname);

	if (at < meddler->n_lost)
		(void)memmove(meddler->lost[at], meddler->lost[--meddler->n_lost], IFNAME_MAX);
}

/* --- rules --- */

/* netd answers, and the kernel keeps its tables from others. */
static bool rules_are_kept(struct meddler *meddler)
{
	Bc__V1__NetdHelloRequest request = BC__V1__NETD_HELLO_REQUEST__INIT;
	struct rpc_status status;
	bool are_kept = false;

	if (!set_is_up(meddler->set, SET_NETD) || meddler->set->processes[SET_NETD].is_frozen)
		return false;
	Bc__V1__NetdHelloReply *reply = (Bc__V1__NetdHelloReply *)plane_call(
	        meddler->plane, SET_NETD, PLANE_NETD(hello), &request.base, &status);
	for (size_t i = 0; reply && i < reply->n_features; i++)
		are_kept = are_kept || strcmp(reply->features[i], "filter.persist") == 0 ||
		        strcmp(reply->features[i], "filter.owner") == 0;
	if (reply)
		bc__v1__netd_hello_reply__free_unpacked(reply, NULL);
	return are_kept;
}

static json_int_t ifindex_of(const struct kernel *kernel, const char *name)
{
	return json_integer_value(json_object_get(json_object_get(kernel->links, name), "ifindex"));
}

/* An interface that is the same one all along had rules before, and has none now. */
static void rules_compare(struct meddler *meddler, const struct kernel *before, const struct kernel *now,
        const struct kernel *after)
{
	const char *name;
	json_t *ignored;

	json_object_foreach(after->links, name, ignored)
	{
		if (ifindex_of(before, name) == ifindex_of(after, name) &&
		        kernel_has(before, "nics", name, NULL) && !kernel_has(now, "nics", name, NULL))
			(void)snprintf(meddler->words, sizeof(meddler->words),
			        "interface %s had rules; they are gone with a foreign flush while netd runs",
			        name);
	}
}

/* Where netd keeps them they do not even go for a moment. */
static const char *rules_flush(struct meddler *meddler)
{
	struct kernel before, now, after;

	if (!rules_are_kept(meddler)) {
		strangers_flush(meddler->strangers);
		return "the rules of all are flushed; nobody keeps ours";
	}
	kernel_read(&before);
	strangers_flush(meddler->strangers);
	kernel_read(&now);
	kernel_read_links(&after);
	rules_compare(meddler, &before, &now, &after);
	kernel_done(&before);
	kernel_done(&now);
	kernel_done(&after);
	return "the rules of all are flushed; netd keeps ours";
}

/* Our tables alone; one that netd keeps is not deleted. */
static const char *tables_delete(struct meddler *meddler)
{
	static const char *const ARGV[] = { "sh", "-c",
		"nft delete table bridge bc || nft delete table inet bc", NULL };
	bool are_kept = rules_are_kept(meddler);
	CLEANUP_FREE char *deleted = set_output(ARGV);

	if (are_kept && deleted)
		(void)snprintf(meddler->words, sizeof(meddler->words),
		        "a table of ours could be deleted by somebody else while netd runs");
	return are_kept ? "our tables cannot be deleted: netd keeps them" : "our tables are deleted";
}

/* --- interfaces --- */

/* With it go what stood on it, and the addresses; whoever did that makes it anew, with what was others' on it. */
static void bridge_remake(struct meddler *meddler)
{
	set_shell("ip link del " WISH_BRIDGE);
	meddle_bridge_make();
	for (size_t i = 0; i < meddler->strangers->n; i++) {
		const struct stranger *stranger = &meddler->strangers->items[i];

		if (stranger->kind == STRANGER_TAP || stranger->kind == STRANGER_SQUATTER)
			set_shell("ip link set %s master " WISH_BRIDGE, stranger->name);
	}
}

static void interface_delete(struct meddler *meddler, const char *name)
{
	if (!meddle_has_deleted(meddler, name)) {
		if (meddler->n_lost == MEDDLE_LOST_MAX)
			return;
		(void)strcpy(meddler->lost[meddler->n_lost++], name);
	}
	set_shell("ip link del %s 2>/dev/null || true", name);
}

/* The first interface of ours from that one on, which is there now; false for none. */
static bool interface_find(const struct meddler *meddler, unsigned first, char ret[static IFNAME_MAX])
{
	for (unsigned i = 0; i < WISH_INSTANCES * WISH_NICS; i++) {
		unsigned at = (first + i) % (WISH_INSTANCES * WISH_NICS);
		const char *id = meddler->wish->instances[at / WISH_NICS].id;

		if (tap_name(id, at % WISH_NICS, ret) < 0)
			set_die("no name");
		if (if_nametoindex(ret) && !strangers_own(meddler->strangers, ret))
			return true;
	}
	return false;
}

void meddle(struct meddler *meddler, char ret[static WISH_TEXT_MAX])
{
	struct random *random = meddler->wish->random;
	unsigned deed = random_below(random, 100), first = random_below(random, WISH_INSTANCES * WISH_NICS);
	char name[IFNAME_MAX];

	if (deed < 25) {
		(void)snprintf(ret, WISH_TEXT_MAX, "%s", rules_flush(meddler));
	} else if (deed < 35) {
		(void)snprintf(ret, WISH_TEXT_MAX, "%s", tables_delete(meddler));
	} else if (deed < 40) {
		bridge_remake(meddler);
		(void)snprintf(ret, WISH_TEXT_MAX, "the bridge is deleted and made anew");
	} else if (!interface_find(meddler, first, name)) {
		(void)snprintf(ret, WISH_TEXT_MAX, "no interface of ours is there to be meddled with");
	} else if (deed < 60) {
		(void)snprintf(ret, WISH_TEXT_MAX, "%s is taken off its bridge", name);
		/* It may have gone by itself just now. */
		set_shell("ip link set %s nomaster 2>/dev/null || true", name);
	} else {
		(void)snprintf(ret, WISH_TEXT_MAX, "%s is deleted", name);
		interface_delete(meddler, name);
	}
}

const char *meddle_fault(const struct meddler *meddler)
{
	return meddler->words[0] ? meddler->words : NULL;
}
