#include "cli/human.h"
#include "cli/instance_view.h"
#include "cli/node_status.h"
#include "cli/verbs.h"
#include "lib/base/cleanup.h"
#include "lib/base/quote.h"
#include "lib/base/suggest.h"

#include <string.h>
#include <time.h>

static void names_print(struct cli *cli, const char *name)
{
	char *safe = style_safe(name);

	(void)fprintf(cli->out, "%s\n", safe ? safe : "");
	free(safe);
}

/* What the whole node has to say beside its instances; not for programs. */
static void remarks_print(struct cli *cli, const Bc__V1__NodeStatus *status)
{
	if (status->draining)
		(void)fprintf(cli->err, "The node is draining: nothing new is started.\n");
	if (status->reason[0])
		(void)fprintf(cli->err, "%s%s:%s %s\n", style_begin(STYLE_BAD, cli->err_color),
		        status->reason, style_end(STYLE_BAD, cli->err_color), status->message);
	for (size_t i = 0; i < status->n_warnings; i++)
		(void)fprintf(cli->err, "%swarning:%s %s\n", style_begin(STYLE_WARN, cli->err_color),
		        style_end(STYLE_WARN, cli->err_color), status->warnings[i]);
}

static int instances_print(struct cli *cli, const Bc__V1__NodeStatus *status)
{
	CLEANUP(table) struct table *table = NULL;

	if (cli_output_is_data(cli))
		return answers_print(
		        cli, (const ProtobufCMessage *const *)status->instances, status->n_instances);
	if (cli->output == OUTPUT_NAME) {
		for (size_t i = 0; i < status->n_instances; i++)
			names_print(cli, status->instances[i]->id);
		return EXIT_OK;
	}
	table = table_new();
	if (!table)
		return cli_fail(cli, EXIT_FAILED, "out of memory");
	instance_columns(table);
	for (size_t i = 0; i < status->n_instances; i++)
		instance_row(table, status->instances[i], time(NULL));
	remarks_print(cli, status);
	if (status->n_instances == 0 && status->accepted_revision == 0)
		(void)fprintf(cli->err, "No spec was applied yet: see 'bcctl apply --help'.\n");
	return answer_table(cli, table);
}

static void volume_row(struct table *table, const Bc__V1__VolumeStatus *volume)
{
	char size[HUMAN_MAX], allocated[HUMAN_MAX];
	char users[160] = "";
	size_t n = 0;

	for (size_t i = 0; i < volume->n_users && n < sizeof(users); i++) {
		int more = snprintf(users + n, sizeof(users) - n, "%s%s%s", n ? "," : "",
		        volume->users[i]->instance_id, volume->users[i]->read_only ? " (read-only)" : "");

		n += more > 0 ? (size_t)more : 0;
	}
	table_cell(table, STYLE_PLAIN, "%s", volume->id);
	table_cell(table, STYLE_PLAIN, "%s", human_bytes(volume->size_bytes, size));
	table_cell(table, STYLE_PLAIN, "%s", human_bytes(volume->allocated_bytes, allocated));
	table_cell(table, volume->claimed ? STYLE_PLAIN : STYLE_WARN, "%s", volume->claimed ? "yes" : "no");
	table_cell(table, STYLE_PLAIN, "%s", users);
	table_cell(
	        table, STYLE_PLAIN, "%s%s%s", volume->reason, volume->reason[0] ? ": " : "", volume->message);
}

static int volumes_print(struct cli *cli, const Bc__V1__NodeStatus *status)
{
	CLEANUP(table) struct table *table = NULL;

	if (cli_output_is_data(cli))
		return answers_print(
		        cli, (const ProtobufCMessage *const *)status->volumes, status->n_volumes);
	if (cli->output == OUTPUT_NAME) {
		for (size_t i = 0; i < status->n_volumes; i++)
			names_print(cli, status->volumes[i]->id);
		return EXIT_OK;
	}
	table = table_new();
	if (!table)
		return cli_fail(cli, EXIT_FAILED, "out of memory");
	table_column(table, "ID", 0);
	table_column(table, "SIZE", TABLE_RIGHT);
	table_column(table, "ALLOCATED", TABLE_RIGHT);
	table_column(table, "CLAIMED", 0);
	table_column(table, "USED BY", 0);
	table_column(table, "NOTE", 0);
	for (size_t i = 0; i < status->n_volumes; i++)
		volume_row(table, status->volumes[i]);
	return answer_table(cli, table);
}

