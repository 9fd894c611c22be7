#include "lib/conf/conf.h"

#include "lib/base/atomic_file.h"
#include "lib/base/cleanup.h"
#include "lib/base/quote.h"
#include "lib/base/suggest.h"

#include <fcntl.h>
#include <ini.h>
#include <limits.h>
#include <string.h>

enum { FILE_MAX = 1 << 20, DROP_INS_MAX = 256 };

/* Where a key was given last. */
struct given {
	unsigned file, line; /* file 0: nowhere yet */
};

struct loader {
	const struct conf_table *tables;
	size_t n_tables;
	struct given **given; /* owned; per table and key */
	conf_warn_fn warn;
	void *userdata;
	struct err *err;
	/* the file being read */
	const char *file;
	unsigned n_files;       /* its number, from 1 */
	const char *rest, *end; /* what is not read yet */
	unsigned line;
	int r;                    /* the first failure, with words in err */
	char unknown_section[64]; /* warned of already */
};

static void *slot_of(const struct conf_table *table, const struct conf_key *key)
{
	return (char *)table->target + key->offset;
}

static void complain(struct loader *l, unsigned line, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));

/* Only the first is kept: what follows is often its consequence. */
static void complain(struct loader *l, unsigned line, const char *fmt, ...)
{
	char text[ERR_TEXT_MAX];
	va_list ap;

	if (l->r < 0)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	l->r = err_set(l->err, -EINVAL, "%s:%u: %s", l->file, line, text);
}

/* --- lines --- */

/* An ini_reader: one line a call, so that the handler knows its number; num is the room inih has. */
static char *line_read(char *str, int num, void *stream)
{
	struct loader *l = stream;

	if (l->rest == l->end || l->r < 0)
		return NULL;
	const char *newline = memchr(l->rest, '\n', (size_t)(l->end - l->rest));
	const char *start = l->rest;
	size_t n = (size_t)((newline ? newline : l->end) - start);
	l->rest = newline ? newline + 1 : l->end;
	l->line++;
	/* Without its indentation: inih would take an indented line for more of the value before. */
	while (n > 0 && (*start == ' ' || *start == '\t')) {
		start++;
		n--;
	}
	bool comment = n > 0 && (*start == '#' || *start == ';');
	if (comment)
		n = 0;
	if (n + 4 > (size_t)num)
		complain(l, l->line, "the line has %zu bytes; at most %d are read", n, num - 4);
	else if (memchr(start, '\0', n))
		complain(l, l->line, "the line holds a NUL character; leave it out");
	else if (n > 0 && start[n - 1] == '\\')
		complain(l, l->line, "lines are not continued with '\\'; repeat the key to append to a list");
	if (l->r < 0)
		return NULL;
	memcpy(str, start, n);
	memcpy(str + n, "\n", 2);
	return str;
}

/* --- keys --- */

static bool section_is_known(const struct loader *l, const char *section)
{
	for (size_t t = 0; t < l->n_tables; t++)
		for (size_t k = 0; k < l->tables[t].n_keys; k++)
			if (strcmp(l->tables[t].keys[k].section, section) == 0)
				return true;
	return false;
}

static void warn_unknown(struct loader *l, const char *section, const char *name)
{
	bool known = section_is_known(l, section);
	struct suggestion suggestion = suggestion_of(known ? name : section);
	char meant[SUGGESTION_TEXT_MAX];
	char text[ERR_TEXT_MAX];

	bool told = !known && section[0] &&
	        strncmp(l->unknown_section, section, sizeof(l->unknown_section) - 1) == 0;
	if (!l->warn || told)
		return;
	for (size_t t = 0; t < l->n_tables; t++) {
		for (size_t k = 0; k < l->tables[t].n_keys; k++) {
			const struct conf_key *key = &l->tables[t].keys[k];

			if (!known)
				suggestion_offer(&suggestion, key->section);
			else if (strcmp(key->section, section) == 0)
				suggestion_offer(&suggestion, key->name);
		}
	}
	(void)suggestion_text(&suggestion, meant);
	if (known)
		(void)snprintf(text, sizeof(text), "%s:%u: unknown key '%s' in [%s] is ignored%s", l->file,
		        l->line, QUOTED(name), section, meant);
	else if (!section[0])
		(void)snprintf(text, sizeof(text),
		        "%s:%u: key '%s' stands before any [section] and is ignored", l->file, l->line,
		        QUOTED(name));
	else
		(void)snprintf(text, sizeof(text), "%s:%u: unknown section [%s] is ignored%s", l->file,
		        l->line, QUOTED(section), meant);
	if (!known)
		(void)snprintf(l->unknown_section, sizeof(l->unknown_section), "%s", section);
	l->warn(text, l->userdata);
}

