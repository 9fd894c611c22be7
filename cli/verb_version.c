#include "cli/verbs.h"

static int run(struct cli *cli, const struct arguments *arguments)
{
	(void)arguments;
	(void)fprintf(cli->out, "bcctl %s\n", BC_VERSION);
	return EXIT_OK;
}

const struct command verb_version = {
	.name = "version",
	.summary = "Print bcctl's version",
	.description = "The services' own versions are in 'bcctl get drivers'.",
	.example = "  bcctl version",
	.run = run,
};
