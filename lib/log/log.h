/* The log of a service or tool: to the journal with structured fields when stderr is connected to it, else
 * lines on stderr. Only daemons and tools log; libraries return errors. Any thread may log.
 *
 * Every macro returns its r, so that a failure is logged and passed up in one line. errno is -r while the
 * text is made: %m says it.
 *
 *   return log_err(r, "cannot open '%s': %m", path);
 *   log_info("bridge '%s' appeared", name);
 *   log_with(LOG_NOTICE, 0, LOG_FIELDS({ "BC_INSTANCE", id }), "instance started"); */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <syslog.h>

/* Names are upper case, as the journal wants them. A field without a value is left out. */
struct log_field {
	const char *name;
	const char *value;
};

enum { LOG_FIELDS_MAX = 16 };
#define LOG_FIELDS(...) ((const struct log_field[]){ __VA_ARGS__, { NULL, NULL } })

/* Once, first thing. name is the identifier, such as "bc-netd" (weak). Takes BC_LOG_LEVEL from the
 * environment. */
void log_open(const char *name);
/* The level of the configuration; BC_LOG_LEVEL has the last word. LOG_ERR, LOG_WARNING, LOG_NOTICE,
 * LOG_INFO, LOG_DEBUG. */
void log_configure(int level);
bool log_shows(int level);
/* "error", "warning", "notice", "info", "debug". -EINVAL for another word. */
int log_level_parse(const char *text, int *ret);

/* fields may be NULL, else ends with an empty one. */
int log_print(int level, int r, const struct log_field *fields, const char *file, int line,
        const char *function, const char *fmt, ...) __attribute__((format(printf, 7, 8)));

#define log_with(level, r, fields, ...)                                                                      \
	log_print((level), (r), (fields), __FILE__, __LINE__, __func__, __VA_ARGS__)
#define log_err(r, ...) log_with(LOG_ERR, (r), NULL, __VA_ARGS__)
#define log_warning(r, ...) log_with(LOG_WARNING, (r), NULL, __VA_ARGS__)
#define log_notice(...) log_with(LOG_NOTICE, 0, NULL, __VA_ARGS__)
#define log_info(...) log_with(LOG_INFO, 0, NULL, __VA_ARGS__)
/* The arguments are not evaluated unless it is shown. */
#define log_debug(...) (log_shows(LOG_DEBUG) ? log_with(LOG_DEBUG, 0, NULL, __VA_ARGS__) : 0)
