#include "cli/complete.h"

#include "lib/base/cleanup.h"

#include "bc/v1/status.pb-c.h"

#include <string.h>

struct completion {
	struct cli *cli;    /* weak */
	const char *prefix; /* weak: what is written of the word already */
	const struct complete_sources *sources;
};

static void offer(const struct completion *completion, const char *word, const char *what)
{
	if (strncmp(word, completion->prefix, strlen(completion->prefix)) != 0)
		return;
	if (what)
		(void)fprintf(completion->cli->out, "%s\t%s\n", word, what);
	else
		(void)fprintf(completion->cli->out, "%s\n", word);
}

static void on_id(const char *word, void *userdata)
{
	offer(userdata, word, NULL);
}

static void offer_list(const struct completion *completion, const char *const *list)
{
	for (; *list; list++)
		offer(completion, *list, NULL);
}

static void offer_ids(struct completion *completion, enum word_kind kind)
{
	if (completion->sources && completion->sources->ids)
		completion->sources->ids(completion->cli, kind, on_id, completion);
}

static void offer_states(const struct completion *completion)
{
	const ProtobufCEnumDescriptor *type = &bc__v1__instance_status__state__descriptor;

	for (unsigned i = 0; i < type->n_values; i++)
		if (type->values[i].value != 0)
			offer(completion, type->values[i].name, NULL);
}

static void offer_kind(struct completion *completion, enum word_kind kind)
{
	static const char *const OUTPUTS[] = { "table", "wide", "json", "yaml", "name", NULL };
	static const char *const COLORS[] = { "auto", "always", "never", NULL };
	static const char *const SHELLS[] = { "bash", "zsh", "fish", NULL };
	static const char *const THINGS[] = { "instances", "volumes", "drivers", "nodes", NULL };

	switch (kind) {
	case WORD_NONE:
	case WORD_URL:
		return;
	case WORD_FILE:
		(void)fputs(":file\n", completion->cli->out);
		return;
	case WORD_DIR:
		(void)fputs(":dir\n", completion->cli->out);
		return;
	case WORD_GET:
		offer_list(completion, THINGS);
		offer_ids(completion, WORD_INSTANCE);
		return;
	case WORD_INSTANCE:
	case WORD_INTERFACE:
	case WORD_RUNTIME:
		offer_ids(completion, kind);
		return;
	case WORD_OUTPUT:
		offer_list(completion, OUTPUTS);
		return;
	case WORD_COLOR:
		offer_list(completion, COLORS);
		return;
	case WORD_SHELL:
		offer_list(completion, SHELLS);
		return;
	case WORD_STATE:
		offer_states(completion);
		return;
	case WORD_VERB:
		for (const struct command *const *c = commands; *c; c++)
			if (!(*c)->hidden)
				offer(completion, (*c)->name, (*c)->summary);
		return;
	}
}

static void offer_options(const struct completion *completion, const struct option_def *options)
{
	for (; options && options->name; options++) {
		char word[64];

		(void)snprintf(word, sizeof(word), "--%s", options->name);
		offer(completion, word, options->help);
	}
}

/* The option that word is, in either table; NULL for none. */
static const struct option_def *option_find(
        const struct option_def *const *tables, size_t n_tables, const char *word)
{
	for (size_t t = 0; t < n_tables; t++)
		for (const struct option_def *o = tables[t]; o && o->name; o++)
			if ((word[0] == '-' && word[1] == '-' && strcmp(word + 2, o->name) == 0) ||
			        (o->letter && word[0] == '-' && word[1] == o->letter && !word[2]))
				return o;
	return NULL;
}

static const struct command *verb_find(const struct command *const *list, const char *name)
{
	for (; list && *list; list++)
		if (strcmp((*list)->name, name) == 0)
			return *list;
	return NULL;
}

/* What was written before says where to ask for ids. */
static void global_take(struct cli *cli, const struct option_def *option, const char *value)
{
	if (strcmp(option->name, "run-dir") == 0)
		cli->run_dir = value;
	else if (strcmp(option->name, "socket") == 0)
		cli->socket = value;
}

void complete_words(
        struct cli *cli, const char *const *words, size_t n_words, const struct complete_sources *sources)
{
	struct completion completion = {
		.cli = cli, .prefix = n_words ? words[n_words - 1] : "", .sources = sources
	};
	const struct option_def *tables[] = { global_options, NULL };
	const struct command *command = NULL;
	const struct option_def *pending = NULL; /* an option that still wants its value */
	size_t n_given = 0;                      /* words behind the verb */
	bool only_words = false;

	for (size_t i = 0; n_words && i + 1 < n_words; i++) {
		const char *word = words[i];
		const struct command *inner;

		if (pending) {
			global_take(cli, pending, word);
			pending = NULL;
		} else if (!only_words && strcmp(word, "--") == 0) {
			only_words = true;
		} else if (!only_words && word[0] == '-' && word[1]) {
			const struct option_def *option = option_find(tables, ARRAY_SIZE(tables), word);

			pending = option && option->value ? option : NULL;
		} else if (!command || command->verbs) {
			inner = verb_find(command ? command->verbs : commands, word);
			if (!inner)
				return;
			command = inner;
			tables[1] = command->options;
		} else {
			n_given++;
		}
	}
	if (pending) {
		offer_kind(&completion, pending->kind);
	} else if (completion.prefix[0] == '-' && !only_words) {
		offer_options(&completion, tables[1]);
		offer_options(&completion, global_options);
	} else if (!command) {
		offer_kind(&completion, WORD_VERB);
	} else if (command->verbs) {
		for (const struct command *const *c = command->verbs; *c; c++)
			offer(&completion, (*c)->name, (*c)->summary);
	} else if (n_given < command->n_words_max) {
		offer_kind(&completion, command->kind);
	}
}
