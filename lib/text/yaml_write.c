#include "lib/text/yaml_write.h"

#include "lib/base/cleanup.h"
#include "lib/text/number.h"

#include <string.h>
#include <yaml.h>

static size_t span(const char *p, const char *set)
{
	return strspn(p, set);
}

static bool is_date(const char *p)
{
	static const char DIGITS[] = "0123456789";

	return span(p, DIGITS) == 4 && p[4] == '-' && span(p + 5, DIGITS) >= 1 &&
	        p[5 + span(p + 5, DIGITS)] == '-';
}

static bool is_numeric(const char *p)
{
	p += *p == '+' || *p == '-';
	if (p[0] == '0' && p[1] && strchr("xXoObB", p[1]))
		return p[2 + span(p + 2, "0123456789abcdefABCDEF_")] == '\0';
	if (strcasecmp(p, ".inf") == 0 || strcasecmp(p, ".nan") == 0)
		return true;
	/* Integers, floats and the sexagesimals of 1.1, which MAC addresses and times can look like. */
	size_t n = span(p, "0123456789_.:,");
	if (n == 0)
		return false;
	if (p[n] == 'e' || p[n] == 'E') {
		p += n + 1;
		p += *p == '+' || *p == '-';
		n = span(p, "0123456789_");
	}
	return n > 0 && p[n] == '\0';
}

bool yaml_text_is_ambiguous(const char *text)
{
	static const char *const WORDS[] = { "", "~", "null", "true", "false", "yes", "no", "on", "off", "y",
		"n", "=", "<<" };

	for (size_t i = 0; i < ARRAY_SIZE(WORDS); i++)
		if (strcasecmp(text, WORDS[i]) == 0)
			return true;
	return is_numeric(text) || is_date(text);
}

struct output {
	char *text; /* owned */
	size_t n;
};

static int output_add(void *userdata, unsigned char *data, size_t n_data)
{
	struct output *output = userdata;
	char *grown = realloc(output->text, output->n + n_data + 1);

	if (!grown)
		return 0;
	memcpy(grown + output->n, data, n_data);
	output->text = grown;
	output->n += n_data;
	output->text[output->n] = '\0';
	return 1;
}

/* Each returns libyaml's 1, or 0 without memory; an emitted event is libyaml's in either case. */
static int scalar_emit(yaml_emitter_t *emitter, const char *text, size_t n, yaml_scalar_style_t style)
{
	yaml_event_t event;

	return yaml_scalar_event_initialize(
	               &event, NULL, NULL, (const yaml_char_t *)text, (int)n, 1, 1, style) &&
	        yaml_emitter_emit(emitter, &event);
}

static yaml_scalar_style_t string_style(const char *text, size_t n)
{
	if (memchr(text, '\n', n))
		return YAML_LITERAL_SCALAR_STYLE;
	return yaml_text_is_ambiguous(text) ? YAML_DOUBLE_QUOTED_SCALAR_STYLE : YAML_ANY_SCALAR_STYLE;
}

static int string_emit(yaml_emitter_t *emitter, const char *text, size_t n)
{
	return scalar_emit(emitter, text, n, string_style(text, n));
}

static int number_emit(yaml_emitter_t *emitter, const json_t *tree)
{
	/* jansson prints it: it does not heed the locale. */
	size_t digits = json_is_real(tree) ? (size_t)number_digits_double(json_real_value(tree)) : 0;
	CLEANUP_FREE char *text = json_dumps(tree, JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits));

	return text && scalar_emit(emitter, text, strlen(text), YAML_PLAIN_SCALAR_STYLE);
}

static int word_emit(yaml_emitter_t *emitter, const char *word)
{
	return scalar_emit(emitter, word, strlen(word), YAML_PLAIN_SCALAR_STYLE);
}

static int tree_emit(yaml_emitter_t *emitter, const json_t *tree);

static int list_emit(yaml_emitter_t *emitter, const json_t *tree)
{
	yaml_event_t event;
	json_t *item;
	size_t i;

	if (!yaml_sequence_start_event_initialize(&event, NULL, NULL, 1, YAML_ANY_SEQUENCE_STYLE) ||
	        !yaml_emitter_emit(emitter, &event))
		return 0;
	json_array_foreach(tree, i, item) if (!tree_emit(emitter, item)) return 0;
	return yaml_sequence_end_event_initialize(&event) && yaml_emitter_emit(emitter, &event);
}

static int object_emit(yaml_emitter_t *emitter, const json_t *tree)
{
	yaml_event_t event;
	const char *key;
	json_t *item;

	if (!yaml_mapping_start_event_initialize(&event, NULL, NULL, 1, YAML_ANY_MAPPING_STYLE) ||
	        !yaml_emitter_emit(emitter, &event))
		return 0;
	json_object_foreach((json_t *)(uintptr_t)tree, key, item)
	{
		if (!string_emit(emitter, key, strlen(key)) || !tree_emit(emitter, item))
			return 0;
	}
	return yaml_mapping_end_event_initialize(&event) && yaml_emitter_emit(emitter, &event);
}

static int tree_emit(yaml_emitter_t *emitter, const json_t *tree)
{
	switch (json_typeof(tree)) {
	case JSON_OBJECT:
		return object_emit(emitter, tree);
	case JSON_ARRAY:
		return list_emit(emitter, tree);
	case JSON_STRING:
		return string_emit(emitter, json_string_value(tree), json_string_length(tree));
	case JSON_INTEGER:
	case JSON_REAL:
		return number_emit(emitter, tree);
	case JSON_TRUE:
		return word_emit(emitter, "true");
	case JSON_FALSE:
		return word_emit(emitter, "false");
	case JSON_NULL:
		return word_emit(emitter, "null");
	}
	return 0;
}

static int document_emit(yaml_emitter_t *emitter, const json_t *tree)
{
	yaml_event_t event;

	return yaml_emitter_open(emitter) &&
	        yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1) &&
	        yaml_emitter_emit(emitter, &event) && tree_emit(emitter, tree) &&
	        yaml_document_end_event_initialize(&event, 1) && yaml_emitter_emit(emitter, &event) &&
	        yaml_emitter_close(emitter);
}

int yaml_text(const json_t *tree, char **ret_text)
{
	struct output output = { 0 };
	yaml_emitter_t emitter;

	if (!yaml_emitter_initialize(&emitter))
		return -ENOMEM;
	yaml_emitter_set_output(&emitter, output_add, &output);
	yaml_emitter_set_unicode(&emitter, 1);
	yaml_emitter_set_width(&emitter, -1);
	int done = document_emit(&emitter, tree);
	yaml_emitter_delete(&emitter);
	if (!done || !output.text) {
		free(output.text);
		return -ENOMEM;
	}
	*ret_text = output.text;
	return 0;
}
