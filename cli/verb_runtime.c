#include "cli/answer.h"
#include "cli/door.h"
#include "cli/human.h"
#include "cli/run_dir.h"
#include "cli/verbs.h"
#include "lib/base/quote.h"

#include "bc/v1/runtime.pb-c.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PREFIX "runtime-"

static int runtime_missing(
        struct cli *cli, const char *only, char names[RUNTIMES_MAX][SOCKET_NAME_MAX], int n_names)
{
	char *found[RUNTIMES_MAX];
	char text[256];

	if (n_names == 0)
		return cli_fail(cli, EXIT_ABSENT, "no runtime has a socket in %s", cli->run_dir);
	for (int i = 0; i < n_names; i++)
		found[i] = names[i] + strlen(PREFIX);
	return cli_fail(cli, EXIT_NOT_FOUND, "no runtime '%s' has a socket in %s; there are %s", QUOTED(only),
	        cli->run_dir, human_list(found, (size_t)n_names, text, sizeof(text)));
}

/* fn for each runtime's door; the worst of its exit codes. */
static int each_runtime(
        struct cli *cli, const char *only, int (*fn)(struct door *door, void *userdata), void *userdata)
{
	char names[RUNTIMES_MAX][SOCKET_NAME_MAX];
	int n = run_dir_list(cli, PREFIX, names), worst = EXIT_OK, n_seen = 0;

	if (n < 0)
		return cli_fail(cli, n == -EACCES ? EXIT_REFUSED : EXIT_ABSENT,
		        "cannot look for runtimes in %s: %s", cli->run_dir, strerror(-n));
	for (int i = 0; i < n; i++) {
		CLEANUP_DOOR struct door door = DOOR_EMPTY;
		int r;

		if (only && strcmp(only, names[i]) != 0 && strcmp(only, names[i] + strlen(PREFIX)) != 0)
			continue;
		n_seen++;
		r = door_open(cli, names[i], &door);
		if (r == EXIT_OK)
			r = fn(&door, userdata);
		worst = r == EXIT_OK ? worst : r;
	}
	return n_seen ? worst : runtime_missing(cli, only, names, n);
}

/* --- list --- */

static int describe_row(struct door *door, void *userdata)
{
	CLEANUP_MESSAGE ProtobufCMessage *reply = NULL;
	Bc__V1__DescribeRequest request = BC__V1__DESCRIBE_REQUEST__INIT;
	struct table *table = userdata;
	struct rpc_status status = { 0 };
	char text[256], features[256];

	if (door_try(door, DOOR_METHOD(Runtime, describe), &request.base, door->cli->timeout_usec, &reply,
	            &status) < 0) {
		if (cli_output_is_data(door->cli))
			return door_failed(door, &status);
		table_cell(table, STYLE_PLAIN, "%s", door->service + strlen("bc-" PREFIX));
		for (int i = 0; i < 5; i++)
			table_cell(table, STYLE_PLAIN, "%s", "");
		table_cell(table, STYLE_BAD, "%s", door_failure_text(door, &status, text, sizeof(text)));
		return exit_code_of(&status);
	}
	const Bc__V1__DescribeReply *runtime = (const Bc__V1__DescribeReply *)reply;

	if (cli_output_is_data(door->cli))
		return answer_print_next(door->cli, reply);
	table_cell(table, STYLE_PLAIN, "%s", runtime->id);
	table_cell(table, STYLE_PLAIN, "%s", runtime->version);
	table_cell(table, STYLE_PLAIN, "%s", runtime->hypervisor_version);
	table_cell(
	        table, strcmp(runtime->accel, "tcg") == 0 ? STYLE_WARN : STYLE_PLAIN, "%s", runtime->accel);
	table_cell(table, STYLE_PLAIN, "%s", runtime->cpu_model);
	table_cell(table, STYLE_PLAIN, "%s",
	        human_list(runtime->features, runtime->n_features, features, sizeof(features)));
	table_cell(table, STYLE_PLAIN, "%s", runtime->accel_reason);
	return EXIT_OK;
}

static int run_list(struct cli *cli, const struct arguments *arguments)
{
	CLEANUP(table) struct table *table = table_new();
	int r;

	if (!table)
		return cli_fail(cli, EXIT_FAILED, "out of memory");
	table_column(table, "RUNTIME", 0);
	table_column(table, "VERSION", 0);
	table_column(table, "HYPERVISOR", 0);
	table_column(table, "ACCEL", 0);
	table_column(table, "CPU", TABLE_WIDE);
	table_column(table, "FEATURES", TABLE_WIDE);
	table_column(table, "NOTE", 0);
	r = each_runtime(cli, arguments->n_words ? arguments->words[0] : NULL, describe_row, table);
	if (!cli_output_is_data(cli) && table_n_rows(table))
		(void)answer_table(cli, table);
	return r;
}

