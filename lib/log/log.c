#include "lib/log/log.h"

#include "lib/base/cleanup.h"
#include "lib/base/utf8.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <systemd/sd-journal.h>
#include <time.h>

enum { TEXT_MAX = 8192, IOVEC_MAX = LOG_FIELDS_MAX + 8 };

/* Set by log_open() before there are threads; only the level changes later. */
static struct {
	const char *name; /* weak */
	bool to_journal;
	bool coloured;
	bool level_is_forced; /* by the environment */
	atomic_int level;
} the_log = { .name = "bc", .level = LOG_INFO };

static const struct level_name {
	int level;
	const char *name, *label, *colour;
} LEVELS[] = {
	{ LOG_ERR, "error", "ERROR  ", "\x1b[1;31m" },
	{ LOG_WARNING, "warning", "WARNING", "\x1b[33m" },
	{ LOG_NOTICE, "notice", "NOTICE ", "\x1b[1m" },
	{ LOG_INFO, "info", "INFO   ", "" },
	{ LOG_DEBUG, "debug", "DEBUG  ", "\x1b[2m" },
};

int log_level_parse(const char *text, int *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(LEVELS); i++) {
		if (strcmp(text, LEVELS[i].name) == 0) {
			*ret = LEVELS[i].level;
			return 0;
		}
	}
	return -EINVAL;
}

/* systemd names the device and inode of the socket it made our stderr; a redirection has others. */
static bool stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;

	return stream && sscanf(stream, "%llu:%llu", &dev, &ino) == 2 && fstat(STDERR_FILENO, &st) == 0 &&
	        st.st_dev == dev && st.st_ino == ino;
}

static bool stderr_takes_colour(void)
{
	const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");

	return isatty(STDERR_FILENO) && !(no_color && no_color[0]) && term && strcmp(term, "dumb") != 0;
}

void log_open(const char *name)
{
	const char *text = getenv("BC_LOG_LEVEL");
	int level = LOG_INFO;

	the_log.name = name;
	the_log.to_journal = stderr_is_journal();
	the_log.coloured = stderr_takes_colour();
	the_log.level_is_forced = text && text[0] && log_level_parse(text, &level) == 0;
	the_log.level = level;
	if (text && text[0] && !the_log.level_is_forced)
		log_warning(
		        0, "BC_LOG_LEVEL=%s is no level; one of: error, warning, notice, info, debug", text);
}

void log_configure(int level)
{
	if (!the_log.level_is_forced)
		the_log.level = level;
}

bool log_shows(int level)
{
	return level <= the_log.level;
}

/* --- stderr --- */

static const struct level_name *level_find(int level)
{
	for (size_t i = 0; i < ARRAY_SIZE(LEVELS); i++)
		if (LEVELS[i].level == level)
			return &LEVELS[i];
	return &LEVELS[0];
}

/* Text of others in a message must not move the cursor: what is no printable UTF-8 becomes '?'. */
static void text_put(FILE *f, const char *text, size_t n)
{
	while (n > 0) {
		size_t size = utf8_char_size(text, n);
		bool control = size == 0 ||
		        (size == 1 && ((unsigned char)*text < 0x20 || *text == 0x7f) && *text != '\t') ||
		        (size == 2 && (unsigned char)text[0] == 0xc2 && (unsigned char)text[1] < 0xa0);

		if (size == 0)
			size = 1;
		if (control)
			(void)fputc('?', f);
		else
			(void)fwrite(text, 1, size, f);
		text += size;
		n -= size;
	}
}

static void prefix_put(FILE *f, const struct level_name *level)
{
	struct timespec now;
	struct tm tm;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	(void)gmtime_r(&now.tv_sec, &tm);
	(void)fprintf(f, "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ ", tm.tm_year + 1900, tm.tm_mon + 1,
	        tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, now.tv_nsec / 1000000);
	if (the_log.coloured)
		(void)fprintf(f, "%s%s\x1b[0m %s: ", level->colour, level->label, the_log.name);
	else
		(void)fprintf(f, "%s %s: ", level->label, the_log.name);
}

