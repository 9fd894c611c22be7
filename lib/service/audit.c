#include "lib/service/audit.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "lib/log/log.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* First words of the names of methods that change nothing. */
static const char *const LOOKING[] = { "Check", "Describe", "Events", "Get", "Hello", "List", "Server",
	"Status", "Trace", "Watch" };

bool audit_concerns(const char *method)
{
	const char *slash = strrchr(method, '/');
	const char *name = slash ? slash + 1 : method;

	for (size_t i = 0; i < ARRAY_SIZE(LOOKING); i++) {
		size_t n = strlen(LOOKING[i]);

		if (strncmp(name, LOOKING[i], n) == 0 && !islower((unsigned char)name[n]))
			return false;
	}
	return true;
}

static int level_of(const struct rpc_call_record *record)
{
	if (!audit_concerns(record->method))
		return LOG_DEBUG;
	switch (record->code) {
	case GRPC_STATUS_INTERNAL:
	case GRPC_STATUS_UNKNOWN:
	case GRPC_STATUS_DATA_LOSS:
		return LOG_WARNING;
	default:
		return LOG_INFO;
	}
}

void audit_call_end(const struct rpc_call_record *record, void *userdata)
{
	const struct rpc_peer *peer = &record->peer;
	const char *code = rpc_code_to_string(record->code);
	char uid[16], gid[16], pid[16], duration[24];
	bool ok = record->code == GRPC_STATUS_OK;

	(void)userdata;
	if (!log_shows(level_of(record)))
		return;
	(void)snprintf(uid, sizeof(uid), "%u", peer->uid);
	(void)snprintf(gid, sizeof(gid), "%u", peer->gid);
	(void)snprintf(pid, sizeof(pid), "%d", peer->pid);
	(void)snprintf(duration, sizeof(duration), "%" PRIu64, record->duration_usec);
	const struct log_field *fields = LOG_FIELDS({ "BC_METHOD", record->method },
	        { "BC_INSTANCE", record->subject[0] ? record->subject : NULL }, { "BC_PEER_UID", uid },
	        { "BC_PEER_GID", gid }, { "BC_PEER_PID", pid }, { "BC_CODE", code },
	        { "BC_DURATION_USEC", duration });
	log_with(level_of(record), 0, fields, "%s %s%s%s", record->method, code ? code : "?", ok ? "" : ": ",
	        record->message);
}

void audit_refuse(struct audit_refusals *refusals, const struct rpc_peer *peer, const char *why)
{
	uint64_t now = clock_monotonic_usec();
	char uid[16], gid[16], pid[16];

	if (refusals->logged_usec != 0 && now - refusals->logged_usec < USEC_PER_SEC) {
		refusals->n_silent++;
		return;
	}
	(void)snprintf(uid, sizeof(uid), "%u", peer->uid);
	(void)snprintf(gid, sizeof(gid), "%u", peer->gid);
	(void)snprintf(pid, sizeof(pid), "%d", peer->pid);
	const struct log_field *fields =
	        LOG_FIELDS({ "BC_PEER_UID", uid }, { "BC_PEER_GID", gid }, { "BC_PEER_PID", pid });
	log_with(LOG_WARNING, 0, fields,
	        "a connection of process %s, uid %s, was refused: %s (and %zu before it)", pid, uid, why,
	        refusals->n_silent);
	*refusals = (struct audit_refusals){ .logged_usec = now };
}
