/* A verb of bcctl, described as data: help, option parsing and shell completion all read the same table. One file
 * per verb; the list of all is in commands.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct cli;

/* What a word on the command line stands for, for completion. */
enum word_kind {
	WORD_NONE,
	WORD_FILE,
	WORD_DIR,
	WORD_INSTANCE, /* ids, asked of the converger */
	WORD_GET,      /* kinds of things, and instance ids */
	WORD_INTERFACE,
	WORD_RUNTIME,
	WORD_OUTPUT, /* formats */
	WORD_COLOR,
	WORD_SHELL,
	WORD_STATE, /* of instances */
	WORD_VERB,
	WORD_URL,
};

struct option_def {
	char letter;       /* 0: none */
	const char *name;  /* "dry-run" */
	const char *value; /* "FILE"; NULL: takes none */
	enum word_kind kind;
	const char *help;
};

enum { OPTIONS_MAX = 16 };

/* What stands on the command line behind the verb. */
struct arguments {
	const struct option_def *options; /* weak: the command's, ended by a NULL name */
	const char *values
	        [OPTIONS_MAX]; /* weak: by option; "" for a given one that takes no value; NULL: not given */
	const char *const *words; /* weak: what is no option, in order */
	size_t n_words;
};

/* NULL when not given. name must be one of the command's options. */
const char *arguments_value(const struct arguments *arguments, const char *name);
bool arguments_given(const struct arguments *arguments, const char *name);

struct command {
	const char *name;
	const char *words; /* "ID", "[nodes|instances|ID]"; NULL: none */
	size_t n_words_min, n_words_max;
	const char *summary;                /* one line for the list of verbs */
	const char *description;            /* what --help adds; NULL: nothing */
	const char *example;                /* lines of shell, each indented by two spaces */
	const struct option_def *options;   /* ended by a NULL name; NULL: none */
	enum word_kind kind;                /* of the words */
	const struct command *const *verbs; /* of a group such as netd, NULL-ended; such a one has no run */
	bool hidden;
	int (*run)(struct cli *cli, const struct arguments *arguments); /* an exit code */
};

extern const struct command *const commands[]; /* NULL-ended */
extern const struct option_def global_options[];