static void fields_put(FILE *f, const struct log_field *fields)
{
	const char *before = " (";

	for (size_t i = 0; fields && i < LOG_FIELDS_MAX && fields[i].name; i++) {
		if (!fields[i].value)
			continue;
		(void)fprintf(f, "%s%s=", before, fields[i].name);
		text_put(f, fields[i].value, strlen(fields[i].value));
		before = " ";
	}
	if (before[1] == '\0')
		(void)fputc(')', f);
}

/* One write for all of it, so that lines of threads and processes do not mix. */
static void stderr_print(int level, const struct log_field *fields, const char *text)
{
	CLEANUP_FREE char *out = NULL;
	size_t n_out;
	FILE *f = open_memstream(&out, &n_out);

	if (!f)
		return;
	for (const char *line = text; line;) {
		size_t n = strcspn(line, "\n");
		const char *next = line[n] && line[n + 1] ? line + n + 1 : NULL;

		prefix_put(f, level_find(level));
		text_put(f, line, n);
		if (!next)
			fields_put(f, fields);
		(void)fputc('\n', f);
		line = next;
	}
	if (fclose(f) == 0)
		while (write(STDERR_FILENO, out, n_out) < 0 && errno == EINTR)
			;
}

/* --- the journal --- */

struct journal_entry {
	struct iovec parts[IOVEC_MAX];
	char *texts[IOVEC_MAX]; /* owned */
	size_t n;
};

static void entry_add(struct journal_entry *entry, const char *fmt, ...)
        __attribute__((format(printf, 2, 3)));

static void entry_add(struct journal_entry *entry, const char *fmt, ...)
{
	char *text;
	va_list ap;

	if (entry->n == IOVEC_MAX)
		return;
	va_start(ap, fmt);
	int n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	entry->texts[entry->n] = text;
	entry->parts[entry->n++] = (struct iovec){ .iov_base = text, .iov_len = (size_t)n };
}

static void entry_done(struct journal_entry *entry)
{
	while (entry->n > 0)
		free(entry->texts[--entry->n]);
}

static bool journal_print(int level, int r, const struct log_field *fields, const char *file, int line,
        const char *function, const char *text)
{
	struct journal_entry entry = { .n = 0 };

	entry_add(&entry, "MESSAGE=%s", text);
	entry_add(&entry, "PRIORITY=%d", level);
	entry_add(&entry, "SYSLOG_IDENTIFIER=%s", the_log.name);
	entry_add(&entry, "CODE_FILE=%s", file);
	entry_add(&entry, "CODE_LINE=%d", line);
	entry_add(&entry, "CODE_FUNC=%s", function);
	if (r < 0)
		entry_add(&entry, "ERRNO=%d", -r);
	for (size_t i = 0; fields && i < LOG_FIELDS_MAX && fields[i].name; i++)
		if (fields[i].value)
			entry_add(&entry, "%s=%s", fields[i].name, fields[i].value);
	int sent = sd_journal_sendv(entry.parts, (int)entry.n);
	entry_done(&entry);
	return sent >= 0;
}

int log_print(int level, int r, const struct log_field *fields, const char *file, int line,
        const char *function, const char *fmt, ...)
{
	char text[TEXT_MAX];
	int saved = errno;
	va_list ap;

	if (!log_shows(level))
		return r;
	errno = r < 0 ? -r : saved;
	va_start(ap, fmt);
	int n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n >= (int)sizeof(text))
		memcpy(text + sizeof(text) - sizeof("…"), "…", sizeof("…"));
	if (!the_log.to_journal || !journal_print(level, r, fields, file, line, function, text))
		stderr_print(level, fields, text);
	errno = saved;
	return r;
}
