#include "cli/spec_diff.h"

#include "cli/style.h"
#include "lib/base/cleanup.h"
#include "lib/text/proto_write.h"

#include <errno.h>
#include <string.h>

enum { PATH_MAX_BYTES = 128, VALUE_SHOWN_MAX = 160, DEPTH_MAX = 16 };

struct diff {
	FILE *to;
	bool color;
	int n; /* things that differ */
};

static void line(const struct diff *diff, char sign, enum style style, const char *indent, const char *text)
{
	CLEANUP_FREE char *safe = style_safe(text);

	(void)fprintf(diff->to, "%s%s%c %s%s\n", style_begin(style, diff->color), indent, sign,
	        safe ? safe : "", style_end(style, diff->color));
}

static void tree_decref(json_t **tree)
{
	json_decref(*tree);
}
#define CLEANUP_JSON __attribute__((cleanup(tree_decref)))

/* "2", "RUNNING", "{…}" shortened. Owned by the caller. */
static char *value_text(const json_t *value)
{
	char *text;

	if (!value)
		return strdup("nothing");
	if (json_is_string(value))
		return strdup(json_string_value(value));
	text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
	if (text && strlen(text) > VALUE_SHOWN_MAX) {
		size_t n = VALUE_SHOWN_MAX - sizeof("…");

		while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
			n--;
		(void)strcpy(text + n, "…");
	}
	return text;
}

static void field_changed(struct diff *diff, const char *path, const json_t *old, const json_t *new)
{
	CLEANUP_FREE char *was = value_text(old);
	CLEANUP_FREE char *is = value_text(new);
	CLEANUP_FREE char *text = NULL;

	if (asprintf(&text, "%s: %s → %s", path, was ? was : "?", is ? is : "?") < 0)
		text = NULL;
	line(diff, ' ', STYLE_PLAIN, "    ", text ? text : path);
}

/* Goes down where both sides have the same shape, so that the path is as long as it helps. */
static void values_compare(
        struct diff *diff, const char *path, const json_t *old, const json_t *new, unsigned depth)
{
	char inner[PATH_MAX_BYTES];
	const char *key;
	json_t *item;

	if (old && new &&json_equal(old, new))
		return;
	if (depth < DEPTH_MAX && json_is_object(old) && json_is_object(new)) {
		json_object_foreach((json_t *)(uintptr_t) new, key, item)
		{
			(void)snprintf(inner, sizeof(inner), "%s%s%s", path, path[0] ? "." : "", key);
			values_compare(diff, inner, json_object_get(old, key), item, depth + 1);
		}
		json_object_foreach((json_t *)(uintptr_t)old, key, item)
		{
			if (json_object_get(new, key))
				continue;
			(void)snprintf(inner, sizeof(inner), "%s%s%s", path, path[0] ? "." : "", key);
			field_changed(diff, inner, item, NULL);
		}
		return;
	}
	if (depth < DEPTH_MAX && json_is_array(old) && json_is_array(new) &&
	        json_array_size(old) == json_array_size(new)) {
		for (size_t i = 0; i < json_array_size(new); i++) {
			(void)snprintf(inner, sizeof(inner), "%s[%zu]", path, i);
			values_compare(
			        diff, inner, json_array_get(old, i), json_array_get(new, i), depth + 1);
		}
		return;
	}
	field_changed(diff, path, old, new);
}

/* --- things with an id --- */

static const char *id_of(const json_t *thing)
{
	const char *id = json_string_value(json_object_get(thing, "id"));

	return id ? id : "";
}

/* A map from id to thing. */
static json_t *by_id(const json_t *list)
{
	json_t *map = json_object();

	for (size_t i = 0; map && i < json_array_size(list); i++)
		(void)json_object_set(map, id_of(json_array_get(list, i)), json_array_get(list, i));
	return map;
}

static void thing_line(struct diff *diff, char sign, const char *kind, const json_t *thing)
{
	static const char *const SHOWN[] = { "runtime", "desiredState", "vcpus", "memoryBytes", "sizeBytes",
		"state" };
	enum style style = sign == '+' ? STYLE_GOOD : sign == '-' ? STYLE_BAD : STYLE_WARN;
	char text[256];
	int n = snprintf(text, sizeof(text), "%s %s", kind, id_of(thing));

	for (size_t i = 0; sign != '~' && i < ARRAY_SIZE(SHOWN) && n >= 0 && (size_t)n < sizeof(text); i++) {
		const json_t *value = json_object_get(thing, SHOWN[i]);
		CLEANUP_FREE char *shown = value ? value_text(value) : NULL;

		if (shown)
			n += snprintf(text + n, sizeof(text) - (size_t)n, " %s=%s", SHOWN[i], shown);
	}
	line(diff, sign, style, "", text);
	diff->n++;
}

/* kept: what is left out stays, so that it is no difference. */
static int lists_compare(struct diff *diff, const char *kind, bool kept, const json_t *old, const json_t *new)
{
	CLEANUP_JSON json_t *before = by_id(old);
	CLEANUP_JSON json_t *after = by_id(new);
	const char *id;
	json_t *thing;

	if (!before || !after)
		return -ENOMEM;
	json_object_foreach(before, id, thing)
	{
		if (json_object_get(after, id))
			continue;
		if (kept)
			(void)fprintf(
			        diff->to, "  %s %s is no longer named: it is kept, unclaimed\n", kind, id);
		else
			thing_line(diff, '-', kind, thing);
	}
	json_object_foreach(after, id, thing)
	{
		const json_t *was = json_object_get(before, id);

		if (!was) {
			thing_line(diff, '+', kind, thing);
		} else if (!json_equal(was, thing)) {
			thing_line(diff, '~', kind, thing);
			values_compare(diff, "", was, thing, 0);
		}
	}
	return 0;
}

static int trees_compare(struct diff *diff, const json_t *old, const json_t *new)
{
	static const struct {
		const char *list, *kind;
		bool kept;
	} LISTS[] = { { "volumes", "volume", true }, { "holds", "hold", false }, { "gpus", "gpu", false } };
	const json_t *instances = json_object_get(new, "instances");
	int r = 0;

	if (!instances)
		(void)fprintf(diff->to, "  no instances section: every instance stays as it is\n");
	else
		r = lists_compare(diff, "instance", false,
		        json_object_get(json_object_get(old, "instances"), "items"),
		        json_object_get(instances, "items"));
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(LISTS); i++)
		r = lists_compare(diff, LISTS[i].kind, LISTS[i].kept, json_object_get(old, LISTS[i].list),
		        json_object_get(new, LISTS[i].list));
	return r < 0 ? r : diff->n;
}

int spec_diff_print(const Bc__V1__NodeSpec *old_spec, const Bc__V1__NodeSpec *new_spec, FILE *to, bool color)
{
	struct diff diff = { .to = to, .color = color };
	CLEANUP_JSON json_t *old = NULL;
	CLEANUP_JSON json_t *new = NULL;
	int r = old_spec ? proto_write_tree(&old_spec->base, 0, &old) : 0;

	if (r == 0)
		r = proto_write_tree(&new_spec->base, 0, &new);
	return r < 0 ? r : trees_compare(&diff, old, new);
}
