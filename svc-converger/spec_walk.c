#include "svc-converger/spec_walk.h"

#include "lib/base/quote.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { URL_MAX = 2048, WHERE_MAX = 128 };

static size_t step_add(struct spec_walk *walk, const char *field, long index)
{
	size_t before = walk->n_steps;

	if (before < SPEC_DEPTH_MAX)
		walk->steps[walk->n_steps++] = (struct spec_step){ .field = field, .index = index };
	return before;
}

size_t spec_enter(struct spec_walk *walk, const char *field)
{
	return step_add(walk, field, SPEC_NO_INDEX);
}

size_t spec_enter_item(struct spec_walk *walk, const char *field, size_t index)
{
	return step_add(walk, field, (long)index);
}

void spec_leave(struct spec_walk *walk, size_t before)
{
	walk->n_steps = before;
}

/* "instances.items[3].nics[0]" */
static void where_write(const struct spec_walk *walk, char *buf, size_t size)
{
	size_t n = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < walk->n_steps && n < size; i++) {
		const struct spec_step *step = &walk->steps[i];
		int more = step->index == SPEC_NO_INDEX
		        ? snprintf(buf + n, size - n, "%s%s", i ? "." : "", step->field)
		        : snprintf(buf + n, size - n, "%s%s[%ld]", i ? "." : "", step->field, step->index);

		n += more > 0 ? (size_t)more : 0;
	}
}

/* The proto's names as JSON and YAML have them, which is how they were written. */
static void json_names(char *path)
{
	char *to = path;

	for (const char *from = path; *from; from++)
		*to++ = *from == '_' && from[1] ? (char)toupper((unsigned char)*++from) : *from;
	*to = '\0';
}

/* Ends a text that did not fit with "…", never in the middle of a character. */
static void text_cut(char *buf, size_t size)
{
	static const char ELLIPSIS[] = "…";
	size_t n = size - sizeof(ELLIPSIS);

	while (n > 0 && ((unsigned char)buf[n] & 0xc0) == 0x80)
		n--;
	memcpy(buf + n, ELLIPSIS, sizeof(ELLIPSIS));
}

/* True when there is room to show one more; it is counted either way. */
static bool fault_counts(struct spec_walk *walk)
{
	return walk->report->n_faults++ < SPEC_FAULTS_SHOWN;
}

/* text begins with a field's name where joint is ".". */
static void fault_keep(struct spec_walk *walk, const char *joint, const char *text)
{
	char *to = walk->report->faults[walk->report->n_faults - 1];
	size_t n_field = joint[0] == '.' ? strcspn(text, ":") : 0;
	char where[WHERE_MAX], path[2 * WHERE_MAX];
	int n;

	where_write(walk, where, sizeof(where));
	(void)snprintf(path, sizeof(path), "%s%s%.*s", where, walk->n_steps ? joint : "", (int)n_field, text);
	json_names(path);
	n = snprintf(to, SPEC_FAULT_MAX, "%s%s", path, text + n_field);

	if (n >= SPEC_FAULT_MAX)
		text_cut(to, SPEC_FAULT_MAX);
}

void spec_fault(struct spec_walk *walk, const char *field, const char *fmt, ...)
{
	struct err err = { 0 };
	va_list ap;

	if (!fault_counts(walk))
		return;
	va_start(ap, fmt);
	(void)err_setv(&err, -EINVAL, fmt, ap);
	va_end(ap);
	if (field[0])
		(void)err_wrap(&err, "%s", field);
	fault_keep(walk, field[0] ? "." : ": ", err.text);
}

void spec_fault_text(struct spec_walk *walk, const char *text)
{
	if (fault_counts(walk))
		fault_keep(walk, ".", text);
}

void spec_check_count(struct spec_walk *walk, const char *field, size_t n, size_t max)
{
	if (n > max)
		spec_fault(walk, field, "%zu items, at most %zu are taken", n, max);
}

void spec_check_chars(struct spec_walk *walk, const char *field, const char *value, const char *chars,
        size_t max, const char *right)
{
	size_t n = strspn(value, chars);

	if (value[n] || n < 1 || n > max)
		spec_fault(walk, field, "'%s' is not %s", QUOTED(value), right);
}

