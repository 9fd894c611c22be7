#include "tests/property/stranger.h"

#include "tests/property/fault.h"

#include "lib/base/atomic_file.h"
#include "lib/base/clock.h"
#include "lib/base/tap_name.h"
#include "lib/base/tree.h"
#include "lib/text/proto_write.h"
#include "tests/harness/timeout.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TABLES                                                                                               \
	"table bridge stranger {\n set s { type ether_addr; elements = { 02:00:00:00:00:01 }\n }\n"          \
	" chain c { type filter hook forward priority -100; ether saddr @s accept\n }\n}\n"                  \
	"table inet stranger {\n map m { type inet_service : ipv4_addr; elements = { 80 : 192.0.2.1 }\n }\n" \
	" chain c { type nat hook prerouting priority -100; tcp dport 8080 redirect to :80\n }\n}\n"

/* --- what each looks like --- */

static char *copy(const char *text)
{
	char *copied = strdup(text);

	if (!copied)
		set_die("no memory");
	return copied;
}

/* What of an interface somebody could have changed. */
static char *interface_looks(const struct kernel *kernel, const char *name)
{
	static const char *const KEYS[] = { "ifindex", "mtu", "master", "group", "ifalias", "address",
		"num_tx_queues" };
	json_t *link = json_object_get(kernel->links, name), *looks = json_object(), *flags;
	char *text;

	if (!link) {
		json_decref(looks);
		return NULL;
	}
	for (size_t i = 0; i < ARRAY_SIZE(KEYS); i++)
		if (json_object_get(link, KEYS[i]))
			(void)json_object_set(looks, KEYS[i], json_object_get(link, KEYS[i]));
	flags = json_object_get(link, "flags");
	for (size_t i = 0; i < json_array_size(flags); i++)
		if (strcmp(json_string_value(json_array_get(flags, i)), "UP") == 0)
			(void)json_object_set_new(looks, "up", json_true());
	text = json_dumps(looks, JSON_SORT_KEYS);
	json_decref(looks);
	return text;
}

static char *domain_looks(const struct history *history, const char *id)
{
	const Bc__Fake__Record *record = history_domain(history, 0, id);
	char *text = NULL;

	if (record && proto_write_json(&record->base, PROTO_WRITE_COMPACT, &text) < 0)
		set_die("no memory");
	return text;
}

