#include "cli/options.h"

#include "lib/base/quote.h"
#include "lib/base/suggest.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

enum { SETS_MAX = 2, ALL_MAX = SETS_MAX * OPTIONS_MAX, LETTERS_MAX = 3 * ALL_MAX + 3, VALUE_BASE = 256 };

/* Where an option of getopt's came from. */
struct origin {
	struct arguments *arguments;
	size_t index;
};

struct tables {
	struct option longs[ALL_MAX + 1];
	char letters[LETTERS_MAX];
	struct origin origins[ALL_MAX];
	size_t n;
};

static void tables_fill(
        struct tables *tables, bool stop_at_word, const struct option_set *sets, size_t n_sets)
{
	char *letter = tables->letters;

	memset(tables, 0, sizeof(*tables));
	if (stop_at_word)
		*letter++ = '+';
	*letter++ = ':'; /* tell a missing value from an unknown option */
	for (size_t set = 0; set < n_sets; set++) {
		const struct option_def *options = sets[set].options;

		sets[set].arguments->options = options;
		for (size_t i = 0; options && options[i].name && tables->n < ALL_MAX; i++) {
			tables->longs[tables->n] = (struct option){
				.name = options[i].name,
				.has_arg = options[i].value ? required_argument : no_argument,
				.val = VALUE_BASE + (int)tables->n,
			};
			tables->origins[tables->n++] =
			        (struct origin){ .arguments = sets[set].arguments, .index = i };
			if (options[i].letter) {
				*letter++ = options[i].letter;
				if (options[i].value)
					*letter++ = ':';
			}
		}
	}
}

/* The origin of what getopt_long() returned; NULL for ':' and '?'. */
static const struct origin *origin_of(const struct tables *tables, int value)
{
	if (value >= VALUE_BASE)
		return &tables->origins[value - VALUE_BASE];
	for (size_t i = 0; i < tables->n; i++) {
		const struct origin *origin = &tables->origins[i];

		if (origin->arguments->options[origin->index].letter == value)
			return origin;
	}
	return NULL;
}

static int unknown_option(const struct tables *tables, const char *given, struct err *err)
{
	char name[64], hint[SUGGESTION_TEXT_MAX];
	struct suggestion suggestion;

	if (strncmp(given, "--", 2) != 0 || !given[2])
		return err_set(err, -EINVAL, "unknown option '-%c'", optopt);
	(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(given, "="), given);
	suggestion = suggestion_of(name);
	char candidates[ALL_MAX][64];

	for (size_t i = 0; i < tables->n; i++) {
		(void)snprintf(candidates[i], sizeof(candidates[i]), "--%s", tables->longs[i].name);
		suggestion_offer(&suggestion, candidates[i]);
	}
	return err_set(
	        err, -EINVAL, "unknown option '%s'%s", QUOTED(name), suggestion_text(&suggestion, hint));
}

int options_parse(int argc, char **argv, bool stop_at_word, const struct option_set *sets, size_t n_sets,
        int *ret_first_word, struct err *err)
{
	struct tables tables;
	int value;

	tables_fill(&tables, stop_at_word, sets, n_sets);
	optind = 0; /* glibc: begin anew */
	opterr = 0;
	while ((value = getopt_long(argc, argv, tables.letters, tables.longs, NULL)) != -1) {
		const char *given = argv[optind - 1];
		const struct origin *origin = value == ':' || value == '?' ? NULL : origin_of(&tables, value);

		if (value == ':')
			return err_set(err, -EINVAL, "option '%s' needs a value", QUOTED(given));
		if (value == '?' && optopt >= VALUE_BASE)
			return err_set(err, -EINVAL, "option '%s' takes no value", QUOTED(given));
		if (!origin || !origin->arguments)
			return unknown_option(&tables, given, err);
		origin->arguments->values[origin->index] = optarg ? optarg : "";
	}
	*ret_first_word = optind;
	return 0;
}

const char *arguments_value(const struct arguments *arguments, const char *name)
{
	for (size_t i = 0; arguments->options && arguments->options[i].name; i++)
		if (strcmp(arguments->options[i].name, name) == 0)
			return arguments->values[i];
	return NULL;
}

bool arguments_given(const struct arguments *arguments, const char *name)
{
	return arguments_value(arguments, name) != NULL;
}
