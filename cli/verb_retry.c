#include "cli/instance_view.h"
#include "cli/node_status.h"
#include "cli/verbs.h"
#include "lib/base/ids.h"

#include <time.h>

static int run(struct cli *cli, const struct arguments *arguments)
{
	CLEANUP_DOOR struct door door = DOOR_EMPTY;
	CLEANUP_MESSAGE ProtobufCMessage *message = NULL;
	CLEANUP(table) struct table *table = NULL;
	Bc__V1__RetryRequest request = BC__V1__RETRY_REQUEST__INIT;
	char id[UUID_TEXT_MAX];
	int r = door_open(cli, "converger", &door);

	if (r == EXIT_OK)
		r = instance_id_resolve(&door, arguments->words[0], id, sizeof(id));
	request.instance_id = id;
	if (r == EXIT_OK)
		r = door_call(&door, DOOR_METHOD(Converger, retry), &request.base, &message);
	if (r != EXIT_OK)
		return r;
	const Bc__V1__RetryReply *reply = (const Bc__V1__RetryReply *)message;

	if (cli_output_is_data(cli))
		return answer_print(cli, message);
	table = table_new();
	if (!table || !reply->status)
		return EXIT_OK;
	instance_columns(table);
	instance_row(table, reply->status, time(NULL));
	return answer_table(cli, table);
}

const struct command verb_retry = {
	.name = "retry",
	.words = "ID",
	.n_words_min = 1,
	.n_words_max = 1,
	.kind = WORD_INSTANCE,
	.summary = "Try an instance again now, forgetting its pause or its final failure",
	.example = "  bcctl retry 6f1c0d8e-3a52-4a57-9d3b-0c2f7f1f5b11",
	.run = run,
};
