#include "cli/help.h"

#include "cli/exit_code.h"

#include <string.h>

enum { INDENT = 26 };

static void print_options(const struct option_def *options, FILE *to)
{
	for (; options->name; options++) {
		char left[64];
		int n = snprintf(left, sizeof(left), "  %c%c%s--%s%s%s", options->letter ? '-' : ' ',
		        options->letter ? options->letter : ' ', options->letter ? ", " : "  ", options->name,
		        options->value ? " " : "", options->value ? options->value : "");

		(void)fprintf(to, "%-*s%s\n", n < INDENT - 1 ? INDENT : n + 2, left, options->help);
	}
}

static void print_verbs(const struct command *const *list, FILE *to)
{
	for (; *list; list++) {
		char left[64];

		if ((*list)->hidden)
			continue;
		int n = snprintf(left, sizeof(left), "  %s%s%s", (*list)->name, (*list)->words ? " " : "",
		        (*list)->words ? (*list)->words : "");

		(void)fprintf(to, "%-*s%s\n", n < INDENT - 1 ? INDENT : n + 2, left, (*list)->summary);
	}
}

void help_all(FILE *to)
{
	(void)fprintf(to,
	        "Usage: bcctl [OPTION…] VERB [ARGUMENT…]\n\n"
	        "Tells the services of this host which VMs to hold, and shows what they hold.\n\nVerbs:\n");
	print_verbs(commands, to);
	(void)fprintf(to, "\nOptions of every verb:\n");
	print_options(global_options, to);
	(void)fprintf(to, "\nExit codes:\n");
	for (int code = 0; code <= EXIT_INTERRUPTED; code++)
		if (exit_code_text(code))
			(void)fprintf(to, "  %-5d%s\n", code, exit_code_text(code));
	(void)fprintf(to, "\n'bcctl VERB --help' says more about one, with an example. See also bcctl(1).\n");
}

void help_command(const struct command *command, const char *group, FILE *to)
{
	(void)fprintf(to, "Usage: bcctl %s%s%s%s%s%s\n\n%s.\n", group ? group : "", group ? " " : "",
	        command->name, command->options ? " [OPTION…]" : "",
	        command->words || command->verbs ? " " : "",
	        command->verbs           ? "VERB"
	                : command->words ? command->words
	                                 : "",
	        command->summary);
	if (command->description)
		(void)fprintf(to, "\n%s\n", command->description);
	if (command->verbs) {
		(void)fprintf(to, "\nVerbs:\n");
		print_verbs(command->verbs, to);
	}
	if (command->options) {
		(void)fprintf(to, "\nOptions:\n");
		print_options(command->options, to);
	}
	if (command->example)
		(void)fprintf(to, "\nExample:\n%s\n", command->example);
	(void)fprintf(to, "\n'bcctl --help' lists the options of every verb.\n");
}
