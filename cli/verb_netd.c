#include "cli/answer.h"
#include "cli/door.h"
#include "cli/human.h"
#include "cli/verbs.h"
#include "lib/base/ids.h"
#include "lib/base/quote.h"
#include "lib/net/port_map.h"

#include "bc/v1/netd.pb-c.h"

#include <errno.h>
#include <string.h>

/* --- list --- */

static void ports_cell(struct table *table, const Bc__V1__NetdInterface *interface)
{
	char text[256] = "", one[PORT_MAP_TEXT_MAX];
	size_t n = 0;

	for (size_t i = 0; i < interface->n_ports && n < sizeof(text); i++) {
		int more = snprintf(text + n, sizeof(text) - n, "%s%s>%u", n ? "," : "",
		        port_map_text(interface->ports[i], one, sizeof(one)),
		        interface->ports[i]->guest_port);

		n += more > 0 ? (size_t)more : 0;
	}
	table_cell(table, STYLE_PLAIN, "%s", text);
}

static void interface_row(struct table *table, const Bc__V1__NetdInterface *interface)
{
	bool owned = interface->instance_id[0] != '\0';

	table_cell(table, STYLE_PLAIN, "%s", interface->name);
	table_cell(table, STYLE_PLAIN, "%s",
	        ENUM_TEXT(bc__v1__netd_interface__kind__descriptor, interface->kind));
	table_cell(table, owned ? STYLE_PLAIN : STYLE_WARN, "%s",
	        owned                             ? interface->instance_id
	                : interface->disbelief[0] ? interface->disbelief
	                                          : "nobody");
	if (owned)
		table_cell(table, STYLE_PLAIN, "%u", interface->index);
	else
		table_cell(table, STYLE_PLAIN, "%s", "");
	table_cell(table, STYLE_PLAIN, "%s", interface->master);
	table_cell(table, STYLE_PLAIN, "%u", interface->queues);
	table_cell(table, interface->filtered ? STYLE_GOOD : STYLE_WARN, "%s",
	        interface->filtered ? ENUM_TEXT(bc__v1__nic__policy__descriptor, interface->policy)
	                            : "unfiltered");
	table_cell(table, STYLE_PLAIN, "%u", interface->rules);
	table_cell(table, STYLE_PLAIN, "%s%s", interface->up ? "up" : "down",
	        interface->in_use ? ", in use" : "");
	table_cell(table, STYLE_PLAIN, "%s", interface->mac);
	table_cell(table, STYLE_PLAIN, "%s", interface->node_id);
	ports_cell(table, interface);
}

static int list_print(struct cli *cli, const Bc__V1__NetdListReply *reply)
{
	CLEANUP(table) struct table *table = NULL;

	if (cli->output == OUTPUT_NAME) {
		for (size_t i = 0; i < reply->n_interfaces; i++)
			(void)fprintf(cli->out, "%s\n", reply->interfaces[i]->name);
		return EXIT_OK;
	}
	table = table_new();
	if (!table)
		return cli_fail(cli, EXIT_FAILED, "out of memory");
	table_column(table, "INTERFACE", 0);
	table_column(table, "KIND", 0);
	table_column(table, "OWNER", 0);
	table_column(table, "NIC", TABLE_RIGHT);
	table_column(table, "MASTER", 0);
	table_column(table, "QUEUES", TABLE_RIGHT);
	table_column(table, "POLICY", 0);
	table_column(table, "RULES", TABLE_RIGHT);
	table_column(table, "LINK", 0);
	table_column(table, "MAC", TABLE_WIDE);
	table_column(table, "NODE", TABLE_WIDE);
	table_column(table, "PORTS", 0);
	for (size_t i = 0; i < reply->n_interfaces; i++)
		interface_row(table, reply->interfaces[i]);

	int r = answer_table(cli, table);

	for (size_t i = 0; i < reply->n_orphan_rules; i++) {
		char elements[HUMAN_MAX];

		(void)fprintf(cli->out, "orphaned: %s in table %s for %s, which is not there\n",
		        human_count(reply->orphan_rules[i]->elements, "element", elements),
		        reply->orphan_rules[i]->table, reply->orphan_rules[i]->interface);
	}
	return r;
}

static int list_call(struct door *door, const char *instance_id, Bc__V1__NetdListReply **ret)
{
	Bc__V1__NetdListRequest request = BC__V1__NETD_LIST_REQUEST__INIT;
	ProtobufCMessage *reply = NULL;
	int r;

	request.instance_id = (char *)(uintptr_t)instance_id;
	r = door_call(door, DOOR_METHOD(Netd, list), &request.base, &reply);
	if (r == EXIT_OK)
		*ret = (Bc__V1__NetdListReply *)reply;
	return r;
}

/* The whole of an id of which the beginning is given, among the owners of netd's interfaces: the converger, which
 * knows all instances, need not run. */