static int preset_restore(const struct conf_table *table, const struct conf_key *key, struct err *err)
{
	void *slot = slot_of(table, key);
	const char *preset = key->preset ? key->preset : "";
	bool is_text = key->type == CONF_STRING || key->type == CONF_PATH;

	conf_value_clear(key, slot);
	if (preset[0])
		return conf_value_parse(key, preset, slot, err);
	if (!is_text)
		return 0;
	*(char **)slot = strdup("");
	return *(char **)slot ? 0 : -ENOMEM;
}

static void key_assign(struct loader *l, const struct conf_table *table, size_t k, const char *text)
{
	const struct conf_key *key = &table->keys[k];
	struct given *given = &l->given[table - l->tables][k];
	bool is_list = key->type == CONF_LIST || key->type == CONF_UIDS;
	struct err why = { 0 };
	int r;

	/* Over files the later one is meant to win; within one nobody can know which was meant. */
	if (!is_list && given->file == l->n_files) {
		complain(l, l->line, "[%s] %s is given in line %u already: leave one of them", key->section,
		        key->name, given->line);
		return;
	}
	if (is_list && !given->file)
		conf_value_clear(key, slot_of(table, key));
	*given = (struct given){ .file = l->n_files, .line = l->line };
	if (!text[0] && !is_list)
		r = preset_restore(table, key, &why);
	else
		r = conf_value_parse(key, text, slot_of(table, key), &why);
	if (r < 0)
		complain(l, l->line, "[%s] %s=%s: %s", key->section, key->name, QUOTED(text),
		        err_text(&why, r));
}

/* An ini_handler; it always goes on, so that inih's own verdict is of the same line as ours. */
static int on_key(void *user, const char *section, const char *name, const char *value)
{
	struct loader *l = user;

	for (size_t t = 0; t < l->n_tables; t++) {
		const struct conf_table *table = &l->tables[t];

		for (size_t k = 0; k < table->n_keys; k++) {
			if (strcmp(table->keys[k].section, section) == 0 &&
			        strcmp(table->keys[k].name, name) == 0) {
				key_assign(l, table, k, value ? value : "");
				return 1;
			}
		}
	}
	warn_unknown(l, section, name);
	return 1;
}

/* --- files --- */

static int file_load(struct loader *l, const char *file, bool required)
{
	CLEANUP_FREE char *text = NULL;
	size_t n_text;

	int r = file_read(AT_FDCWD, file, FILE_MAX, &text, &n_text);
	if (r == -ENOENT && !required)
		return 0;
	if (r == -ELOOP)
		return err_set(l->err, r, "%s: is a symlink; name the file itself", file);
	if (r < 0)
		return err_set(l->err, r, "%s: cannot be read: %s", file, strerror(-r));
	l->file = file;
	l->n_files++;
	l->rest = text;
	l->end = text + n_text;
	l->line = 0;
	l->unknown_section[0] = '\0';
	r = ini_parse_stream(line_read, l, on_key, l);
	if (r > 0) {
		/* Where we found something too, inih's line is earlier: reading stops at our first. */
		if (l->err)
			*l->err = (struct err){ 0 };
		l->r = 0;
		complain(l, (unsigned)r, "the line is neither [section] nor key=value");
	}
	return r < 0 ? -ENOMEM : l->r;
}

static int name_compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

struct names {
	char *items[DROP_INS_MAX]; /* owned */
	size_t n;
};

static void names_done(struct names *names)
{
	while (names->n > 0)
		free(names->items[--names->n]);
}

static bool is_drop_in(const char *name)
{
	static const char SUFFIX[] = ".conf";
	size_t n = strlen(name);

	return name[0] != '.' && n > sizeof(SUFFIX) - 1 &&
	        strcmp(name + n - (sizeof(SUFFIX) - 1), SUFFIX) == 0;
}