static enum style reachability_style(Bc__V1__DriverStatus__Reachability reachability)
{
	return reachability == BC__V1__DRIVER_STATUS__REACHABILITY__READY     ? STYLE_GOOD
	        : reachability == BC__V1__DRIVER_STATUS__REACHABILITY__ABSENT ? STYLE_FAINT
	                                                                      : STYLE_BAD;
}

static void driver_row(struct table *table, const Bc__V1__DriverStatus *driver)
{
	bool is_ready = driver->reachability == BC__V1__DRIVER_STATUS__REACHABILITY__READY;
	char features[256];

	table_cell(table, STYLE_PLAIN, "%s", driver->kind);
	table_cell(table, STYLE_PLAIN, "%s", driver->id);
	table_cell(table, reachability_style(driver->reachability), "%s",
	        ENUM_TEXT(bc__v1__driver_status__reachability__descriptor, driver->reachability));
	table_cell(table, STYLE_PLAIN, "%s", driver->version);
	table_cell(table, STYLE_PLAIN, "%s",
	        human_list(driver->features, driver->n_features, features, sizeof(features)));
	table_cell(
	        table, STYLE_PLAIN, "%s", driver->message[0] || is_ready ? driver->message : "no answer yet");
}

static int drivers_print(struct cli *cli, const Bc__V1__NodeStatus *status)
{
	CLEANUP(table) struct table *table = NULL;

	if (cli_output_is_data(cli))
		return answers_print(
		        cli, (const ProtobufCMessage *const *)status->drivers, status->n_drivers);
	if (cli->output == OUTPUT_NAME) {
		for (size_t i = 0; i < status->n_drivers; i++)
			names_print(cli, status->drivers[i]->id);
		return EXIT_OK;
	}
	table = table_new();
	if (!table)
		return cli_fail(cli, EXIT_FAILED, "out of memory");
	table_column(table, "KIND", 0);
	table_column(table, "ID", 0);
	table_column(table, "REACHABILITY", 0);
	table_column(table, "VERSION", 0);
	table_column(table, "FEATURES", TABLE_WIDE);
	table_column(table, "NOTE", 0);
	for (size_t i = 0; i < status->n_drivers; i++)
		driver_row(table, status->drivers[i]);
	return answer_table(cli, table);
}

static int node_print(struct door *door, const Bc__V1__NodeStatus *status)
{
	struct cli *cli = door->cli;
	CLEANUP(table) struct table *table = NULL;
	const Bc__V1__Capacity *capacity = status->capacity;
	char total[HUMAN_MAX] = "", taken[HUMAN_MAX] = "";
	size_t n_running = 0;

	if (cli_output_is_data(cli)) {
		CLEANUP_MESSAGE ProtobufCMessage *node = NULL;
		int r = node_get(door, false, (Bc__V1__GetNodeReply **)(void *)&node);

		return r == EXIT_OK ? answer_print(cli, node) : r;
	}
	if (cli->output == OUTPUT_NAME) {
		names_print(cli, status->node_id);
		return EXIT_OK;
	}
	table = table_new();
	if (!table)
		return cli_fail(cli, EXIT_FAILED, "out of memory");
	for (size_t i = 0; i < status->n_instances; i++)
		n_running += status->instances[i]->state == BC__V1__INSTANCE_STATUS__STATE__RUNNING;
	if (capacity && capacity->known) {
		(void)human_bytes(capacity->total_bytes, total);
		(void)human_bytes(capacity->committed_bytes + capacity->held_bytes, taken);
	}
	table_column(table, "NODE", 0);
	table_column(table, "REVISION", TABLE_RIGHT);
	table_column(table, "INSTANCES", TABLE_RIGHT);
	table_column(table, "RUNNING", TABLE_RIGHT);
	table_column(table, "MEMORY", TABLE_RIGHT);
	table_column(table, "COMMITTED", TABLE_RIGHT);
	table_column(table, "BOOT", TABLE_WIDE);
	table_column(table, "NOTE", 0);
	table_cell(table, STYLE_PLAIN, "%s", status->node_id);
	table_cell(table, STYLE_PLAIN, "%llu", (unsigned long long)status->accepted_revision);
	table_cell(table, STYLE_PLAIN, "%zu", status->n_instances);
	table_cell(table, STYLE_PLAIN, "%zu", n_running);
	table_cell(table, STYLE_PLAIN, "%s", total);
	table_cell(table, STYLE_PLAIN, "%s", taken);
	table_cell(table, STYLE_PLAIN, "%s", status->boot_id);
	table_cell(table, STYLE_WARN, "%s%s%s%s%s", status->draining ? "Draining" : "",
	        status->draining && status->reason[0] ? "; " : "", status->reason,
	        status->reason[0] && status->message[0] ? ": " : "", status->message);
	return answer_table(cli, table);
}

