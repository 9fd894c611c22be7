#include "cli/answer.h"
#include "cli/apply_wait.h"
#include "cli/control_session.h"
#include "cli/human.h"
#include "cli/node_status.h"
#include "cli/spec_diff.h"
#include "cli/spec_file.h"
#include "cli/verbs.h"

#include <string.h>

#define WAIT_USEC (UINT64_C(600) * 1000000)

static void cleanup_spec(Bc__V1__NodeSpec **spec)
{
	if (*spec)
		bc__v1__node_spec__free_unpacked(*spec, NULL);
}

/* Shows what would change, and gives a spec without a revision the next one. A converger that cannot say what it
 * holds is no reason not to apply. */
static int compare(struct door *door, Bc__V1__NodeSpec *spec)
{
	CLEANUP_MESSAGE ProtobufCMessage *message = NULL;
	struct cli *cli = door->cli;
	int r = node_get(door, true, (Bc__V1__GetNodeReply **)(void *)&message);

	if (r != EXIT_OK)
		return r;
	const Bc__V1__GetNodeReply *node = (const Bc__V1__GetNodeReply *)message;

	if (spec->revision == 0)
		spec->revision = node->accepted_revision + 1;
	if (cli_output_is_data(cli) || cli->output == OUTPUT_NAME)
		return EXIT_OK;
	r = spec_diff_print(node->spec, spec, cli->out, cli->color);
	if (r < 0)
		return cli_fail(cli, EXIT_FAILED, "cannot compare: %s", strerror(-r));
	if (r == 0)
		(void)fprintf(cli->out, "  nothing differs from revision %llu\n",
		        (unsigned long long)node->accepted_revision);
	return EXIT_OK;
}

static void plan_print(struct cli *cli, const Bc__V1__ApplyReply *reply, bool dry_run)
{
	CLEANUP(table) struct table *table = table_new();
	char changes[HUMAN_MAX];

	if (!table)
		return;
	table_column(table, dry_run ? "WOULD" : "WILL", 0);
	table_column(table, "ID", 0);
	table_column(table, "DETAIL", 0);
	for (size_t i = 0; i < reply->n_changes; i++) {
		const Bc__V1__PlannedChange *change = reply->changes[i];

		table_cell(table, STYLE_PLAIN, "%s",
		        ENUM_TEXT(bc__v1__planned_change__action__descriptor, change->action));
		table_cell(table, STYLE_PLAIN, "%s", change->id);
		table_cell(table, STYLE_PLAIN, "%s", change->detail);
	}
	if (reply->n_changes)
		(void)answer_table(cli, table);
	if (dry_run)
		(void)fprintf(cli->out, "Valid; nothing was changed (--dry-run).\n");
	else
		(void)fprintf(cli->out, "Revision %llu accepted, %s.\n",
		        (unsigned long long)reply->accepted_revision,
		        human_count(reply->n_changes, "change", changes));
	(void)fflush(cli->out);
}

static int apply(struct door *door, Bc__V1__NodeSpec *spec, bool dry_run)
{
	CLEANUP_MESSAGE ProtobufCMessage *reply = NULL;
	Bc__V1__ApplyRequest request = BC__V1__APPLY_REQUEST__INIT;
	int r;

	request.spec = spec;
	request.dry_run = dry_run;
	r = door_call(door, DOOR_METHOD(Converger, apply), &request.base, &reply);
	if (r != EXIT_OK)
		return r;
	if (cli_output_is_data(door->cli))
		return answer_print(door->cli, reply);
	plan_print(door->cli, (const Bc__V1__ApplyReply *)reply, dry_run);
	return EXIT_OK;
}

static int run(struct cli *cli, const struct arguments *arguments)
{
	CLEANUP_DOOR struct door door = DOOR_EMPTY;
	Bc__V1__NodeSpec *spec __attribute__((cleanup(cleanup_spec))) = NULL;
	const char *file = arguments_value(arguments, "file");
	const char *secrets = arguments_value(arguments, "secrets");
	const char *wait_timeout = arguments_value(arguments, "wait-timeout");
	bool dry_run = arguments_given(arguments, "dry-run");
	bool wait = arguments_given(arguments, "wait") || wait_timeout;
	uint64_t wait_usec = WAIT_USEC;
	int r;

	if (!file)
		return cli_usage(cli, "apply needs a file: -f node.yaml, or -f - for standard input");
	if (wait_timeout && human_parse_duration(wait_timeout, &wait_usec) < 0)
		return cli_usage(
		        cli, "--wait-timeout takes a time such as 90s or 10m, not '%s'", wait_timeout);
	if (dry_run && (wait || secrets))
		return cli_usage(cli,
		        "apply: --dry-run changes nothing, so there is nothing to wait or keep secrets for");
	r = spec_file_read(cli, file, &spec);
	if (r == EXIT_OK)
		r = door_open(cli, "converger", &door);
	if (r == EXIT_OK)
		r = compare(&door, spec);
	if (r == EXIT_OK && secrets)
		return control_session_run(&door, spec, secrets, wait ? wait_usec : 0);
	if (r == EXIT_OK)
		r = apply(&door, spec, dry_run);
	return r == EXIT_OK && wait ? apply_wait(&door, spec, spec->revision, wait_usec) : r;
}

static const struct option_def OPTIONS[] = {
	{ 'f', "file", "FILE", WORD_FILE, "the NodeSpec, as YAML or JSON; - for standard input" },
	{ 0, "dry-run", NULL, WORD_NONE, "check and show the plan, change nothing" },
	{ 'w', "wait", NULL, WORD_NONE, "end when every instance is as wished" },
	{ 0, "wait-timeout", "TIME", WORD_NONE, "how long at most; 10m. Implies --wait" },
	{ 0, "secrets", "DIR", WORD_DIR,
	        "stay, and answer requests for the secret REF from the file DIR/REF" },
	{ 0 },
};

const struct command verb_apply = {
	.name = "apply",
	.summary = "Make this node hold what a file says",
	.description =
	        "Shows what differs from what the node was last told, and the changes the converger plans.\n"
	        "A file without a revision gets the next one. A file without an instances section leaves every\n"
	        "instance as it is; one whose section is empty removes them all.\n\n"
	        "--secrets makes bcctl a small control plane: it holds a session, sends the spec, answers secret\n"
	        "requests and prints statuses until Ctrl-C, or with --wait until all is as wished.",
	.options = OPTIONS,
	.example = "  bcctl apply -f node.yaml --dry-run\n"
	           "  bcctl apply -f node.yaml --wait\n"
	           "  bcctl apply -f node.yaml --secrets /etc/bc/secrets",
	.run = run,
};
