#include "cli/complete.h"
#include "cli/door.h"
#include "cli/run_dir.h"
#include "cli/verbs.h"

#include "bc/v1/converger.pb-c.h"
#include "bc/v1/netd.pb-c.h"

#include <string.h>

#define ANSWER_USEC UINT64_C(1000000) /* a person waits for it with a finger on Tab */

typedef void (*word_fn)(const char *word, void *userdata);

/* Services that do not answer leave the list empty: there is nobody to tell. */
static ProtobufCMessage *ask(
        struct cli *cli, const char *name, struct rpc_method method, const ProtobufCMessage *request)
{
	CLEANUP_DOOR struct door door = DOOR_EMPTY;
	ProtobufCMessage *reply = NULL;
	struct rpc_status status = { 0 };

	if (door_open(cli, name, &door) != EXIT_OK)
		return NULL;
	(void)door_try(&door, method, request, ANSWER_USEC, &reply, &status);
	return reply;
}

static void each_instance(struct cli *cli, word_fn fn, void *userdata)
{
	Bc__V1__GetStatusRequest request = BC__V1__GET_STATUS_REQUEST__INIT;
	CLEANUP_MESSAGE ProtobufCMessage *reply =
	        ask(cli, "converger", DOOR_METHOD(Converger, get_status), &request.base);
	const Bc__V1__NodeStatus *status = (const Bc__V1__NodeStatus *)reply;

	for (size_t i = 0; status && i < status->n_instances; i++)
		fn(status->instances[i]->id, userdata);
}

static void each_interface(struct cli *cli, word_fn fn, void *userdata)
{
	Bc__V1__NetdListRequest request = BC__V1__NETD_LIST_REQUEST__INIT;
	CLEANUP_MESSAGE ProtobufCMessage *reply = ask(cli, "netd", DOOR_METHOD(Netd, list), &request.base);
	const Bc__V1__NetdListReply *list = (const Bc__V1__NetdListReply *)reply;

	for (size_t i = 0; list && i < list->n_interfaces; i++)
		fn(list->interfaces[i]->name, userdata);
}

static void each_runtime(struct cli *cli, word_fn fn, void *userdata)
{
	char names[RUNTIMES_MAX][SOCKET_NAME_MAX];
	int n = run_dir_list(cli, "runtime-", names);

	for (int i = 0; i < n; i++)
		fn(names[i] + strlen("runtime-"), userdata);
}

static void ids(struct cli *cli, enum word_kind kind, word_fn fn, void *userdata)
{
	if (kind == WORD_INSTANCE)
		each_instance(cli, fn, userdata);
	else if (kind == WORD_INTERFACE)
		each_interface(cli, fn, userdata);
	else if (kind == WORD_RUNTIME)
		each_runtime(cli, fn, userdata);
}

static int run(struct cli *cli, const struct arguments *arguments)
{
	static const struct complete_sources SOURCES = { .ids = ids };

	complete_words(cli, arguments->words, arguments->n_words, &SOURCES);
	return EXIT_OK;
}

const struct command verb_complete = {
	.name = "__complete",
	.words = "[WORD…]",
	.n_words_max = 256,
	.summary = "Complete a command line for the scripts of 'bcctl completion'",
	.hidden = true,
	.run = run,
};
