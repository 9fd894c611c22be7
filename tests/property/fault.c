#include "tests/property/fault.h"

#include <stdio.h>
#include <string.h>

enum { FAULTS_MAX = 4, FAULT_TEXT_MAX = 300 };

static const char *control_of(enum set_service fake)
{
	return fake == SET_FAKE ? "fake/fake/control.yaml" : "fake-two/fake/control.yaml";
}

static const char *one_of(struct random *random, const char *const *words, size_t n)
{
	return words[random_below(random, (unsigned)n)];
}
#define ONE_OF(random, words) one_of(random, words, ARRAY_SIZE(words))

/* What changes a domain, and what only tells of it. */
static const char *const CHANGES[] = { "Ensure", "SetState", "SetState", "Remove", "GrowVolume" };
static const char *const CALLS[] = { "", "Ensure", "SetState", "Remove", "GrowVolume", "Get", "List", "Watch",
	"Describe", "Snapshot", "Rebind" };
static const char *const TOLD[] = { "Get.domain", "List.domain", "Watch.domain" };
static const char *const WRITES[] = { "LIE", "LOSE", "STALL", "STALL" };
static const char *const CODES[] = { "UNAVAILABLE", "INTERNAL", "FAILED_PRECONDITION", "RESOURCE_EXHAUSTED",
	"DEADLINE_EXCEEDED", "INVALID_ARGUMENT", "UNKNOWN", "NOT_FOUND" };

static void fault_write(struct random *random, struct wish *wish, bool lies, char ret[static FAULT_TEXT_MAX])
{
	const char *method = ONE_OF(random, CALLS), *action, *id = "";
	unsigned kind = random_below(random, lies ? 9 : 6), stall_ms = 0;

	switch (kind) {
	case 0:
	case 1:
		action = "FAIL";
		break;
	case 2:
		action = "FAIL_AFTER";
		break;
	case 3:
		action = random_chance(random, 50) ? "STALL" : "STALL_AFTER";
		stall_ms = random_chance(random, 25) ? 0 : 1 + random_below(random, 300);
		break;
	case 4:
		action = "LOSE";
		method = ONE_OF(random, CHANGES);
		break;
	case 5:
		method = "Snapshot.write";
		action = ONE_OF(random, WRITES);
		stall_ms = 1 + random_below(random, 300);
		break;
	case 6:
		action = "LIE";
		method = ONE_OF(random, CHANGES);
		break;
	default:
		action = random_chance(random, 50) ? "LIE" : "LOSE";
		method = ONE_OF(random, TOLD);
		break;
	}
	if (random_chance(random, 40))
		id = wish->instances[random_below(random, WISH_INSTANCES)].id;
	(void)snprintf(ret, FAULT_TEXT_MAX,
	        "{method: \"%s\", id: \"%s\", action: %s, code: %s, stallMs: %u, percent: %u, count: %u, seed: %u}",
	        method, id, action, ONE_OF(random, CODES), stall_ms,
	        random_chance(random, 50) ? 0 : 20 + random_below(random, 70),
	        random_chance(random, 50) ? 1 + random_below(random, 5) : 0, random_below(random, 1000));
}

static char *faults_of(struct set *set, enum set_service fake)
{
	return set->faults[fake - SET_FAKE];
}

void fault_random(
        struct set *set, enum set_service fake, struct wish *wish, bool lies, char ret[static WISH_TEXT_MAX])
{
	char *faults = faults_of(set, fake);
	unsigned n_faults = 1 + random_below(wish->random, FAULTS_MAX);
	int n = 0;

	for (unsigned i = 0; i < n_faults; i++) {
		char fault[FAULT_TEXT_MAX];

		fault_write(wish->random, wish, lies, fault);
		n += snprintf(faults + n, SET_FAULTS_MAX - (size_t)n, "- %s\n", fault);
	}
	fault_event(set, fake, "", "");
	(void)snprintf(ret, WISH_TEXT_MAX, "%.*s", WISH_TEXT_MAX - 1, faults);
}

void fault_event(struct set *set, enum set_service fake, const char *type, const char *id)
{
	char text[SET_FAULTS_MAX + 256], *faults = faults_of(set, fake);
	int n = 0;

	if (*faults)
		n += snprintf(text, sizeof(text), "faults:\n%s", faults);
	if (*type)
		n += snprintf(text + n, sizeof(text) - (size_t)n,
		        "events:\n- {type: %s, id: \"%s\", message: by chance}\n", type, id);
	set_write(set, control_of(fake), n ? text : "{}\n");
}

void fault_none(struct set *set, enum set_service fake)
{
	*faults_of(set, fake) = 0;
	fault_event(set, fake, "", "");
}