/* True when s holds no control character. */
static bool is_line(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			return false;
	return true;
}

void spec_check_line(struct spec_walk *walk, const char *field, const char *value, size_t max)
{
	size_t n = strlen(value);

	if (n > max)
		spec_fault(walk, field, "%zu bytes, at most %zu are taken", n, max);
	else if (!is_line(value))
		spec_fault(walk, field, "'%s' has a control character or a line break", QUOTED(value));
}

/* "RUNNING, STOPPED or PAUSED": what an enum takes, without its UNSPECIFIED. */
static void enum_words(const ProtobufCEnumDescriptor *type, char *buf, size_t size)
{
	size_t n = 0;

	buf[0] = '\0';
	for (unsigned i = 0; i < type->n_values && n < size; i++) {
		if (type->values[i].value == 0)
			continue;
		const char *joint = n == 0 ? "" : i + 1 == type->n_values ? " or " : ", ";
		int more = snprintf(buf + n, size - n, "%s%s", joint, type->values[i].name);

		n += more > 0 ? (size_t)more : 0;
	}
}

void spec_check_enum(struct spec_walk *walk, const char *field, const ProtobufCEnumDescriptor *type,
        int value, bool has_default)
{
	char words[128];

	if (value == 0 ? has_default : protobuf_c_enum_descriptor_get_value(type, value) != NULL)
		return;
	enum_words(type, words, sizeof(words));
	if (value == 0)
		spec_fault(walk, field, "is not set; write %s", words);
	else
		spec_fault(walk, field, "%d is not known; write %s", value, words);
}

void spec_check_range(struct spec_walk *walk, const char *field, uint64_t value, uint64_t min, uint64_t max)
{
	if (value < min || value > max)
		spec_fault(walk, field, "%llu is out of range; write %llu to %llu", (unsigned long long)value,
		        (unsigned long long)min, (unsigned long long)max);
}

void spec_check_multiple(struct spec_walk *walk, const char *field, uint64_t value, uint64_t of)
{
	if (value % of)
		spec_fault(walk, field, "%llu is no multiple of %llu", (unsigned long long)value,
		        (unsigned long long)of);
}

/* file:///absolute/path, or https://host/…; the rest is the source's own affair. */
static const char *url_fault(const char *url)
{
	static const char FILE_SCHEME[] = "file://", HTTPS_SCHEME[] = "https://";

	if (strlen(url) > URL_MAX)
		return "is longer than 2048 bytes";
	if (!is_line(url) || strchr(url, ' '))
		return "has a space or a control character; percent-encode it";
	if (strncmp(url, FILE_SCHEME, sizeof(FILE_SCHEME) - 1) == 0)
		return url[sizeof(FILE_SCHEME) - 1] == '/' ? NULL
		                                           : "is no file on this host; write file:///path";
	if (strncmp(url, HTTPS_SCHEME, sizeof(HTTPS_SCHEME) - 1) != 0)
		return "is neither a file: nor an https: URL";

	const char *host = url + sizeof(HTTPS_SCHEME) - 1;
	size_t n_host = strcspn(host, "/?#");

	if (n_host == 0)
		return "names no host";
	return memchr(host, '@', n_host) ? "carries a password, which would be stored; use a signed URL"
	                                 : NULL;
}

void spec_check_url(struct spec_walk *walk, const char *field, const char *url)
{
	const char *why = url_fault(url);

	/* Only the part before the query is shown: a signed URL's secret is behind it. */
	if (why) {
		char shown[QUOTE_MAX];
		size_t n = strcspn(url, "?@");

		(void)snprintf(shown, sizeof(shown), "%.*s",
		        n < sizeof(shown) ? (int)n : (int)sizeof(shown) - 1, url);
		spec_fault(walk, field, "'%s' %s", QUOTED(shown), why);
	}
}

void spec_check_with(struct spec_walk *walk, const char *field, const char *value,
        int (*check)(const char *what, const char *value, struct err *err))
{
	struct err err;

	if (check(field, value, NULL) == 0)
		return;
	err = (struct err){ 0 };
	(void)check(field, value, &err); /* once more, for its words */
	spec_fault_text(walk, err.text);
}