static int instance_print(struct cli *cli, const Bc__V1__NodeStatus *status, const char *id)
{
	CLEANUP(table) struct table *table = NULL;
	int r = EXIT_OK;
	const Bc__V1__InstanceStatus *instance = node_status_find(cli, status, id, &r);

	if (!instance)
		return r;
	if (cli_output_is_data(cli))
		return answer_print(cli, &instance->base);
	if (cli->output == OUTPUT_NAME) {
		names_print(cli, instance->id);
		return EXIT_OK;
	}
	table = table_new();
	if (!table)
		return cli_fail(cli, EXIT_FAILED, "out of memory");
	instance_columns(table);
	instance_row(table, instance, time(NULL));
	return answer_table(cli, table);
}

/* A word that begins no id, and looks like one of the things there are. */
static bool is_slip(const Bc__V1__NodeStatus *status, const char *what, char hint[static SUGGESTION_TEXT_MAX])
{
	static const char *const THINGS[] = { "instances", "volumes", "drivers", "nodes" };
	struct suggestion suggestion = suggestion_of(what);

	for (size_t i = 0; i < status->n_instances; i++)
		if (strncmp(status->instances[i]->id, what, strlen(what)) == 0)
			return false;
	for (size_t i = 0; i < ARRAY_SIZE(THINGS); i++)
		suggestion_offer(&suggestion, THINGS[i]);
	(void)suggestion_text(&suggestion, hint);
	return hint[0] != '\0';
}

static int run(struct cli *cli, const struct arguments *arguments)
{
	CLEANUP_DOOR struct door door = DOOR_EMPTY;
	CLEANUP_MESSAGE ProtobufCMessage *message = NULL;
	char hint[SUGGESTION_TEXT_MAX];
	const char *what = arguments->n_words ? arguments->words[0] : "instances";
	int r = door_open(cli, "converger", &door);

	if (r == EXIT_OK)
		r = node_status_get(&door, "", (Bc__V1__NodeStatus **)(void *)&message);
	if (r != EXIT_OK)
		return r;
	const Bc__V1__NodeStatus *status = (const Bc__V1__NodeStatus *)message;

	if (strcmp(what, "instances") == 0 || strcmp(what, "instance") == 0)
		return instances_print(cli, status);
	if (strcmp(what, "volumes") == 0 || strcmp(what, "volume") == 0)
		return volumes_print(cli, status);
	if (strcmp(what, "drivers") == 0 || strcmp(what, "driver") == 0)
		return drivers_print(cli, status);
	if (strcmp(what, "nodes") == 0 || strcmp(what, "node") == 0)
		return node_print(&door, status);
	if (is_slip(status, what, hint))
		return cli_fail(cli, EXIT_NOT_FOUND, "there is no '%s' to get%s", QUOTED(what), hint);
	return instance_print(cli, status, what);
}

const struct command verb_get = {
	.name = "get",
	.words = "[nodes|instances|volumes|drivers|ID]",
	.n_words_max = 1,
	.kind = WORD_GET,
	.summary = "List what this node holds: instances when nothing else is said",
	.description = "An ID may be shortened to a beginning that no other instance has.",
	.example = "  bcctl get\n"
	           "  bcctl get volumes -o yaml\n"
	           "  bcctl get 6f1c -o json | jq -r .state",
	.run = run,
};
