/* Configuration of a service: systemd-style INI, FILE and then the *.conf of FILE.d in lexical order, into
 * plain structs by a table of keys.
 *
 * An unknown section or key is a warning; a value that is not acceptable is a refusal that says what is.
 * Comments start a line with '#' or ';' (" ;" starts one behind a value too). Values may stand in quotes.
 * A later file replaces what an earlier one said, and no file says a key twice; lists are appended to, "key=" alone
 * goes back to the preset, and empties a list. Lines are at most 196 bytes; none is continued or cut. */
#pragma once

#include "lib/conf/value.h"

/* One target struct, zeroed before the first load, and the keys that fill it. */
struct conf_table {
	const struct conf_key *keys;
	size_t n_keys;
	void *target;
};

typedef void (*conf_warn_fn)(const char *warning, void *userdata);

/* Presets first, then the files. A file that is not there is an error only when required. Returns 0,
 * -EINVAL with the file, line, value and what is accepted in err, or another -errno; the targets then hold
 * something that conf_done() can release. warn may be NULL. */
int conf_load(const char *file, bool required, const struct conf_table *tables, size_t n_tables,
        conf_warn_fn warn, void *userdata, struct err *err);
void conf_done(const struct conf_table *tables, size_t n_tables);

/* The whole configuration as a file with comments, at the values the targets hold. */
void conf_print(const struct conf_table *tables, size_t n_tables, FILE *f);
