#include "cli/instance_view.h"

#include "cli/human.h"

#include <string.h>

enum style instance_state_style(Bc__V1__InstanceStatus__State state)
{
	switch (state) {
	case BC__V1__INSTANCE_STATUS__STATE__RUNNING:
	case BC__V1__INSTANCE_STATUS__STATE__COMPLETED:
		return STYLE_GOOD;
	case BC__V1__INSTANCE_STATUS__STATE__FAILED:
	case BC__V1__INSTANCE_STATUS__STATE__UNKNOWN:
		return STYLE_BAD;
	case BC__V1__INSTANCE_STATUS__STATE__PENDING:
	case BC__V1__INSTANCE_STATUS__STATE__STARTING:
	case BC__V1__INSTANCE_STATUS__STATE__PAUSED:
	case BC__V1__INSTANCE_STATUS__STATE__STOPPING:
	case BC__V1__INSTANCE_STATUS__STATE__REMOVING:
		return STYLE_WARN;
	case BC__V1__INSTANCE_STATUS__STATE__STOPPED:
	case BC__V1__INSTANCE_STATUS__STATE__REMOVED:
	case BC__V1__INSTANCE_STATUS__STATE__UNMANAGED:
	case BC__V1__INSTANCE_STATUS__STATE__STATE_UNSPECIFIED:
	default:
		return STYLE_FAINT;
	}
}

const char *instance_state_text(Bc__V1__InstanceStatus__State state, char buf[static ENUM_TEXT_MAX])
{
	return enum_text(&bc__v1__instance_status__state__descriptor, (int)state, buf);
}

char *instance_address(const Bc__V1__InstanceStatus *status, char *buf, size_t size)
{
	buf[0] = '\0';
	for (size_t i = 0; i < status->n_nics; i++)
		if (status->nics[i]->n_addresses) {
			const char *address = status->nics[i]->addresses[0];

			(void)snprintf(buf, size, "%.*s", (int)strcspn(address, "/"), address);
			break;
		}
	return buf;
}

static void progress_print(FILE *to, const Bc__V1__Progress *progress)
{
	char total[HUMAN_MAX], percent[HUMAN_MAX];

	if (progress->total_bytes)
		(void)fprintf(to, "%s %s of %s", progress->what,
		        human_percent(progress->done_bytes, progress->total_bytes, percent),
		        human_bytes(progress->total_bytes, total));
	else
		(void)fprintf(to, "%s %s", progress->what, human_bytes(progress->done_bytes, total));
}

char *instance_note(const Bc__V1__InstanceStatus *status, int64_t now_sec)
{
	char *text = NULL;
	size_t n = 0;
	FILE *to = open_memstream(&text, &n);
	char until[HUMAN_MAX];
	bool more = false;

	if (!to)
		return NULL;
	if (status->reason[0] || status->message[0]) {
		(void)fprintf(to, "%s%s%s", status->reason,
		        status->reason[0] && status->message[0] ? ": " : "", status->message);
		more = true;
	}
	if (status->progress && status->progress->what[0]) {
		(void)fputs(more ? "; " : "", to);
		progress_print(to, status->progress);
		more = true;
	}
	if (status->next_attempt && status->next_attempt->seconds)
		(void)fprintf(to, "%snext attempt %s", more ? "; " : "",
		        human_until(status->next_attempt->seconds, now_sec, until));
	(void)fclose(to);
	return text;
}

void instance_columns(struct table *table)
{
	table_column(table, "ID", 0);
	table_column(table, "STATE", 0);
	table_column(table, "RUNTIME", 0);
	table_column(table, "MEMORY", TABLE_RIGHT);
	table_column(table, "ADDRESS", 0);
	table_column(table, "RESTARTS", TABLE_RIGHT);
	table_column(table, "SINCE", TABLE_RIGHT);
	table_column(table, "ALLOCATION", TABLE_WIDE);
	table_column(table, "ACCEL", TABLE_WIDE);
	table_column(table, "INTERFACES", TABLE_WIDE);
	table_column(table, "READY", TABLE_WIDE | TABLE_RIGHT);
	table_column(table, "NOTE", 0);
}

static void interfaces_cell(struct table *table, const Bc__V1__InstanceStatus *status)
{
	char text[128] = "";
	size_t n = 0;

	for (size_t i = 0; i < status->n_nics && n < sizeof(text); i++) {
		const char *name = status->nics[i]->interface;
		int more =
		        snprintf(text + n, sizeof(text) - n, "%s%s", n ? "," : "", name[0] ? name : "user");

		n += more > 0 ? (size_t)more : 0;
	}
	table_cell(table, STYLE_PLAIN, "%s", text);
}

void instance_row(struct table *table, const Bc__V1__InstanceStatus *status, int64_t now_sec)
{
	CLEANUP_FREE char *note = instance_note(status, now_sec);
	char memory[HUMAN_MAX], since[HUMAN_MAX], ready[HUMAN_MAX] = "", address[64];
	char state[ENUM_TEXT_MAX];

	table_cell(table, STYLE_PLAIN, "%s", status->id);
	table_cell(
	        table, instance_state_style(status->state), "%s", instance_state_text(status->state, state));
	table_cell(table, STYLE_PLAIN, "%s", status->runtime);
	table_cell(table, STYLE_PLAIN, "%s",
	        status->memory_bytes ? human_bytes(status->memory_bytes, memory) : "");
	table_cell(table, STYLE_PLAIN, "%s", instance_address(status, address, sizeof(address)));
	table_cell(table, status->restarts ? STYLE_WARN : STYLE_PLAIN, "%u", status->restarts);
	table_cell(table, STYLE_PLAIN, "%s",
	        human_age(timestamp_seconds(status->last_transition), now_sec, since));
	table_cell(table, STYLE_PLAIN, "%s", status->allocation_id);
	table_cell(table, STYLE_PLAIN, "%s", status->accel);
	interfaces_cell(table, status);
	if (status->boot && status->boot->ready_ns)
		(void)human_duration(status->boot->ready_ns, ready);
	table_cell(table, STYLE_PLAIN, "%s", ready);
	table_cell(table, STYLE_PLAIN, "%s", note ? note : "");
}
