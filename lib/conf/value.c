#include "lib/conf/value.h"

#include "lib/base/cleanup.h"
#include "lib/base/clock.h"
#include "lib/base/utf8.h"

#include <inttypes.h>
#include <limits.h>
#include <pwd.h>
#include <string.h>

static const char BLANKS[] = " \t";

static uint64_t text_bytes_max(const struct conf_key *key)
{
	return key->max ? key->max : PATH_MAX - 1;
}

static uint64_t number_max(const struct conf_key *key)
{
	return key->max ? key->max : UINT64_MAX;
}

/* --- numbers --- */

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit SIZE_UNITS[] = {
	{ "", 1 },
	{ "B", 1 },
	{ "K", UINT64_C(1) << 10 },
	{ "M", UINT64_C(1) << 20 },
	{ "G", UINT64_C(1) << 30 },
	{ "T", UINT64_C(1) << 40 },
	{ "KiB", UINT64_C(1) << 10 },
	{ "MiB", UINT64_C(1) << 20 },
	{ "GiB", UINT64_C(1) << 30 },
	{ "TiB", UINT64_C(1) << 40 },
	{ NULL, 0 },
};

static const struct unit DURATION_UNITS[] = {
	{ "", USEC_PER_SEC },
	{ "us", 1 },
	{ "ms", USEC_PER_MSEC },
	{ "s", USEC_PER_SEC },
	{ "sec", USEC_PER_SEC },
	{ "m", 60 * USEC_PER_SEC },
	{ "min", 60 * USEC_PER_SEC },
	{ "h", 3600 * USEC_PER_SEC },
	{ "hr", 3600 * USEC_PER_SEC },
	{ "d", 86400 * USEC_PER_SEC },
	{ NULL, 0 },
};

static bool digits_take(const char **p, uint64_t *ret)
{
	uint64_t value = 0;
	const char *start = *p;

	for (; **p >= '0' && **p <= '9'; (*p)++)
		if (__builtin_mul_overflow(value, UINT64_C(10), &value) ||
		        __builtin_add_overflow(value, (uint64_t)(**p - '0'), &value))
			return false;
	*ret = value;
	return *p > start;
}