/* --- domains --- */

static void domain_row(struct table *table, const char *runtime, const Bc__V1__Domain *domain)
{
	enum style style = domain->state == BC__V1__DOMAIN__STATE__RUNNING ? STYLE_GOOD
	        : domain->state == BC__V1__DOMAIN__STATE__CRASHED          ? STYLE_BAD
	                                                                   : STYLE_PLAIN;
	char memory[HUMAN_MAX], since[HUMAN_MAX];

	table_cell(table, STYLE_PLAIN, "%s", domain->id);
	table_cell(table, STYLE_PLAIN, "%s", runtime);
	table_cell(table, domain->managed ? STYLE_PLAIN : STYLE_WARN, "%s", domain->managed ? "yes" : "no");
	table_cell(table, style, "%s", ENUM_TEXT(bc__v1__domain__state__descriptor, domain->state));
	table_cell(table, STYLE_PLAIN, "%u", domain->vcpus);
	table_cell(table, STYLE_PLAIN, "%s", human_bytes(domain->memory_bytes, memory));
	table_cell(table, STYLE_PLAIN, "%s", human_age(timestamp_seconds(domain->since), time(NULL), since));
	table_cell(table, STYLE_PLAIN, "%s", domain->name);
	table_cell(table, STYLE_PLAIN, "%s%s%s", domain->reason,
	        domain->reason[0] && domain->message[0] ? ": " : "", domain->message);
}

static int domains_compare(const void *a, const void *b)
{
	return strcmp((*(Bc__V1__Domain *const *)a)->id, (*(Bc__V1__Domain *const *)b)->id);
}

static int domains_rows(struct door *door, void *userdata)
{
	CLEANUP_MESSAGE ProtobufCMessage *reply = NULL;
	Bc__V1__RuntimeListRequest request = BC__V1__RUNTIME_LIST_REQUEST__INIT;
	int r = door_call(door, DOOR_METHOD(Runtime, list), &request.base, &reply);

	if (r != EXIT_OK)
		return r;
	const Bc__V1__RuntimeListReply *list = (const Bc__V1__RuntimeListReply *)reply;

	if (list->n_domains)
		qsort(list->domains, list->n_domains, sizeof(*list->domains), domains_compare);
	if (cli_output_is_data(door->cli))
		return answers_print(
		        door->cli, (const ProtobufCMessage *const *)list->domains, list->n_domains);
	for (size_t i = 0; i < list->n_domains; i++)
		domain_row(userdata, door->service + strlen("bc-" PREFIX), list->domains[i]);
	return EXIT_OK;
}

static int run_domains(struct cli *cli, const struct arguments *arguments)
{
	CLEANUP(table) struct table *table = table_new();
	int r;

	if (!table)
		return cli_fail(cli, EXIT_FAILED, "out of memory");
	table_column(table, "ID", 0);
	table_column(table, "RUNTIME", 0);
	table_column(table, "MANAGED", 0);
	table_column(table, "STATE", 0);
	table_column(table, "CPUS", TABLE_RIGHT);
	table_column(table, "MEMORY", TABLE_RIGHT);
	table_column(table, "SINCE", TABLE_RIGHT);
	table_column(table, "NAME", TABLE_WIDE);
	table_column(table, "NOTE", 0);
	r = each_runtime(cli, arguments->n_words ? arguments->words[0] : NULL, domains_rows, table);
	if (!cli_output_is_data(cli) && (r == EXIT_OK || table_n_rows(table)))
		(void)answer_table(cli, table);
	return r;
}

static const struct command LIST = {
	.name = "list",
	.words = "[RUNTIME]",
	.n_words_max = 1,
	.kind = WORD_RUNTIME,
	.summary = "List the runtimes of this host and what they can do",
	.example = "  bcctl runtime list -o wide",
	.run = run_list,
};
static const struct command DOMAINS = {
	.name = "domains",
	.words = "[RUNTIME]",
	.n_words_max = 1,
	.kind = WORD_RUNTIME,
	.summary = "List what the runtimes themselves hold, domains that bcd did not make too",
	.example = "  bcctl runtime domains libvirt",
	.run = run_domains,
};

static const struct command *const VERBS[] = { &LIST, &DOMAINS, NULL };

const struct command verb_runtime = {
	.name = "runtime",
	.words = "VERB",
	.summary = "Look at the runtimes directly, past the converger",
	.verbs = VERBS,
	.example = "  bcctl runtime list",
};