static int names_list(struct loader *l, const char *path, struct names *names)
{
	CLEANUP_CLOSEDIR DIR *dir = opendir(path);

	if (!dir && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (!dir)
		return err_set(l->err, -errno, "%s: cannot be read: %s", path, strerror(errno));
	for (const struct dirent *entry; (entry = readdir(dir));) {
		if (!is_drop_in(entry->d_name))
			continue;
		if (names->n == DROP_INS_MAX)
			return err_set(
			        l->err, -EINVAL, "%s: holds more than %d *.conf files", path, DROP_INS_MAX);
		names->items[names->n] = strdup(entry->d_name);
		if (!names->items[names->n])
			return -ENOMEM;
		names->n++;
	}
	qsort(names->items, names->n, sizeof(names->items[0]), name_compare);
	return 0;
}

static int drop_ins_load(struct loader *l, const char *file)
{
	__attribute__((cleanup(names_done))) struct names names = { .n = 0 };
	char dir[PATH_MAX], path[PATH_MAX + NAME_MAX + 2];

	if (snprintf(dir, sizeof(dir), "%s.d", file) >= (int)sizeof(dir))
		return err_set(l->err, -ENAMETOOLONG, "%s: the path is too long", file);
	int r = names_list(l, dir, &names);
	for (size_t i = 0; i < names.n && r == 0; i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", dir, names.items[i]);
		r = file_load(l, path, true);
	}
	return r;
}

static int presets_load(struct loader *l)
{
	for (size_t t = 0; t < l->n_tables; t++) {
		for (size_t k = 0; k < l->tables[t].n_keys; k++) {
			const struct conf_key *key = &l->tables[t].keys[k];
			int r = preset_restore(&l->tables[t], key, l->err);

			if (r < 0) {
				(void)err_wrap(l->err, "preset of [%s] %s", key->section, key->name);
				return r;
			}
		}
	}
	return 0;
}

static int given_new(const struct conf_table *tables, size_t n_tables, struct given ***ret)
{
	struct given **given = calloc(n_tables + 1, sizeof(*given));

	if (!given)
		return -ENOMEM;
	*ret = given;
	for (size_t t = 0; t < n_tables; t++) {
		given[t] = calloc(tables[t].n_keys + 1, sizeof(struct given));
		if (!given[t])
			return -ENOMEM;
	}
	return 0;
}

int conf_load(const char *file, bool required, const struct conf_table *tables, size_t n_tables,
        conf_warn_fn warn, void *userdata, struct err *err)
{
	struct loader l = {
		.tables = tables, .n_tables = n_tables, .warn = warn, .userdata = userdata, .err = err
	};
	int r = given_new(tables, n_tables, &l.given);

	if (r == 0)
		r = presets_load(&l);
	if (r == 0)
		r = file_load(&l, file, required);
	if (r == 0)
		r = drop_ins_load(&l, file);
	for (size_t t = 0; l.given && t < n_tables; t++)
		free(l.given[t]);
	free(l.given);
	return r;
}

void conf_done(const struct conf_table *tables, size_t n_tables)
{
	for (size_t t = 0; t < n_tables; t++)
		for (size_t k = 0; k < tables[t].n_keys; k++)
			conf_value_clear(&tables[t].keys[k], slot_of(&tables[t], &tables[t].keys[k]));
}

void conf_print(const struct conf_table *tables, size_t n_tables, FILE *f)
{
	const char *section = NULL;
	char accepted[256];

	for (size_t t = 0; t < n_tables; t++) {
		for (size_t k = 0; k < tables[t].n_keys; k++) {
			const struct conf_key *key = &tables[t].keys[k];

			if (!section || strcmp(section, key->section) != 0)
				(void)fprintf(f, "%s[%s]\n", section ? "\n" : "", key->section);
			section = key->section;
			(void)fprintf(f, "# %s: %s\n#%s=", key->help,
			        conf_value_accepted(key, accepted, sizeof(accepted)), key->name);
			conf_value_print(key, slot_of(&tables[t], key), f);
			(void)fputc('\n', f);
		}
	}
}
