#include "cli/answer.h"
#include "cli/human.h"
#include "cli/node_status.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "lib/base/ids.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/random.h>

struct snapshot_view {
	struct cli *cli; /* weak */
	struct progress progress;
	char digest[80];
	uint64_t size_bytes;
	bool done;
};

static bool on_progress(const ProtobufCMessage *message, void *userdata)
{
	struct snapshot_view *view = userdata;
	const Bc__V1__SnapshotProgress *event = (const Bc__V1__SnapshotProgress *)message;

	if (event->done) {
		view->done = true;
		(void)snprintf(view->digest, sizeof(view->digest), "%s", event->digest);
		view->size_bytes = event->size_bytes;
		progress_done(&view->progress);
	}
	if (cli_output_is_data(view->cli))
		return answer_print_next(view->cli, message) == EXIT_OK;
	if (event->progress && !event->done)
		progress_bytes(&view->progress, event->progress->what, event->progress->done_bytes,
		        event->progress->total_bytes);
	return true;
}

/* A plain path means a file of this host. */
static int url_make(struct cli *cli, const char *to, char *buf, size_t size)
{
	char path[PATH_MAX] = "";
	int n;

	if (strncmp(to, "file:", 5) == 0 || strstr(to, "://")) {
		n = snprintf(buf, size, "%s", to);
	} else {
		if (to[0] != '/' && !getcwd(path, sizeof(path)))
			return cli_fail(
			        cli, EXIT_FAILED, "cannot tell the current directory: %s", strerror(errno));
		if (strpbrk(to, "%?# ") || strpbrk(path, "%?# "))
			return cli_usage(
			        cli, "snapshot: write the file as a URL, file:///…, with %%20 for a space");
		n = snprintf(buf, size, "file://%s%s%s", path, to[0] == '/' ? "" : "/", to);
	}
	if (n < 0 || (size_t)n >= size)
		return cli_usage(cli, "snapshot: the URL is longer than %zu bytes", size - 1);
	return EXIT_OK;
}

static int run(struct cli *cli, const struct arguments *arguments)
{
	CLEANUP_DOOR struct door door = DOOR_EMPTY;
	struct snapshot_view view = { .cli = cli };
	const struct door_stream stream = { .on_message = on_progress, .userdata = &view };
	Bc__V1__SnapshotCommand command = BC__V1__SNAPSHOT_COMMAND__INIT;
	struct rpc_status status = { 0 };
	const char *to = arguments_value(arguments, "to"), *given = arguments_value(arguments, "command-id");
	char id[UUID_TEXT_MAX], url[2049], command_id[40];
	uint64_t random[2] = { 0 };
	char size[HUMAN_MAX];
	int r;

	if (!to)
		return cli_usage(cli, "snapshot needs a target: --to URL");
	r = url_make(cli, to, url, sizeof(url));
	if (r == EXIT_OK)
		r = door_open(cli, "converger", &door);
	if (r == EXIT_OK)
		r = instance_id_resolve(&door, arguments->words[0], id, sizeof(id));
	if (r != EXIT_OK)
		return r;
	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return cli_fail(cli, EXIT_FAILED, "no random numbers: %s", strerror(errno));
	(void)snprintf(command_id, sizeof(command_id), "bcctl-%016llx%016llx", (unsigned long long)random[0],
	        (unsigned long long)random[1]);
	command.id = given ? (char *)(uintptr_t)given : command_id;
	command.instance_id = id;
	command.with_memory = arguments_given(arguments, "memory");
	command.upload_url = url;
	progress_init(&view.progress, cli);
	r = door_stream(&door, DOOR_METHOD(Converger, snapshot), &command.base, UINT64_MAX, &stream, &status);
	progress_done(&view.progress);
	if (r != EXIT_OK)
		return door_failed(&door, &status);
	if (!view.done)
		return cli_fail(cli, EXIT_FAILED, "the converger ended the snapshot without a result");
	if (!cli_output_is_data(cli))
		(void)fprintf(cli->out, "%s  %s\n", view.digest, human_bytes(view.size_bytes, size));
	return EXIT_OK;
}

static const struct option_def OPTIONS[] = {
	{ 't', "to", "URL", WORD_URL, "where to: https://… (PUT), file:///…, or a path on this host" },
	{ 'm', "memory", NULL, WORD_NONE, "with the guest's memory, so that it goes on where it was" },
	{ 0, "command-id", "ID", WORD_NONE, "names the command: repeating it does nothing twice" },
	{ 0 },
};

const struct command verb_snapshot = {
	.name = "snapshot",
	.words = "ID",
	.n_words_min = 1,
	.n_words_max = 1,
	.kind = WORD_INSTANCE,
	.summary = "Write an instance's disks, with --memory its memory too, to a tar elsewhere",
	.description = "Prints the digest and size that restoreFrom asks for.",
	.options = OPTIONS,
	.example = "  bcctl snapshot 6f1c --to /backup/6f1c.tar\n"
	           "  bcctl snapshot 6f1c --memory --to 'https://store.example/6f1c.tar?signature=…'",
	.run = run,
};