static int owner_resolve(struct door *door, const char *id, char ret[static UUID_TEXT_MAX])
{
	CLEANUP_MESSAGE ProtobufCMessage *reply = NULL;
	const char *found = NULL;
	int r = EXIT_OK;

	if (!uuid_is_valid(id))
		r = list_call(door, "", (Bc__V1__NetdListReply **)(void *)&reply);
	const Bc__V1__NetdListReply *list = (const Bc__V1__NetdListReply *)reply;

	for (size_t i = 0; list && i < list->n_interfaces; i++) {
		const char *owner = list->interfaces[i]->instance_id;

		if (strncmp(owner, id, strlen(id)) != 0 || !owner[0] || (found && strcmp(found, owner) == 0))
			continue;
		if (found)
			return cli_fail(door->cli, EXIT_USAGE,
			        "'%s' begins the ids of several instances; write more of it", QUOTED(id));
		found = owner;
	}
	if (list && !found)
		return cli_fail(door->cli, EXIT_NOT_FOUND,
		        "netd has no interface of an instance '%s'; write the whole id to be sure",
		        QUOTED(id));
	if (r == EXIT_OK)
		(void)snprintf(ret, UUID_TEXT_MAX, "%s", found ? found : id);
	return r;
}

static int run_list(struct cli *cli, const struct arguments *arguments)
{
	CLEANUP_DOOR struct door door = DOOR_EMPTY;
	CLEANUP_MESSAGE ProtobufCMessage *reply = NULL;
	char id[UUID_TEXT_MAX] = "";
	int r = door_open(cli, "netd", &door);

	if (r == EXIT_OK && arguments->n_words)
		r = owner_resolve(&door, arguments->words[0], id);
	if (r == EXIT_OK)
		r = list_call(&door, id, (Bc__V1__NetdListReply **)(void *)&reply);
	if (r != EXIT_OK)
		return r;
	if (cli_output_is_data(cli))
		return answer_print(cli, reply);
	return list_print(cli, (const Bc__V1__NetdListReply *)reply);
}

/* --- check --- */

static int nic_check(struct door *door, const char *instance_id, uint32_t index)
{
	CLEANUP_MESSAGE ProtobufCMessage *reply = NULL;
	Bc__V1__NicRef ref = BC__V1__NIC_REF__INIT;
	struct cli *cli = door->cli;
	struct rpc_status status = { 0 };
	char queues[HUMAN_MAX];

	ref.instance_id = (char *)(uintptr_t)instance_id;
	ref.index = index;
	if (door_try(door, DOOR_METHOD(Netd, check), &ref.base, cli->timeout_usec, &reply, &status) < 0) {
		if (status.code != GRPC_STATUS_FAILED_PRECONDITION && status.code != GRPC_STATUS_NOT_FOUND)
			return door_failed(door, &status);
		(void)fprintf(cli->out, "NIC %u  %sbroken%s  %s\n", index, style_begin(STYLE_BAD, cli->color),
		        style_end(STYLE_BAD, cli->color), status.message);
		return exit_code_of(&status);
	}
	const Bc__V1__PreparedNic *nic = (const Bc__V1__PreparedNic *)reply;

	if (cli_output_is_data(cli))
		return answer_print_next(cli, reply);
	(void)fprintf(cli->out, "NIC %u  %swhole%s   %s on %s, %s%s%s, %zu published\n", index,
	        style_begin(STYLE_GOOD, cli->color), style_end(STYLE_GOOD, cli->color), nic->interface,
	        nic->master, human_count(nic->queues, "queue", queues), nic->vhost ? ", vhost" : "",
	        nic->filtered ? ", filtered" : "", nic->n_published);
	return EXIT_OK;
}

static int index_parse(struct cli *cli, const char *text, uint32_t *ret)
{
	uint64_t value;

	if (human_parse_number(text, &value) < 0 || value > 99)
		return cli_usage(cli, "a NIC's number is 0 to 99, not '%s'", QUOTED(text));
	*ret = (uint32_t)value;
	return EXIT_OK;
}

static int run_check(struct cli *cli, const struct arguments *arguments)
{
	CLEANUP_DOOR struct door door = DOOR_EMPTY;
	CLEANUP_MESSAGE ProtobufCMessage *reply = NULL;
	char id[UUID_TEXT_MAX];
	uint32_t index = 0;
	int r = door_open(cli, "netd", &door), worst = EXIT_OK;

	if (r == EXIT_OK)
		r = owner_resolve(&door, arguments->words[0], id);
	if (r == EXIT_OK && arguments->n_words > 1) {
		r = index_parse(cli, arguments->words[1], &index);
		return r == EXIT_OK ? nic_check(&door, id, index) : r;
	}
	if (r == EXIT_OK)
		r = list_call(&door, id, (Bc__V1__NetdListReply **)(void *)&reply);
	if (r != EXIT_OK)
		return r;
	const Bc__V1__NetdListReply *list = (const Bc__V1__NetdListReply *)reply;

	if (list->n_interfaces == 0)
		return cli_fail(cli, EXIT_NOT_FOUND, "netd holds no interface of instance '%s'", QUOTED(id));
	for (size_t i = 0; i < list->n_interfaces; i++) {
		r = nic_check(&door, id, list->interfaces[i]->index);
		worst = r == EXIT_OK ? worst : r;
	}
	return worst;
}

