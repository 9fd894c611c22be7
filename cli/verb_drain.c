#include "cli/answer.h"
#include "cli/door.h"
#include "cli/verbs.h"

#include "bc/v1/converger.pb-c.h"

static int run(struct cli *cli, const struct arguments *arguments)
{
	CLEANUP_DOOR struct door door = DOOR_EMPTY;
	CLEANUP_MESSAGE ProtobufCMessage *message = NULL;
	Bc__V1__DrainRequest request = BC__V1__DRAIN_REQUEST__INIT;

	request.drain = !arguments_given(arguments, "undo");
	request.stop_instances = arguments_given(arguments, "stop");
	if (!request.drain && request.stop_instances)
		return cli_usage(cli, "drain: --undo and --stop say opposite things");

	int r = door_open(cli, "converger", &door);

	if (r == EXIT_OK)
		r = door_call(&door, DOOR_METHOD(Converger, drain), &request.base, &message);
	if (r != EXIT_OK)
		return r;
	if (cli_output_is_data(cli))
		return answer_print(cli, message);
	(void)fprintf(cli->out, "%s; still running: %u.\n",
	        !request.drain                   ? "The node takes work again"
	                : request.stop_instances ? "The node is draining and stops its instances"
	                                         : "The node starts nothing new",
	        ((const Bc__V1__DrainReply *)message)->running);
	return EXIT_OK;
}

static const struct option_def OPTIONS[] = {
	{ 0, "stop", NULL, WORD_NONE, "stop every instance too, gracefully" },
	{ 0, "undo", NULL, WORD_NONE, "take work again; what was stopped for the drain starts" },
	{ 0 },
};

const struct command verb_drain = {
	.name = "drain",
	.summary = "Start nothing new on this node, until --undo",
	.options = OPTIONS,
	.example = "  bcctl drain --stop && bcctl watch\n"
	           "  bcctl drain --undo",
	.run = run,
};