static char *file_looks(const char *path)
{
	char line[256];
	struct stat st;

	if (stat(path, &st) < 0)
		return NULL;
	CLEANUP_FREE char *data = NULL;
	size_t n = 0;
	if (file_read(AT_FDCWD, path, 1 << 20, &data, &n) < 0)
		return NULL;
	(void)snprintf(line, sizeof(line), "inode %ju mode %o mtime %jd.%09ld: %.100s", (uintmax_t)st.st_ino,
	        (unsigned)st.st_mode, (intmax_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec, data);
	return copy(line);
}

static char *tables_look(void)
{
	static const char *const ARGV[] = { "sh", "-c",
		"nft list table bridge stranger && nft list table inet stranger", NULL };

	return set_output(ARGV);
}

static char *stranger_looks(
        const struct stranger *stranger, const struct kernel *kernel, const struct history *history)
{
	switch (stranger->kind) {
	case STRANGER_TAP:
	case STRANGER_SQUATTER:
		return interface_looks(kernel, stranger->name);
	case STRANGER_DOMAIN:
	case STRANGER_IMPOSTOR:
		return domain_looks(history, stranger->name);
	case STRANGER_FILE:
	case STRANGER_DIRECTORY:
		return file_looks(stranger->name);
	case STRANGER_KINDS:
		break;
	}
	return NULL;
}

/* --- making and unmaking --- */

/* A control file that is replaced before the fake looks at it is lost on it: it is told until it is so. Where a
 * stranger went a domain of ours may stand at once. */
static void domain_tell(struct strangers *strangers, const char *event, const char *id, bool is_to_be_there)
{
	uint64_t until_usec = clock_monotonic_usec() + test_timeout_usec(TEST_SERVICE_SEC);

	for (unsigned i = 0; clock_monotonic_usec() < until_usec; i++) {
		history_read(strangers->history);
		const Bc__Fake__Record *record = history_domain(strangers->history, 0, id);
		if ((record && !record->domain->managed) == is_to_be_there)
			return;
		if (i % 10 == 0)
			fault_event(strangers->set, SET_FAKE, event, id);
		plane_run(strangers->plane, 10 * USEC_PER_MSEC);
	}
	set_die("the fake does not heed %s of %s", event, id);
}

static void interface_make(const char *name)
{
	set_shell(
	        "ip tuntap add dev %s mode tap && ip link set %s mtu 1400 alias 'a stranger' master %s && ip link set %s up",
	        name, name, WISH_BRIDGE, name);
}

static void file_make(const char *path)
{
	FILE *f = fopen(path, "wxe");

	if (!f || fprintf(f, "not bcd's\n") < 0 || fclose(f) != 0)
		set_die("cannot write %s", path);
}

static void file_stranger_make(struct strangers *strangers, struct stranger *stranger)
{
	static const char *const DIRS[] = { "data/volumes", "data/instances", "data/images", "data/snapshots",
		"data", "fake/fake", "record" };
	const char *dir = DIRS[strangers->n_made % ARRAY_SIZE(DIRS)];
	char path[128];

	(void)mkdir_p(set_path(strangers->set, path, sizeof(path), "%s", dir), 0700);
	/* Among volumes it may look like one. */
	(void)snprintf(stranger->name, sizeof(stranger->name), "%s/stranger-%u%s", path, strangers->n_made,
	        strangers->n_made % 2 ? ".raw" : "");
	file_make(stranger->name);
}

static void stranger_make(
        struct strangers *strangers, struct stranger *stranger, const struct wish_instance *victim)
{
	char dir[256];

	switch (stranger->kind) {
	case STRANGER_TAP:
		(void)snprintf(stranger->name, sizeof(stranger->name), "alien%u", strangers->n_made);
		interface_make(stranger->name);
		return;
	case STRANGER_SQUATTER:
		(void)strcpy(stranger->id, victim->id);
		if (tap_name(victim->id, 0, stranger->name) < 0)
			set_die("no name");
		interface_make(stranger->name);
		return;
	case STRANGER_DOMAIN:
		(void)snprintf(stranger->name, sizeof(stranger->name), "ffffffff-0000-4000-8000-%012u",
		        strangers->n_made);
		domain_tell(strangers, "FOREIGN", stranger->name, true);
		return;
	case STRANGER_IMPOSTOR:
		(void)strcpy(stranger->id, victim->id);
		(void)strcpy(stranger->name, victim->id);
		domain_tell(strangers, "FOREIGN", stranger->name, true);
		return;
	case STRANGER_FILE:
		file_stranger_make(strangers, stranger);
		return;
	case STRANGER_DIRECTORY:
		(void)strcpy(stranger->id, victim->id);
		(void)set_path(strangers->set, dir, sizeof(dir), "data/instances/%s", victim->id);
		(void)mkdir_p(dir, 0700);
		(void)snprintf(stranger->name, sizeof(stranger->name), "%s/note", dir);
		file_make(stranger->name);
		return;
	case STRANGER_KINDS:
		break;
	}
}

/* Whoever made it takes it away again. */
static void stranger_unmake(struct strangers *strangers, size_t at)
{
	struct stranger *stranger = &strangers->items[at];

	switch (stranger->kind) {
	case STRANGER_TAP:
	case STRANGER_SQUATTER:
		set_shell("ip link del %s", stranger->name);
		break;
	case STRANGER_DOMAIN:
	case STRANGER_IMPOSTOR:
		domain_tell(strangers, "VANISH", stranger->name, false);
		break;
	case STRANGER_FILE:
	case STRANGER_DIRECTORY:
		(void)unlink(stranger->name);
		if (stranger->kind == STRANGER_DIRECTORY) {
			*strrchr(stranger->name, '/') = 0;
			(void)rmdir(stranger->name);
		}
		break;
	case STRANGER_KINDS:
		break;
	}
	free(stranger->looks);
	strangers->items[at] = strangers->items[--strangers->n];
	strangers->items[strangers->n] = (struct stranger){ 0 };
}

void strangers_change(struct strangers *strangers, struct wish *wish, char ret[static WISH_TEXT_MAX])
{
	static const char *const NAMES[STRANGER_KINDS] = { "a TAP", "a squatter", "a domain", "an impostor",
		"a file", "a file in an instance's directory" };
	enum stranger_kind kind = random_below(wish->random, STRANGER_KINDS);
	const struct wish_instance *victim = NULL;
	/* Events reach a fake that runs. */
	bool fake_is_up =
	        set_is_up(strangers->set, SET_FAKE) && !strangers->set->processes[SET_FAKE].is_frozen;
	bool needs_fake = kind == STRANGER_DOMAIN || kind == STRANGER_IMPOSTOR;
	struct kernel kernel;
	bool needs_victim =
	        kind == STRANGER_SQUATTER || kind == STRANGER_IMPOSTOR || kind == STRANGER_DIRECTORY;

	if (strangers->n && (strangers->n > STRANGERS_MAX / 4 || random_chance(wish->random, 40))) {
		size_t at = random_below(wish->random, (unsigned)strangers->n);
		const struct stranger *stranger = &strangers->items[at];

		if (!fake_is_up &&
		        (stranger->kind == STRANGER_DOMAIN || stranger->kind == STRANGER_IMPOSTOR)) {
			(void)snprintf(
			        ret, WISH_TEXT_MAX, "%s stays: the fake is down", NAMES[stranger->kind]);
			return;
		}
		(void)snprintf(ret, WISH_TEXT_MAX, "%s goes: %s", NAMES[stranger->kind], stranger->name);
		stranger_unmake(strangers, at);
		return;
	}
	if (needs_victim && (fake_is_up || !needs_fake))
		victim = wish_newcomer(wish);
	if ((needs_fake && !fake_is_up) || (needs_victim && !victim)) {
		(void)snprintf(ret, WISH_TEXT_MAX, "no %s: nothing to make it of", NAMES[kind]);
		return;
	}
	struct stranger *stranger = &strangers->items[strangers->n++];
	*stranger = (struct stranger){ .kind = kind };
	strangers->n_made++;
	stranger_make(strangers, stranger, victim);
	kernel_read_links(&kernel);
	stranger->looks = stranger_looks(stranger, &kernel, strangers->history);
	kernel_done(&kernel);
	(void)snprintf(ret, WISH_TEXT_MAX, "%s comes: %s", NAMES[kind], stranger->name);
}

void strangers_make_way(struct strangers *strangers)
{
	for (size_t i = strangers->n; i-- > 0;)
		if (strangers->items[i].id[0])
			stranger_unmake(strangers, i);
}

void strangers_reboot(struct strangers *strangers)
{
	for (size_t i = 0; i < strangers->n; i++) {
		struct stranger *stranger = &strangers->items[i];

		if (stranger->kind == STRANGER_TAP || stranger->kind == STRANGER_SQUATTER)
			interface_make(stranger->name);
		/* Domains go down with their host, and what that looks like is their runtime's. */
		if (stranger->kind == STRANGER_FILE || stranger->kind == STRANGER_DIRECTORY)
			continue;
		free(stranger->looks);
		stranger->looks = NULL;
	}
	set_shell("printf '%%s' '%s' | nft -f -", TABLES);
}

void strangers_flush(struct strangers *strangers)
{
	(void)strangers;
	set_shell("nft flush ruleset; printf '%%s' '%s' | nft -f -", TABLES);
}

void strangers_init(
        struct strangers *strangers, struct set *set, struct plane *plane, struct history *history)
{
	*strangers = (struct strangers){ .set = set, .plane = plane, .history = history };
	set_shell("printf '%%s' '%s' | nft -f -", TABLES);
	strangers->tables = tables_look();
}

void strangers_done(struct strangers *strangers)
{
	for (size_t i = 0; i < strangers->n; i++)
		free(strangers->items[i].looks);
	free(strangers->tables);
}

bool strangers_have(const struct strangers *strangers, enum stranger_kind kind, const char *id)
{
	for (size_t i = 0; i < strangers->n; i++)
		if (strangers->items[i].kind == kind && strcmp(strangers->items[i].id, id) == 0)
			return true;
	return false;
}

bool strangers_own(const struct strangers *strangers, const char *ifname)
{
	for (size_t i = 0; i < strangers->n; i++)
		if ((strangers->items[i].kind == STRANGER_TAP ||
		            strangers->items[i].kind == STRANGER_SQUATTER) &&
		        strcmp(strangers->items[i].name, ifname) == 0)
			return true;
	return false;
}

const char *strangers_touched(
        struct strangers *strangers, const struct kernel *kernel, const struct history *history)
{
	CLEANUP_FREE char *tables = tables_look();

	if (!tables || strcmp(tables, strangers->tables) != 0) {
		(void)snprintf(strangers->words, sizeof(strangers->words),
		        "the nftables of others were changed:\n%.400s", tables ? tables : "(gone)");
		return strangers->words;
	}
	for (size_t i = 0; i < strangers->n; i++) {
		struct stranger *stranger = &strangers->items[i];
		CLEANUP_FREE char *looks = stranger_looks(stranger, kernel, history);

		if (!looks) {
			(void)snprintf(strangers->words, sizeof(strangers->words),
			        "%s, which is not ours, is gone", stranger->name);
			return strangers->words;
		}
		if (!stranger->looks)
			stranger->looks = TAKE_PTR(looks); /* as it was found first */
		else if (strcmp(looks, stranger->looks) != 0) {
			(void)snprintf(strangers->words, sizeof(strangers->words),
			        "%s, which is not ours, was changed from\n%.180s\nto\n%.180s", stranger->name,
			        stranger->looks, looks);
			return strangers->words;
		}
	}
	return NULL;
}