/* --- removals --- */

static int removal_print(struct cli *cli, const ProtobufCMessage *message)
{
	const Bc__V1__RemoveReply *reply = (const Bc__V1__RemoveReply *)message;
	char interfaces[HUMAN_MAX], rules[HUMAN_MAX], ports[HUMAN_MAX];

	if (cli_output_is_data(cli))
		return answer_print(cli, message);
	for (size_t i = 0; i < reply->n_interfaces; i++)
		(void)fprintf(cli->out, "removed %s\n", reply->interfaces[i]);
	(void)fprintf(cli->out, "%s, %s and %s removed\n",
	        human_count(reply->n_interfaces, "interface", interfaces),
	        human_count(reply->rules, "rule element", rules),
	        human_count(reply->ports, "published port", ports));
	return EXIT_OK;
}

static int run_remove_instance(struct cli *cli, const struct arguments *arguments)
{
	CLEANUP_DOOR struct door door = DOOR_EMPTY;
	CLEANUP_MESSAGE ProtobufCMessage *reply = NULL;
	Bc__V1__RemoveInstanceRequest request = BC__V1__REMOVE_INSTANCE_REQUEST__INIT;
	int r = door_open(cli, "netd", &door);

	request.instance_id = (char *)(uintptr_t)arguments->words[0];
	if (r == EXIT_OK)
		r = door_call(&door, DOOR_METHOD(Netd, remove_instance), &request.base, &reply);
	return r == EXIT_OK ? removal_print(cli, reply) : r;
}

static int run_remove_interface(struct cli *cli, const struct arguments *arguments)
{
	CLEANUP_DOOR struct door door = DOOR_EMPTY;
	CLEANUP_MESSAGE ProtobufCMessage *reply = NULL;
	Bc__V1__RemoveInterfaceRequest request = BC__V1__REMOVE_INTERFACE_REQUEST__INIT;
	int r = door_open(cli, "netd", &door);

	request.interface = (char *)(uintptr_t)arguments->words[0];
	if (r == EXIT_OK)
		r = door_call(&door, DOOR_METHOD(Netd, remove_interface), &request.base, &reply);
	return r == EXIT_OK ? removal_print(cli, reply) : r;
}

static const struct command LIST = {
	.name = "list",
	.words = "[ID]",
	.n_words_max = 1,
	.kind = WORD_INSTANCE,
	.summary = "List the interfaces netd made, whose they are, and rules without an interface",
	.description = "An ID may be shortened to a beginning that no other instance has.",
	.example = "  bcctl netd list -o wide",
	.run = run_list,
};
static const struct command CHECK = {
	.name = "check",
	.words = "ID [NIC]",
	.n_words_min = 1,
	.n_words_max = 2,
	.kind = WORD_INSTANCE,
	.summary = "Say whether an instance's interfaces are still whole, with their rules",
	.description = "An ID may be shortened to a beginning that no other instance has.",
	.example = "  bcctl netd check 6f1c0d8e-3a52-4a57-9d3b-0c2f7f1f5b11 0",
	.run = run_check,
};
static const struct command REMOVE_INSTANCE = {
	.name = "remove-instance",
	.words = "ID",
	.n_words_min = 1,
	.n_words_max = 1,
	.kind = WORD_INSTANCE,
	.summary = "Remove every interface, rule and port an instance could have, whatever any record says",
	.description = "The ID is the whole UUID. A running VM loses its network.",
	.example = "  bcctl netd remove-instance 6f1c0d8e-3a52-4a57-9d3b-0c2f7f1f5b11",
	.run = run_remove_instance,
};
static const struct command REMOVE_INTERFACE = {
	.name = "remove-interface",
	.words = "INTERFACE",
	.n_words_min = 1,
	.n_words_max = 1,
	.kind = WORD_INTERFACE,
	.summary = "Remove one interface by its name: the last word about one nobody owns",
	.example = "  bcctl netd remove-interface bc0123456789n0",
	.run = run_remove_interface,
};

static const struct command *const VERBS[] = { &LIST, &CHECK, &REMOVE_INSTANCE, &REMOVE_INTERFACE, NULL };

const struct command verb_netd = {
	.name = "netd",
	.words = "VERB",
	.summary = "Look at the network service's interfaces and rules, and remove leftovers",
	.verbs = VERBS,
	.example = "  bcctl netd list",
};