static bool unit_take(const char **p, const struct unit *units, uint64_t *ret)
{
	size_t n = strspn(*p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");

	for (; units->name; units++) {
		if (strlen(units->name) == n && strncmp(units->name, *p, n) == 0) {
			*p += n;
			*ret = units->factor;
			return true;
		}
	}
	return false;
}

/* One or more "number unit", added up; a bare number stands alone. */
static bool quantity_parse(const char *p, const struct unit *units, bool several, uint64_t *ret)
{
	uint64_t sum = 0, value, factor;
	size_t n_parts = 0, n_bare = 0;

	do {
		if (!digits_take(&p, &value))
			return false;
		p += strspn(p, BLANKS);
		n_bare += *p == '\0' || (*p >= '0' && *p <= '9');
		n_parts++;
		if (!unit_take(&p, units, &factor) || __builtin_mul_overflow(value, factor, &value) ||
		        __builtin_add_overflow(sum, value, &sum))
			return false;
		p += strspn(p, BLANKS);
	} while (several && *p);
	*ret = sum;
	return *p == '\0' && (n_bare == 0 || n_parts == 1);
}

static bool number_parse(const struct conf_key *key, const char *text, uint64_t *slot)
{
	uint64_t value;
	bool read = false;

	if (key->type == CONF_UINT)
		read = digits_take(&text, &value) && *text == '\0';
	else if (key->type == CONF_SIZE)
		read = quantity_parse(text, SIZE_UNITS, false, &value);
	else
		read = quantity_parse(text, DURATION_UNITS, true, &value);
	if (!read || value < key->min || value > number_max(key))
		return false;
	*slot = value;
	return true;
}

/* --- words --- */

static bool bool_parse(const char *text, bool *slot)
{
	static const char *const YES[] = { "yes", "true", "on", "1" },
	                         *const NO[] = { "no", "false", "off", "0" };

	for (size_t i = 0; i < ARRAY_SIZE(YES); i++) {
		if (strcasecmp(text, YES[i]) == 0 || strcasecmp(text, NO[i]) == 0) {
			*slot = strcasecmp(text, YES[i]) == 0;
			return true;
		}
	}
	return false;
}

static bool enum_parse(const struct conf_choice *choices, const char *text, int *slot)
{
	for (; choices->name; choices++) {
		if (strcmp(choices->name, text) == 0) {
			*slot = choices->value;
			return true;
		}
	}
	return false;
}

static bool text_is_clean(const char *text)
{
	for (const char *p = text; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return false;
	return utf8_is_valid(text, strlen(text));
}

/* A value as it is meant: without the quotes around it. NULL when they do not match. */
static char *unquoted(const char *text, size_t n)
{
	bool quoted = n > 0 && (text[0] == '"' || text[0] == '\'');

	if (quoted && (n < 2 || text[n - 1] != text[0] || memchr(text + 1, text[0], n - 2)))
		return NULL;
	return quoted ? strndup(text + 1, n - 2) : strndup(text, n);
}

/* 1: done, 0: not acceptable. */
static int string_parse(const struct conf_key *key, const char *text, char **slot)
{
	CLEANUP_FREE char *value = NULL;
	bool quoted = text[0] == '"' || text[0] == '\'';

	if (quoted && !(value = unquoted(text, strlen(text))))
		return 0;
	/* Most likely meant as a comment, which needs a line of its own. */
	if (!quoted && (strstr(text, " #") || strstr(text, "\t#")))
		return 0;
	if (!value)
		value = strdup(text);
	if (!value)
		return -ENOMEM;
	if (!text_is_clean(value) || strlen(value) > text_bytes_max(key) ||
	        (key->type == CONF_PATH && value[0] != '/'))
		return 0;
	free(*slot);
	*slot = TAKE_PTR(value);
	return 1;
}

/* --- lists --- */

static int uid_parse(const char *text, uid_t *ret)
{
	char buf[4096];
	struct passwd entry, *found = NULL;
	const char *p = text;
	uint64_t number;

	if (digits_take(&p, &number) && *p == '\0') {
		/* (uid_t)-1 means "none" to the kernel. */
		if (number >= UINT32_MAX)
			return 0;
		*ret = (uid_t)number;
		return 1;
	}
	int r = getpwnam_r(text, &entry, buf, sizeof(buf), &found);
	if (r != 0 || !found)
		return r == ENOMEM ? -ENOMEM : 0;
	*ret = entry.pw_uid;
	return 1;
}

static int item_append(const struct conf_key *key, const char *item, void *slot)
{
	struct conf_list *list = slot;
	struct conf_uids *uids = slot;

	if (key->type == CONF_UIDS) {
		uid_t uid;
		int r = uid_parse(item, &uid);

		if (r <= 0)
			return r;
		uid_t *grown = reallocarray(uids->items, uids->n + 1, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		uids->items = grown;
		uids->items[uids->n++] = uid;
		return 1;
	}
	if (!text_is_clean(item) || !item[0])
		return 0;
	char **grown = reallocarray(list->items, list->n + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	list->items = grown;
	list->items[list->n] = strdup(item);
	return list->items[list->n++] ? 1 : -ENOMEM;
}

static size_t *items_count(const struct conf_key *key, void *slot)
{
	return key->type == CONF_UIDS ? &((struct conf_uids *)slot)->n : &((struct conf_list *)slot)->n;
}

static void items_cut(const struct conf_key *key, void *slot, size_t n_kept)
{
	size_t *n = items_count(key, slot);

	for (; *n > n_kept; (*n)--)
		if (key->type == CONF_LIST)
			free(((struct conf_list *)slot)->items[*n - 1]);
}

/* The length of the item at p, its quotes included. */
static size_t item_span(const char *p)
{
	if (*p == '"' || *p == '\'') {
		const char *end = strchr(p + 1, *p);
		size_t n = end ? (size_t)(end - p) + 1 : strlen(p);

		/* What touches the closing quote belongs to the item, and makes it one that does not
		 * match. */
		return n + strcspn(p + n, " \t,");
	}
	return strcspn(p, " \t,");
}

static int list_parse(const struct conf_key *key, const char *text, void *slot)
{
	size_t n_before = *items_count(key, slot);
	size_t n_max = key->max ? (size_t)key->max : CONF_LIST_MAX;
	int r = 1;

	for (const char *p = text + strspn(text, " \t,"); *p && r > 0; p += strspn(p, " \t,")) {
		size_t n = item_span(p);
		CLEANUP_FREE char *item = unquoted(p, n);

		p += n;
		r = 0;
		if (item && item[0] != '#' && *items_count(key, slot) < n_max)
			r = item_append(key, item, slot);
	}
	if (r <= 0)
		items_cut(key, slot, n_before);
	return r;
}

/* --- all of them --- */

static int parse(const struct conf_key *key, const char *text, void *slot)
{
	switch (key->type) {
	case CONF_STRING:
	case CONF_PATH:
		return string_parse(key, text, slot);
	case CONF_BOOL:
		return bool_parse(text, slot);
	case CONF_UINT:
	case CONF_SIZE:
	case CONF_DURATION:
		return number_parse(key, text, slot);
	case CONF_ENUM:
		return enum_parse(key->choices, text, slot);
	case CONF_LIST:
	case CONF_UIDS:
		return list_parse(key, text, slot);
	}
	return 0;
}

int conf_value_parse(const struct conf_key *key, const char *text, void *slot, struct err *err)
{
	char accepted[256];

	if (!text[0] && (key->type == CONF_LIST || key->type == CONF_UIDS)) {
		conf_value_clear(key, slot);
		return 0;
	}
	int r = parse(key, text, slot);
	if (r == 0)
		return err_set(
		        err, -EINVAL, "write %s", conf_value_accepted(key, accepted, sizeof(accepted)));
	return r < 0 ? r : 0;
}

void conf_value_clear(const struct conf_key *key, void *slot)
{
	switch (key->type) {
	case CONF_STRING:
	case CONF_PATH:
		free(*(char **)slot);
		*(char **)slot = NULL;
		break;
	case CONF_BOOL:
		*(bool *)slot = false;
		break;
	case CONF_UINT:
	case CONF_SIZE:
	case CONF_DURATION:
		*(uint64_t *)slot = 0;
		break;
	case CONF_ENUM:
		*(int *)slot = 0;
		break;
	case CONF_LIST:
		items_cut(key, slot, 0);
		free(((struct conf_list *)slot)->items);
		((struct conf_list *)slot)->items = NULL;
		break;
	case CONF_UIDS:
		free(((struct conf_uids *)slot)->items);
		*(struct conf_uids *)slot = (struct conf_uids){ 0 };
		break;
	}
}

/* --- words for people --- */

static void size_print(uint64_t bytes, char *buf, size_t size)
{
	static const char *const UNITS[] = { "", "K", "M", "G", "T" };
	size_t unit = 0;

	while (bytes > 0 && bytes % 1024 == 0 && unit + 1 < ARRAY_SIZE(UNITS)) {
		bytes /= 1024;
		unit++;
	}
	(void)snprintf(buf, size, "%" PRIu64 "%s", bytes, UNITS[unit]);
}

static void duration_print(uint64_t usec, char *buf, size_t size)
{
	static const struct unit UNITS[] = { { "d", 86400 * USEC_PER_SEC }, { "h", 3600 * USEC_PER_SEC },
		{ "min", 60 * USEC_PER_SEC }, { "s", USEC_PER_SEC }, { "ms", USEC_PER_MSEC }, { "us", 1 } };
	size_t i = 0;

	while (usec > 0 && usec % UNITS[i].factor != 0)
		i++;
	if (usec == 0)
		(void)snprintf(buf, size, "0s");
	else
		(void)snprintf(buf, size, "%" PRIu64 "%s", usec / UNITS[i].factor, UNITS[i].name);
}

static void number_print(const struct conf_key *key, uint64_t value, char *buf, size_t size)
{
	if (key->type == CONF_SIZE)
		size_print(value, buf, size);
	else if (key->type == CONF_DURATION)
		duration_print(value, buf, size);
	else
		(void)snprintf(buf, size, "%" PRIu64, value);
}

static char *number_accepted(const struct conf_key *key, const char *what, char *buf, size_t size)
{
	char min[32], max[32];

	number_print(key, key->min, min, sizeof(min));
	number_print(key, key->max, max, sizeof(max));
	if (key->max)
		(void)snprintf(buf, size, "%s from %s to %s", what, min, max);
	else if (key->min)
		(void)snprintf(buf, size, "%s, at least %s", what, min);
	else
		(void)snprintf(buf, size, "%s", what);
	return buf;
}

static char *choices_accepted(const struct conf_choice *choices, char *buf, size_t size)
{
	size_t n = (size_t)snprintf(buf, size, "one of:");

	for (; choices->name && n < size; choices++)
		n += (size_t)snprintf(buf + n, size - n, " %s%s", choices->name, choices[1].name ? "," : "");
	return buf;
}

char *conf_value_accepted(const struct conf_key *key, char *buf, size_t size)
{
	switch (key->type) {
	case CONF_STRING:
		(void)snprintf(buf, size,
		        "a text of at most %" PRIu64 " bytes, in matching quotes if it has quotes or ' #'; a "
		        "comment needs a line of its own",
		        text_bytes_max(key));
		return buf;
	case CONF_PATH:
		(void)snprintf(
		        buf, size, "an absolute path of at most %" PRIu64 " bytes", text_bytes_max(key));
		return buf;
	case CONF_BOOL:
		(void)snprintf(buf, size, "yes or no");
		return buf;
	case CONF_UINT:
		return number_accepted(key, "a whole number", buf, size);
	case CONF_SIZE:
		return number_accepted(key, "a size such as 512M or 2G", buf, size);
	case CONF_DURATION:
		return number_accepted(key, "a duration such as 5s, 2min or 500ms", buf, size);
	case CONF_ENUM:
		return choices_accepted(key->choices, buf, size);
	case CONF_LIST:
		(void)snprintf(buf, size, "items apart by spaces or commas, at most %" PRIu64,
		        key->max ? key->max : CONF_LIST_MAX);
		return buf;
	case CONF_UIDS:
		(void)snprintf(
		        buf, size, "names of users of this host or their numbers, apart by spaces or commas");
		return buf;
	}
	return buf;
}

static void text_print(const char *text, FILE *f)
{
	const char *quote = strchr(text, '"') ? "'" : "\"";
	bool plain = text[0] && !strpbrk(text, " \t#,;'\"");

	(void)fprintf(f, "%s%s%s", plain ? "" : quote, text, plain ? "" : quote);
}

void conf_value_print(const struct conf_key *key, const void *slot, FILE *f)
{
	const struct conf_list *list = slot;
	const struct conf_uids *uids = slot;
	const char *text;
	char number[32];

	switch (key->type) {
	case CONF_STRING:
	case CONF_PATH:
		text = *(char *const *)slot;
		if (text && text[0])
			text_print(text, f);
		break;
	case CONF_BOOL:
		(void)fputs(*(const bool *)slot ? "yes" : "no", f);
		break;
	case CONF_UINT:
	case CONF_SIZE:
	case CONF_DURATION:
		number_print(key, *(const uint64_t *)slot, number, sizeof(number));
		(void)fputs(number, f);
		break;
	case CONF_ENUM:
		for (const struct conf_choice *c = key->choices; c->name; c++)
			if (c->value == *(const int *)slot)
				(void)fputs(c->name, f);
		break;
	case CONF_LIST:
		for (size_t i = 0; i < list->n; i++) {
			(void)fputs(i ? " " : "", f);
			text_print(list->items[i], f);
		}
		break;
	case CONF_UIDS:
		for (size_t i = 0; i < uids->n; i++)
			(void)fprintf(f, "%s%u", i ? " " : "", uids->items[i]);
		break;
	}
}
